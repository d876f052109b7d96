// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Usage, NoCommandIsWrongUsage) {
  const Outcome outcome = Command{}.run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("say what to do"));
}

TEST(Usage, UnknownCommandNamesTheNearest) {
  const Outcome outcome = Command{}.run({"lst"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no command `lst`. Did you mean `list`?"));
  EXPECT_EQ(outcome.out, "");
}

TEST(Usage, UnknownOptionNamesTheNearest) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--devise", "cpu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("has no option `--devise`. Did you mean `--device`?"));
}

TEST(Usage, MissingOperatorIsWrongUsage) {
  const Outcome outcome = Command{}.run({"explain"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("opmux explain --help"));
}

TEST(Usage, UnknownDeviceIsWrongUsage) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--device", "tpu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("tpu"));
}

TEST(Usage, HelpIsFine) {
  const Outcome outcome = Command{}.run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* command : {"list", "explain", "validate", "run", "doctor", "demo", "rules"})
    EXPECT_THAT(outcome.out, HasSubstr(command));
}

TEST(Usage, ControlCharactersAreNotEchoed) {
  const Outcome outcome = Command{}.run({"explain", "\033[31mred"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("\\x1b"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\033")));
}

TEST(Usage, MissingConfigurationIsWrongUsage) {
  const Outcome outcome = Command{}.run({"list", "--config", "/nonexistent/opmux.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("config.missing"));
}

TEST(Usage, UnknownVariableIsWrongUsage) {
  Command command;
  command.set("OPMUX_LOGG", "info");
  const Outcome outcome = command.run({"list"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("config.unknown_variable"));
  EXPECT_THAT(outcome.err, HasSubstr("OPMUX_LOG"));
}

TEST(Usage, WrongConfigurationIsAFinding) {
  const Command command;
  const auto file = command.folder().write("opmux.yaml", "config: 1\nroute: {}\n");
  const Outcome outcome = command.run({"list", "--config", file.string()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("yaml.unknown_key"));
  EXPECT_THAT(outcome.err, HasSubstr("opmux.yaml:2:1"));
}

TEST(Usage, MissingEnvironmentIsWrongUsage) {
  const Outcome outcome = Command{}.run({"list", "--environment", "/nonexistent/env"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("discovery.bad_environment"));
}

TEST(Usage, AnEmptyValueOfAnyOptionIsWrongUsage) {
  const Command command;
  command.folder().write("opmux.lock", "");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"list", "--locked="},
                                             {"list", "--config="},
                                             {"list", "--config=", "--json"},
                                             {"list", "--manifests=", "--json"},
                                             {"list", "--environment=", "--json"},
                                             {"list", "--trust=", "lax"},
                                             {"list", "--html=", "page.html"},
                                             {"list", "--html", ""},
                                             {"list", "--strict="},
                                             {"explain", ""},
                                             {"validate", ""},
                                             {"run", ""},
                                             {"run", "silu_and_mul", "--provider="},
                                             {"run", "silu_and_mul", "--device="},
                                             {"run", "silu_and_mul", "--shape="},
                                             {"run", "silu_and_mul", "--dtype="},
                                             {"run", "silu_and_mul", "--repeat=", "1"},
                                             {"run", "silu_and_mul", "--seed="},
                                             {"run", "silu_and_mul", "--repeat", ""},
                                             {"lock", "--output="},
                                             {"new-plugin", ""},
                                             {"new-plugin", "mine", "--output="},
                                             {"new-plugin", "mine", "--operator="},
                                             {"watch", "1", "--interval="},
                                             {"watch", "1", "--count="},
                                             {"rules", ""}}) {
    const Outcome outcome = command.run(words);
    EXPECT_EQ(outcome.code, 2) << ::testing::PrintToString(words) << outcome.out;
    EXPECT_EQ(outcome.out, "") << ::testing::PrintToString(words);
  }
}

TEST(Usage, CommonOptionsThatMeanNothingToACommandAreRefused) {
  for (const char* name : {"watch", "rules", "version"}) {
    for (const char* option : {"--config=x", "--manifests=x", "--environment=x", "--trust=strict",
                               "--strict", "--no-cache", "--locked"}) {
      const Outcome outcome = Command{}.run({name, option});
      EXPECT_EQ(outcome.code, 2) << name << " " << option;
      EXPECT_THAT(outcome.err, HasSubstr("has no option")) << name << " " << option;
    }
  }
  for (const char* option : {"--environment=x", "--trust=strict", "--strict", "--no-cache"})
    EXPECT_EQ(Command{}.run({"new-plugin", "mine", option}).code, 2) << option;
}

TEST(Usage, TheCommandIsSilentOnStandardErrorUnlessALogIsAskedFor) {
  Command command;
  const auto lax = command.folder().write("opmux.yaml", "config: 1\n");
  std::filesystem::permissions(lax, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(command.run({"list", "--config", lax.string()}).err, "");
  command.set("OPMUX_LOG", "warn");
  EXPECT_THAT(command.run({"list", "--config", lax.string()}).err, HasSubstr("trust.writable"));
  command.set("OPMUX_LOG", "");
  command.folder().write("opmux.yaml", "config: 1\nlog: warn\n");
  std::filesystem::permissions(lax, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(command.run({"list", "--config", lax.string()}).err, HasSubstr("trust.writable"));
}

TEST(Usage, VersionHasBothForms) {
  const Outcome text = Command{}.run({"version"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, StartsWith("opmux "));
  const Outcome json = Command{}.run({"version", "--json"});
  EXPECT_EQ("opmux " + json.json().at("version").get<std::string>() + "\n", text.out);
}

TEST(Rules, DocumentIsWhatTheCommandPrints) {
  const Outcome outcome = Command{}.run({"rules", "--markdown"});
  EXPECT_EQ(outcome.code, 0);
  std::ifstream file(OPMUX_SOURCE_DIR "/docs/rules.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(document, outcome.out) << "run `opmux rules --markdown > docs/rules.md`";
}

TEST(Rules, OneRuleIsTold) {
  const Outcome outcome = Command{}.run({"rules", "contract.not_elf", "--json"});
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(outcome.json().at("rules").size(), 1U);
  EXPECT_EQ(outcome.json().at("rules")[0].at("stage"), "contract");
}

TEST(Rules, UnknownRuleNamesTheNearest) {
  const Outcome outcome = Command{}.run({"rules", "contract.not_elff"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean `contract.not_elf`?"));
}

}  // namespace
}  // namespace opmux::testing
