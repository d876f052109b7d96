// SPDX-License-Identifier: Apache-2.0
//
// Trust and elevated privileges as a user of the command meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/trust.hpp"
#include "tests/cli/command.hpp"
#include "tests/fakes/fakes.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

#define REQUIRE_TRUSTED_BUILD()                                                 \
  if (const Check untrusted = check_trust(OPMUX_BINARY_DIR "/bin/opmux-probe")) \
  GTEST_SKIP() << "others could change the build folder: " << to_string(*untrusted)

TEST(Trust, StrictRefusesAConfigurationThatOthersMayWrite) {
  REQUIRE_TRUSTED_BUILD();
  const Command command;
  const fs::path config = command.folder().write("opmux.yaml", "config: 1\ntrust: lax\n");
  ::chmod(config.c_str(), 0666);
  EXPECT_EQ(command.run({"list", "--config", config}).code, 0);
  EXPECT_EQ(command.run({"list", "--config", config, "--trust", "lax"}).code, 0);
  const Outcome refused = command.run({"list", "--config", config, "--trust", "strict"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("trust.writable"));
  EXPECT_THAT(refused.err, HasSubstr("it has mode 0666"));
  EXPECT_EQ(command.run({"list", "--trust", "Strict"}).code, 2);
}

// A drop-in folder with a provider of silu_and_mul; the path of its module.
fs::path drop_in_acme(const Command& command) {
  const fs::path manifest =
      command.folder().write("drop-in/acme/acme.yaml",
                             "manifest: 1\nprovider: acme\nplugin: acme\npriority: 90\noperators:\n"
                             "  silu_and_mul: {module: silu_and_mul, when: {device: cpu}}\n");
  fs::path module = manifest.parent_path() / "opmux_acme.so";
  fs::copy_file(fakes::path("module_greets"), module);
  ::chmod(module.c_str(), 0755);
  return module;
}

TEST(Trust, DoctorCountsWhatStrictTrustRefusesAsAProblem) {
  REQUIRE_TRUSTED_BUILD();
  const Command command;
  const fs::path module = drop_in_acme(command);
  const std::string folder = (command.folder() / "drop-in").string();
  const Outcome good = command.run({"doctor", "--trust", "strict", "--manifests", folder});
  EXPECT_EQ(good.code, 0) << good.out;
  ::chmod(module.c_str(), 0775);
  EXPECT_EQ(command.run({"doctor", "--manifests", folder}).code, 0);
  const Outcome refused = command.run({"doctor", "--trust", "strict", "--manifests", folder});
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("problem  provider acme"));
  EXPECT_THAT(refused.out, HasSubstr("trust.writable"));
  EXPECT_THAT(refused.out, Not(HasSubstr("Nothing is in the way.")));
}

TEST(Trust, RunNamesTheFileThatStrictTrustRefuses) {
  REQUIRE_TRUSTED_BUILD();
  const Command command;
  const fs::path module = drop_in_acme(command);
  ::chmod(module.c_str(), 0775);
  const std::vector<std::string> words{
      "run",     "silu_and_mul", "--repeat",    "0",
      "--trust", "strict",       "--manifests", (command.folder() / "drop-in").string()};
  EXPECT_THAT(command.run(words).out, HasSubstr(module.string()));
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const nlohmann::json passed = command.run(as_json).json().at("passed_over").at(0);
  EXPECT_THAT(passed.at("reason").get<std::string>(),
              HasSubstr("trust.writable: " + module.string() + ": expected "));
}

TEST(Trust, StrictIsNotAboutFallback) {
  REQUIRE_TRUSTED_BUILD();
  const Outcome outcome =
      Command{}.run({"run", "silu_and_mul", "--trust", "strict", "--repeat", "1", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json().at("provider"), "native");
}

// Case 26 with a real set-user-id file: root starts a copy that runs as another user.
TEST(Trust, Case26ASetUserIdProcessIgnoresOverridesAndSaysSoOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  Command command;
  struct statvfs system {};
  ASSERT_EQ(::statvfs(command.folder().path().c_str(), &system), 0);
  if ((system.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << "set-user-id does not count here";
  ::chmod(command.folder().path().c_str(), 0755);
  const fs::path copy = command.folder() / "opmux";
  fs::copy_file(OPMUX_BINARY_DIR "/bin/opmux", copy);
  ASSERT_EQ(::chown(copy.c_str(), 65534, 65534), 0);
  ASSERT_EQ(::chmod(copy.c_str(), 04755), 0);
  command.set("OPMUX_CONFIG", "/nonexistent/opmux.yaml");
  command.set("OPMUX_STRICT", "perhaps");
  EXPECT_EQ(command.run({"list"}).code, 2) << "what the variables say to others";
  const Outcome outcome = command.run_program(copy, {"list", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err,
            "opmux: OPMUX_CONFIG is ignored: this process has privileges that its user does not "
            "have\n"
            "opmux: OPMUX_STRICT is ignored: this process has privileges that its user does not "
            "have\n");
}

}  // namespace
}  // namespace opmux::testing
