// SPDX-License-Identifier: Apache-2.0
//
// Where the configuration is looked for, and the OPMUX_* variables.
#include <gtest/gtest.h>

#include <stdlib.h>
#include <unistd.h>
#include <cstdio>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/log.hpp"
#include "core/config/config.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class Search : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, value] : environment_variables_with_prefix("OPMUX_"))
      unsetenv(name.c_str());
    previous_ = fs::current_path();
    set("XDG_CONFIG_HOME", root_ / "xdg");
    set("HOME", root_ / "home");
  }
  void TearDown() override {
    fs::current_path(previous_);
    for (const auto& [name, value] : environment_variables_with_prefix("OPMUX_"))
      unsetenv(name.c_str());
  }

  static void set(const std::string& name, const std::string& value) {
    ASSERT_EQ(setenv(name.c_str(), value.c_str(), 1), 0);
  }

  fs::path write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream{root_ / name} << text;
    return root_ / name;
  }

  static Config load(const std::optional<fs::path>& file = {}) {
    Result<Config> result = load_config(file);
    EXPECT_TRUE(result.ok()) << to_string(result.rejection());
    return result.ok() ? *std::move(result) : Config{};
  }
  static Rejection refused(const std::optional<fs::path>& file = {}) {
    const Result<Config> result = load_config(file);
    EXPECT_FALSE(result.ok());
    return result.ok() ? Rejection{} : result.rejection();
  }

  testing::TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
  fs::path previous_;
};

TEST_F(Search, TheCommandLineComesBeforeTheVariableBeforeTheUser) {
  const fs::path user = write("xdg/opmux/opmux.yaml", "config: 1\nthreads: 1\n");
  EXPECT_EQ(load().origin, "user");
  EXPECT_EQ(load().file, user);
  EXPECT_EQ(load().threads, 1);
  const fs::path variable = write("variable.yaml", "config: 1\nthreads: 2\n");
  set("OPMUX_CONFIG", variable);
  EXPECT_EQ(load().origin, "OPMUX_CONFIG");
  EXPECT_EQ(load().threads, 2);
  const fs::path option = write("option.yaml", "config: 1\nthreads: 3\n");
  EXPECT_EQ(load(option).origin, "--config");
  EXPECT_EQ(load(option).threads, 3);
}

TEST_F(Search, WithoutXdgTheHomeFolderIsTheUsers) {
  unsetenv("XDG_CONFIG_HOME");
  write("home/.config/opmux/opmux.yaml", "config: 1\nthreads: 4\n");
  EXPECT_EQ(load().threads, 4);
}

TEST_F(Search, TheCurrentFolderIsNeverSearched) {
  write("here/opmux.yaml", "config: 1\nthreads: 5\n");
  fs::current_path(root_ / "here");
  const Config config = load();
  EXPECT_NE(config.threads, 5);
  if (!fs::exists("/etc/opmux/opmux.yaml")) {
    EXPECT_EQ(config.origin, "none");
    EXPECT_TRUE(config.file.empty());
  }
}

TEST_F(Search, AConfigurationThatWasAskedForMustExist) {
  const Rejection option = refused(root_ / "nowhere.yaml");
  EXPECT_EQ(option.rule, "config.missing");
  EXPECT_EQ(option.subject, (root_ / "nowhere.yaml").string());
  EXPECT_EQ(option.expected, "a configuration, as --config asks for");
  set("OPMUX_CONFIG", root_ / "gone.yaml");
  EXPECT_EQ(refused().expected, "a configuration, as OPMUX_CONFIG asks for");
}

TEST_F(Search, AFileThatIsThereIsReadOrRefused) {
  fs::create_directories(root_ / "xdg/opmux/opmux.yaml");
  EXPECT_EQ(refused().rule, "yaml.unreadable");
  fs::remove_all(root_ / "xdg/opmux/opmux.yaml");
  fs::create_symlink(root_ / "gone", root_ / "xdg/opmux/opmux.yaml");
  EXPECT_EQ(refused().rule, "yaml.unreadable");
}

TEST_F(Search, RelativePathsOfTheFileCountFromItsFolder) {
  write("conf/opmux.yaml", "config: 1\nmanifests: [kernels, ../more]\n");
  fs::current_path(root_);
  const Config config = load("conf/opmux.yaml");
  EXPECT_EQ(config.file, root_ / "conf/opmux.yaml");
  EXPECT_EQ(config.manifests, (std::vector<fs::path>{root_ / "conf/kernels", root_ / "more"}));
}

