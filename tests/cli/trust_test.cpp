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

#include "core/base/trust.hpp"
#include "tests/cli/command.hpp"

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
