// SPDX-License-Identifier: Apache-2.0
//
// The text of an opmux.yaml.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/config/config.hpp"

namespace opmux {
namespace {

using std::chrono::milliseconds;

const char* const kFile = "/etc/opmux/opmux.yaml";

Config accepted(const std::string& text) {
  Result<Config> result = parse_config(text, kFile);
  EXPECT_TRUE(result.ok()) << to_string(result.rejection());
  return result.ok() ? *std::move(result) : Config{};
}

Rejection refused(const std::string& text) {
  const Result<Config> result = parse_config(text, kFile);
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? Rejection{} : result.rejection();
}

TEST(ConfigFile, EveryKeyIsRead) {
  const Config config = accepted(
      "config: 1\n"
      "environments: [/opt/torch-env, ../venv]\n"
      "manifests: [kernels]\n"
      "routes:\n"
      "  \"*\": [vllm, native]\n"
      "  flash_attn_*: [flash_attn]\n"
      "strict: true\n"
      "start: background\n"
      "watch: true\n"
      "probe: {deadline: 500ms}\n"
      "log: debug\n"
      "threads: 8\n"
      "lock: opmux.lock\n"
      "trust: strict\n");
  EXPECT_EQ(config.file, kFile);
  EXPECT_EQ(config.environments,
            (std::vector<std::filesystem::path>{"/opt/torch-env", "/etc/venv"}));
  EXPECT_EQ(config.manifests, (std::vector<std::filesystem::path>{"/etc/opmux/kernels"}));
  ASSERT_EQ(config.routes.size(), 2U);
  EXPECT_EQ(config.routes[0].pattern, "*");
  EXPECT_EQ(config.routes[0].providers, (std::vector<std::string>{"vllm", "native"}));
  EXPECT_EQ(config.routes[0].line, 5);
  EXPECT_EQ(config.routes[0].column, 3);
  EXPECT_EQ(config.routes[1].pattern, "flash_attn_*");
  EXPECT_TRUE(config.strict);
  EXPECT_EQ(config.start, Start::kBackground);
  EXPECT_TRUE(config.watch);
  EXPECT_EQ(config.probe_deadline, milliseconds{500});
  EXPECT_EQ(config.log_level, "debug");
  EXPECT_EQ(config.threads, 8);
  EXPECT_EQ(config.trust, Trust::kStrict);
  EXPECT_EQ(config.lock_file, std::filesystem::path{"/etc/opmux/opmux.lock"});
  EXPECT_FALSE(config.cache_folder);
}

TEST(ConfigFile, DefaultsStandWhereNothingIsSaid) {
  const Config config = accepted("config: 1\n");
  EXPECT_TRUE(config.environments.empty());
  EXPECT_TRUE(config.routes.empty());
  EXPECT_FALSE(config.strict);
  EXPECT_EQ(config.start, Start::kForeground);
  EXPECT_FALSE(config.watch);
  EXPECT_EQ(config.probe_deadline, milliseconds{10000});
  EXPECT_EQ(config.log_level, "");
  EXPECT_EQ(config.threads, 0);
}

TEST(ConfigFile, DurationsAreAWholeNumberAndAUnit) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, int>>{
           {"1ms", 1}, {"500ms", 500}, {"10s", 10000}, {"2m", 120000}, {"60m", 3600000}})
    EXPECT_EQ(accepted("config: 1\nprobe: {deadline: " + text + "}\n").probe_deadline,
              milliseconds{value});
  for (const char* text : {"10", "0s", "1.5s", "10 s", "10S", "-1s", "010s", "1h", "61m", "s", "ms",
                           "99999999999s", "1e3s"}) {
    const Rejection rejection =
        refused("config: 1\nprobe: {deadline: " + std::string{text} + "}\n");
    EXPECT_EQ(rejection.rule, "yaml.wrong_form") << text;
    EXPECT_EQ(rejection.subject, "/etc/opmux/opmux.yaml:2:19");
    EXPECT_EQ(rejection.expected,
              "`deadline`: a duration such as 500ms, 10s or 2m, at most 1h in all");
    EXPECT_EQ(rejection.found, "`" + std::string{text} + "`");
  }
}

struct FaultCase {
  const char* text;
  const char* rule;
  const char* subject;
  const char* expected;
  const char* found;
};

class ConfigFault : public testing::TestWithParam<FaultCase> {};

