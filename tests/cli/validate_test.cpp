// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/command.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;

const std::string kProviders = OPMUX_SOURCE_DIR "/manifests/providers/";

TEST(Validate, MissingFileIsWrongUsage) {
  const Outcome outcome = Command{}.run({"validate", "/nonexistent/vllm.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no manifest /nonexistent/vllm.yaml"));
}

TEST(Validate, FolderIsWrongUsage) {
  const Outcome outcome = Command{}.run({"validate", kProviders});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("is a folder"));
}

TEST(Validate, NativeIsGood) {
  const Outcome outcome = Command{}.run({"validate", kProviders + "native.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("good: 14 operators with a usable binding"));
}

TEST(Validate, ProviderThatIsNotInstalledIsAFinding) {
  const Outcome outcome = Command{}.run({"validate", kProviders + "vllm_cpu.yaml", "--json"});
  EXPECT_EQ(outcome.code, 1);
  const nlohmann::json report = outcome.json();
  EXPECT_EQ(report.at("operators").size(), 6U);
  for (const nlohmann::json& each : report.at("operators")) {
    ASSERT_EQ(each.at("bindings").size(), 1U) << "no other provider is read";
    EXPECT_EQ(each.at("bindings")[0].at("provider"), "vllm_cpu");
    EXPECT_EQ(each.at("bindings")[0].at("rejection").at("stage"), "discovery");
  }
}

TEST(Validate, EveryOperatorThatVllmServesIsBound) {
  const nlohmann::json report =
      Command{}.run({"validate", kProviders + "vllm.yaml", "--json"}).json();
  EXPECT_EQ(report.at("operators").size(), 21U);
  EXPECT_EQ(binding_in(report, "gptq_marlin_repack", "vllm").at("device"), "cuda");
}

TEST(Validate, WrongManifestIsAFindingWithItsPlace) {
  const Command command;
  const auto file = command.folder().write("wrong.yaml", "manifest: 1\nprovider: [x]\n");
  const Outcome outcome = command.run({"validate", file.string(), "--json"});
  EXPECT_EQ(outcome.code, 1);
  const nlohmann::json rejection = outcome.json().at("rejections").at(0);
  EXPECT_EQ(rejection.at("rule"), "yaml.wrong_form");
  EXPECT_THAT(rejection.at("subject").get<std::string>(), HasSubstr("wrong.yaml:2:11"));
}

TEST(Validate, DeclarationsAloneAreGood) {
  const Outcome outcome =
      Command{}.run({"validate", OPMUX_SOURCE_DIR "/manifests/operators/activation.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("bind no operator"));
}

TEST(Validate, DeclaresAndBindsAnOperatorFromOneFile) {
  const Outcome outcome =
      Command{}.run({"validate", OPMUX_SOURCE_DIR "/tests/manifests/gelu_quick.yaml", "--json"});
  EXPECT_EQ(outcome.code, 1) << "vllm-cpu is not installed here";
  EXPECT_EQ(binding_in(outcome.json(), "gelu_quick", "gelu_quick_cpu").at("contract"),
            "dispatcher");
  EXPECT_TRUE(outcome.json().at("rejections").empty() ||
              outcome.json().at("rejections")[0].at("rule") == "discovery.no_environment")
      << outcome.json().at("rejections").dump(2);
}

}  // namespace
}  // namespace opmux::testing
