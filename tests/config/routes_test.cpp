// SPDX-License-Identifier: Apache-2.0
//
// What an opmux.yaml says of routes beside the plain list.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "opmux/plugin.h"

namespace opmux {
namespace {

using std::chrono::milliseconds;
using Names = std::vector<std::string>;

const char* const kFile = "/etc/opmux/opmux.yaml";

RouteRule rule_of(const std::string& settings) {
  const Result<Config> result = parse_config("config: 1\nroutes:\n  a: " + settings + "\n", kFile);
  EXPECT_TRUE(result.ok()) << settings << ": " << to_string(result.rejection());
  return result.ok() && result->routes.size() == 1 ? result->routes.front() : RouteRule{};
}

TEST(ConfigRoutes, EverySettingIsRead) {
  const RouteRule rule = rule_of(
      "{order: [b, native], strict: true, on_error: next, require: [deterministic, in_place], "
      "quarantine: {failures: 3, retry: 30s}, shadow: {provider: native, sample: 0.01}}");
  EXPECT_EQ(rule.pattern, "a");
  EXPECT_EQ(rule.line, 3);
  EXPECT_EQ(rule.column, 3);
  EXPECT_EQ(rule.providers, (Names{"b", "native"}));
  EXPECT_EQ(rule.strict, true);
  EXPECT_EQ(rule.on_error, OnError::kNext);
  EXPECT_EQ(rule.require, Properties{OPMUX_PROPERTY_DETERMINISTIC | OPMUX_PROPERTY_IN_PLACE});
  EXPECT_EQ(rule.quarantine, (QuarantineSettings{3, milliseconds{30000}}));
  EXPECT_EQ(rule.shadow, (ShadowSettings{0.01, "native"}));
}

TEST(ConfigRoutes, WhatIsNotWrittenIsNotSet) {
  const RouteRule rule = rule_of("{strict: false}");
  EXPECT_TRUE(rule.providers.empty() && rule.cpu_providers.empty() && rule.cuda_providers.empty());
  EXPECT_EQ(rule.strict, false);
  EXPECT_FALSE(rule.on_error || rule.require || rule.quarantine || rule.shadow);
  EXPECT_FALSE(rule_of("[b]").strict);
}

TEST(ConfigRoutes, EachDeviceMayHaveItsOrder) {
  const RouteRule both = rule_of("{order: {cpu: [native], cuda: [b, native]}}");
  EXPECT_TRUE(both.providers.empty());
  EXPECT_EQ(both.cpu_providers, (Names{"native"}));
  EXPECT_EQ(both.cuda_providers, (Names{"b", "native"}));
  const RouteRule one = rule_of("{order: {cuda: [b]}}");
  EXPECT_TRUE(one.cpu_providers.empty());
  EXPECT_EQ(one.cuda_providers, (Names{"b"}));
}

TEST(ConfigRoutes, WhatAnEarlierRuleTurnedOnIsTurnedOff) {
  const RouteRule rule = rule_of("{on_error: raise, require: [], quarantine: none, shadow: none}");
  EXPECT_EQ(rule.on_error, OnError::kRaise);
  EXPECT_EQ(rule.require, Properties{0});
  EXPECT_EQ(rule.quarantine, QuarantineSettings{});
  EXPECT_EQ(rule.shadow, ShadowSettings{});
}

TEST(ConfigRoutes, AShadowWithoutAProviderIsTheNextOne) {
  EXPECT_EQ(rule_of("{shadow: {sample: 1}}").shadow, (ShadowSettings{1.0, ""}));
}

struct FaultCase {
  const char* settings;  // begins at 2:13
  const char* rule;
  const char* subject;
  const char* expected;
  const char* found;
};

class ConfigRouteFault : public testing::TestWithParam<FaultCase> {};

TEST_P(ConfigRouteFault, IsNamed) {
  const Result<Config> result =
      parse_config("config: 1\nroutes: {a: " + std::string{GetParam().settings} + "}\n", kFile);
  ASSERT_FALSE(result.ok());
  const Rejection& rejection = result.rejection();
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject, "/etc/opmux/opmux.yaml:" + std::string{GetParam().subject});
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
  EXPECT_FALSE(rejection.hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, ConfigRouteFault,
    testing::Values(
        FaultCase{"{}", "yaml.wrong_form", "2:13",
                  "route `a`: a list of providers in the order to try, or a map of settings",
                  "a map"},
        FaultCase{"{stric: true}", "yaml.unknown_key", "2:14",
                  "a key of route `a`: order, strict, on_error, require, quarantine, shadow",
                  "`stric`"},
        FaultCase{"{strict: yes}", "yaml.wrong_form", "2:22",
                  "`strict`: true or false, without quotes", "`yes`"},
        FaultCase{"{order: []}", "yaml.wrong_form", "2:21",
                  "`order`: a list of providers, or a map with a list for `cpu`, `cuda` or both",
                  "an empty list"},
        FaultCase{"{order: {gpu: [b]}}", "yaml.unknown_key", "2:22", "a key of `order`: cpu, cuda",
                  "`gpu`"},
        FaultCase{"{order: {cpu: b}}", "yaml.wrong_form", "2:27",
                  "`cpu`: a list of providers in the order to try", "`b`"},
        FaultCase{"{order: {cpu: [b, b]}}", "yaml.wrong_form", "2:31",
                  "route `a`: each provider once", "`b` twice"},
        FaultCase{"{on_error: nxt}", "yaml.wrong_form", "2:24", "`on_error`: one of raise, next",
                  "`nxt`"},
        FaultCase{"{require: deterministic}", "yaml.wrong_form", "2:23",
                  "`require`: a list of deterministic, graph_capture, in_place", "`deterministic`"},
        FaultCase{"{require: [determinstic]}", "yaml.wrong_form", "2:24",
                  "`require`: a property, one of deterministic, graph_capture, in_place",
                  "`determinstic`"},
        FaultCase{"{require: [in_place, in_place]}", "yaml.wrong_form", "2:34",
                  "`require`: each of deterministic, graph_capture, in_place at most once",
                  "`in_place` twice"},
        FaultCase{"{quarantine: 3}", "yaml.wrong_form", "2:26", "`quarantine`: a map", "`3`"},
        FaultCase{"{quarantine: {failures: 3}}", "yaml.missing_key", "2:26",
                  "the key `retry` in `quarantine`", "no such key"},
        FaultCase{"{quarantine: {failures: 0, retry: 1s}}", "yaml.wrong_form", "2:37",
                  "`failures`: an integer in decimal digits, without quotes, leading zeros or "
                  "exponent, from 1 to 1000000",
                  "`0`"},
        FaultCase{"{quarantine: {failures: 1, retry: 30}}", "yaml.wrong_form", "2:47",
                  "`retry`: a duration such as 500ms, 10s or 2m, at most 1h in all", "`30`"},
        FaultCase{"{shadow: {provider: b}}", "yaml.missing_key", "2:22",
                  "the key `sample` in `shadow`", "no such key"},
        FaultCase{"{shadow: {sample: 0}}", "yaml.wrong_form", "2:31",
                  "`sample`: the share of calls, more than 0 and at most 1", "`0`"},
        FaultCase{"{shadow: {sample: 1.5}}", "yaml.wrong_form", "2:31",
                  "`sample`: the share of calls, more than 0 and at most 1", "`1.5`"},
        FaultCase{"{shadow: {sample: 1, provider: \"\"}}", "yaml.wrong_form", "2:44",
                  "`provider`: the provider that serves the second time", "the quoted text ``"}));

TEST(ConfigRoutes, AMisspeltWordNamesTheNearest) {
  const auto hint = [](const std::string& settings) {
    return parse_config("config: 1\nroutes: {a: " + settings + "}\n", kFile).rejection().hint;
  };
  EXPECT_EQ(hint("{stric: true}"), "Did you mean `strict`?");
  EXPECT_EQ(hint("{on_error: nxt}"), "Did you mean `next`?");
  EXPECT_EQ(hint("{require: [inplace]}"), "Did you mean `in_place`?");
}

}  // namespace
}  // namespace opmux