TEST_P(ConfigFault, IsNamed) {
  const Rejection rejection = refused(GetParam().text);
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject, "/etc/opmux/opmux.yaml:" + std::string{GetParam().subject});
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
  EXPECT_FALSE(rejection.hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, ConfigFault,
    testing::Values(
        FaultCase{"config: 1\ntrust: Strict\n", "yaml.wrong_form", "2:8", "`trust`: lax or strict",
                  "`Strict`"},
        FaultCase{"", "yaml.empty", "1:1", "one YAML document", "none"},
        FaultCase{"- 1\n", "yaml.wrong_form", "1:1", "the configuration: a map", "a list"},
        FaultCase{"strict: true\n", "yaml.missing_key", "1:1",
                  "the key `config` in the configuration", "no such key"},
        FaultCase{"config: 2\nnew: 1\n", "config.version", "1:9", "`config: 1`", "`2`"},
        FaultCase{"config: 1\nroute: {}\n", "yaml.unknown_key", "2:1",
                  "a key of the configuration: config, environments, manifests, routes, strict, "
                  "start, watch, probe, log, threads, lock, trust",
                  "`route`"},
        FaultCase{"config: 1\nstrict: yes\n", "yaml.wrong_form", "2:9",
                  "`strict`: true or false, without quotes", "`yes`"},
        FaultCase{"config: 1\nstrict: \"false\"\n", "yaml.wrong_form", "2:9",
                  "`strict`: true or false, without quotes", "the quoted text `false`"},
        FaultCase{"config: 1\nstrict: true\nstrict: false\n", "yaml.duplicate_key", "3:1",
                  "each key once", "key `strict` again; it stands first at line 2, column 1"},
        FaultCase{"config: 1\nthreads: 5000\n", "yaml.wrong_form", "2:10",
                  "`threads`: an integer in decimal digits, without quotes, leading zeros or "
                  "exponent, from 0 to 4096",
                  "`5000`"},
        FaultCase{"config: 1\nenvironments: /opt\n", "yaml.wrong_form", "2:15",
                  "`environments`: a list of folders", "`/opt`"},
        FaultCase{"config: 1\nenvironments: [~/venv]\n", "yaml.wrong_form", "2:16",
                  "`environments`: a folder, absolute or relative to this file", "`~/venv`"},
        FaultCase{"config: 1\nmanifests: [\"\"]\n", "yaml.wrong_form", "2:13",
                  "`manifests`: a folder, absolute or relative to this file", "the quoted text ``"},
        FaultCase{"config: 1\nroutes: {\"*\": native}\n", "yaml.wrong_form", "2:15",
                  "route `*`: a list of providers in the order to try, or a map of settings",
                  "`native`"},
        FaultCase{"config: 1\nroutes: {\"*\": []}\n", "yaml.wrong_form", "2:15",
                  "route `*`: a list of providers in the order to try, or a map of settings",
                  "an empty list"},
        FaultCase{"config: 1\nroutes: {\"*\": [vllm, vllm]}\n", "yaml.wrong_form", "2:22",
                  "route `*`: each provider once", "`vllm` twice"},
        FaultCase{"config: 1\nroutes: {\"\": [vllm]}\n", "yaml.wrong_form", "2:10",
                  "a pattern over operator names, e.g. \"flash_attn_*\"", "an empty text"},
        FaultCase{"config: 1\nstart: lazy\n", "yaml.wrong_form", "2:8",
                  "`start`: one of foreground, background", "`lazy`"},
        FaultCase{"config: 1\nwatch: on\n", "yaml.wrong_form", "2:8",
                  "`watch`: true or false, without quotes", "`on`"},
        FaultCase{"config: 1\nprobe: 10s\n", "yaml.wrong_form", "2:8", "`probe`: a map", "`10s`"},
        FaultCase{"config: 1\nlog: verbose\n", "yaml.wrong_form", "2:6",
                  "`log`: one of trace, debug, info, warn, error, off", "`verbose`"}));

TEST(ConfigFile, AMisspeltKeyNamesTheNearest) {
  EXPECT_EQ(refused("config: 1\nenviroments: []\n").hint, "Did you mean `environments`?");
  EXPECT_EQ(refused("config: 1\nprobe: {dead_line: 1s}\n").hint, "Did you mean `deadline`?");
  EXPECT_EQ(refused("config: 1\nlog: wran\n").hint, "Did you mean `warn`?");
}

TEST(ConfigFile, FurtherFaultsAreCounted) {
  const Rejection rejection = refused("config: 1\nstrict: yes\nthreads: x\nlog: y\n");
  EXPECT_EQ(rejection.subject, "/etc/opmux/opmux.yaml:2:9");
  EXPECT_TRUE(rejection.hint.ends_with(" (2 further faults in this file)")) << rejection.hint;
}

}  // namespace
}  // namespace opmux
