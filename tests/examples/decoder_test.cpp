// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"

namespace opmux::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DecoderTest : public ::testing::Test {
 protected:
  // Runs with these routes; `drop_in` is one of the providers that tests build.
  Outcome decode(const std::string& providers, std::vector<std::string> arguments,
                 const std::string& drop_in = "example_provider") const {
    const auto file = command_.folder().write(
        "opmux.yaml", "config: 1\nmanifests: [" OPMUX_DROP_IN "/" + drop_in +
                          "]\nroutes:\n  \"*\": [" + providers + "]\n");
    arguments.insert(arguments.end(), {"--config", file.string()});
    return command_.run(arguments);
  }

  Command command_{"opmux-decoder"};
};

TEST_F(DecoderTest, NativeMakesTheSameTokensEverywhere) {
  const Outcome outcome = decode("native", {"--tokens", "64", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  const std::vector<int> tokens = json.at("tokens");
  ASSERT_EQ(tokens.size(), 64U);
  EXPECT_THAT(std::vector<int>(tokens.begin(), tokens.begin() + 8),
              ElementsAre(92, 234, 469, 327, 76, 284, 151, 457));
  EXPECT_GE(std::set<int>(tokens.begin(), tokens.end()).size(), 32U) << "they go round in circles";
  EXPECT_EQ(json.at("comparison"), nullptr);
  EXPECT_EQ(decode("native", {"--tokens", "64", "--json"}).out, outcome.out);
}

TEST_F(DecoderTest, EachStepSaysWhoServedItInWhichGeneration) {
  const nlohmann::json json =
      decode("example_provider, native", {"--tokens", "3", "--layers", "3", "--json"}).json();
  ASSERT_EQ(json.at("steps").size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const nlohmann::json& step = json.at("steps")[i];
    EXPECT_EQ(step.at("token"), json.at("tokens")[i]);
    const nlohmann::json generation = step.at("generation");
    EXPECT_GE(generation, 1);
    const auto served = [&](const char* provider, int calls) {
      return nlohmann::json::array(
          {{{"provider", provider}, {"generation", generation}, {"calls", calls}}});
    };
    // Two norms a layer and one at the end.
    EXPECT_EQ(step.at("operators").at("rms_norm"), served("native", 7));
    EXPECT_EQ(step.at("operators").at("rotary_embedding"), served("native", 3));
    EXPECT_EQ(step.at("operators").at("flash_attn_with_kvcache.int"), served("native", 3));
    EXPECT_EQ(step.at("operators").at("silu_and_mul"), served("example_provider", 3));
  }
}

TEST_F(DecoderTest, SmallestMarginIsThatOfAStep) {
  const nlohmann::json json = decode("native", {"--tokens", "16", "--json"}).json();
  double smallest = 1e9;
  for (const nlohmann::json& step : json.at("steps")) {
    EXPECT_GT(step.at("margin"), 0.0);
    smallest = std::min(smallest, step.at("margin").get<double>());
  }
  EXPECT_EQ(json.at("smallest_margin").at("value"), smallest);
  EXPECT_EQ(json.at("steps")[json.at("smallest_margin").at("step").get<std::size_t>()].at("margin"),
            smallest);
}

TEST_F(DecoderTest, DroppedInProviderLeavesTheTokensWhatTheyAre) {
  const nlohmann::json native = decode("native", {"--json"}).json();
  const Outcome outcome = decode("example_provider, native", {"--json", "--compare"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json.at("tokens"), native.at("tokens"));
  const nlohmann::json& comparison = json.at("comparison");
  EXPECT_EQ(comparison.at("providers"), nlohmann::json({"native", "example_provider"}));
  EXPECT_GT(comparison.at("largest_difference"), 0.0);
  EXPECT_GE(comparison.at("ratio"), 100.0);
  EXPECT_EQ(comparison.at("ratio"), json.at("smallest_margin").at("value").get<double>() /
                                        comparison.at("largest_difference").get<double>());
  EXPECT_TRUE(comparison.at("holds"));
}

TEST_F(DecoderTest, TooLargeADifferenceIsAFinding) {
  // The run is native's: the provider is compared wherever it stands.
  const Outcome outcome = decode("native", {"--json", "--compare"}, "skewed_provider");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is not 100 times the largest difference"));
  const nlohmann::json json = outcome.json();
  const nlohmann::json& comparison = json.at("comparison");
  EXPECT_EQ(comparison.at("providers"), nlohmann::json({"native", "skewed_provider"}));
  EXPECT_FALSE(comparison.at("holds"));
  EXPECT_LT(comparison.at("ratio"), 100.0);
}

TEST_F(DecoderTest, NothingToCompareWithIsSaid) {
  const auto file =
      command_.folder().write("opmux.yaml", "config: 1\nroutes:\n  \"*\": [native]\n");
  const Outcome outcome = command_.run({"--tokens", "4", "--compare", "--config", file.string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("compared native; no other provider serves here"));
}

TEST_F(DecoderTest, TextTellsEachStepAndTheTokens) {
  const Outcome outcome = decode("native", {"--tokens", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("step    0  token"));
  EXPECT_THAT(outcome.out, HasSubstr(" rms_norm=native rotary_embedding=native "));
  EXPECT_THAT(outcome.out, HasSubstr("\n2 tokens, 2 of them distinct; smallest top-1 margin"));
}

TEST_F(DecoderTest, MissingConfigurationIsWrongUsage) {
  const Outcome outcome = command_.run({"--config", "/nonexistent/opmux.yaml", "--json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent/opmux.yaml: expected a configuration"));
  EXPECT_EQ(outcome.json().at("rejection").at("rule"), "config.missing");
}

TEST_F(DecoderTest, BrokenConfigurationIsAFinding) {
  const Outcome outcome = decode("nativ", {"--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.json().at("rejection").at("rule"), "config.unknown_provider");
}

TEST_F(DecoderTest, WrongOptionsNameWhatIsAllowed) {
  struct Case {
    std::vector<std::string> arguments;
    const char* told;
  };
  for (const Case& each :
       {Case{{"--hidden", "100"}, "100 is no multiple of 64"},
        Case{{"--tokens", "0"}, "not in range 1 to 4096"},
        Case{{"--config", ""}, "--config: an empty value"},
        Case{{"--seed", "-1"}, "-1 is no whole number"}, Case{{"--tokns", "4"}, "--tokns"}}) {
    const Outcome outcome = command_.run(each.arguments);
    EXPECT_EQ(outcome.code, 2) << each.told;
    EXPECT_THAT(outcome.err, HasSubstr(each.told));
    EXPECT_THAT(outcome.err, HasSubstr("opmux-decoder --help"));
  }
}

}  // namespace
}  // namespace opmux::testing