TEST_F(Search, VariablesOverrideTheFile) {
  const fs::path file = write("c.yaml",
                              "config: 1\nenvironments: [/a]\nmanifests: [/b]\nstrict: true\n"
                              "probe: {deadline: 1s}\nlog: info\nthreads: 3\n");
  set("OPMUX_ENVIRONMENTS", "/opt/one:/opt/two");
  set("OPMUX_MANIFESTS", "relative");
  set("OPMUX_STRICT", "0");
  set("OPMUX_PROBE_DEADLINE", "2m");
  set("OPMUX_LOG", "error");
  set("OPMUX_CACHE_DIR", "/var/cache/opmux");
  set("OPMUX_THREADS", "7");
  set("OPMUX_LOCK", "opmux.lock");
  fs::current_path(root_);
  const Config config = load(file);
  EXPECT_EQ(config.environments, (std::vector<fs::path>{"/opt/one", "/opt/two"}));
  EXPECT_EQ(config.manifests, (std::vector<fs::path>{root_ / "relative"}));
  EXPECT_FALSE(config.strict);
  EXPECT_EQ(config.probe_deadline, milliseconds{120000});
  EXPECT_EQ(config.log_level, "error");
  EXPECT_EQ(config.cache_folder, fs::path{"/var/cache/opmux"});
  EXPECT_EQ(config.threads, 7);
  EXPECT_EQ(config.lock_file, root_ / "opmux.lock");
}

TEST_F(Search, Case28EmptyVariablesCountAsUnsetAndAreLogged) {
  for (const char* name : {"OPMUX_CONFIG", "OPMUX_STRICT", "OPMUX_ENVIRONMENTS", "OPMUX_STRCT"})
    set(name, "");
  log::set_level(log::Level::kInfo);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(load().strict);
  std::fflush(stderr);
  const std::string said = ::testing::internal::GetCapturedStderr();
  log::set_level(log::Level::kWarn);
  EXPECT_NE(said.find("OPMUX_STRICT is set but empty: it counts as unset"), std::string::npos)
      << said;
}

TEST_F(Search, AnUnknownVariableNamesTheNearest) {
  set("OPMUX_STRCT", "1");
  const Rejection rejection = refused();
  EXPECT_EQ(rejection.rule, "config.unknown_variable");
  EXPECT_EQ(rejection.subject, "OPMUX_STRCT");
  EXPECT_EQ(rejection.expected,
            "one of OPMUX_CONFIG, OPMUX_ENVIRONMENTS, OPMUX_MANIFESTS, OPMUX_STRICT, "
            "OPMUX_PROBE_DEADLINE, OPMUX_LOG, OPMUX_CACHE_DIR, OPMUX_THREADS, OPMUX_LOCK, "
            "OPMUX_TRUST, OPMUX_REPORT_SOCKET");
  EXPECT_EQ(rejection.hint, "Did you mean `OPMUX_STRICT`?");
}

struct VariableCase {
  const char* name;
  const char* value;
  const char* expected;
};

class VariableForm : public Search, public ::testing::WithParamInterface<VariableCase> {};

TEST_P(VariableForm, IsStrict) {
  set(GetParam().name, GetParam().value);
  const Rejection rejection = refused();
  EXPECT_EQ(rejection.rule, "config.variable_form");
  EXPECT_EQ(rejection.subject, GetParam().name);
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, "`" + std::string{GetParam().value} + "`");
}

INSTANTIATE_TEST_SUITE_P(
    Table, VariableForm,
    ::testing::Values(
        VariableCase{"OPMUX_STRICT", "yes", "one of 0, 1, true, false"},
        VariableCase{"OPMUX_PROBE_DEADLINE", "10",
                     "a duration such as 500ms, 10s or 2m, at most 1h in all"},
        VariableCase{"OPMUX_LOG", "verbose", "one of trace, debug, info, warn, error, off"},
        VariableCase{"OPMUX_THREADS", "08", "an integer from 0 to 4096"},
        VariableCase{"OPMUX_THREADS", "-1", "an integer from 0 to 4096"},
        VariableCase{"OPMUX_ENVIRONMENTS", "/a::/b",
                     "folders, separated by colons, none empty or beginning with ~"},
        VariableCase{"OPMUX_MANIFESTS", "~/kernels",
                     "folders, separated by colons, none empty or beginning with ~"},
        VariableCase{"OPMUX_CACHE_DIR", "~/cache", "a folder, not beginning with ~"},
        VariableCase{"OPMUX_LOCK", "~/opmux.lock", "a file, not beginning with ~"},
        VariableCase{"OPMUX_TRUST", "Strict", "lax or strict"},
        VariableCase{"OPMUX_CONFIG", "~/opmux.yaml", "a file, not beginning with ~"}));

}  // namespace
}  // namespace opmux
