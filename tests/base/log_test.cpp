// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/environment_guard.hpp"

namespace opmux::log {
namespace {

// What `body` writes to the standard error stream.
template <class Body>
std::string captured(Body body) {
  ::testing::internal::CaptureStderr();
  body();
  std::fflush(stderr);
  return ::testing::internal::GetCapturedStderr();
}

class Log : public ::testing::Test {
 protected:
  ~Log() override { set_level(Level::kWarn); }
};

TEST_F(Log, NamesItselfAndTheLevel) {
  EXPECT_EQ(captured([] { warn("one thing"); }), "[opmux] [warn] one thing\n");
  EXPECT_EQ(captured([] { error("another"); }), "[opmux] [error] another\n");
}

TEST_F(Log, KeepsBelowTheLevelSilent) {
  EXPECT_EQ(captured([] { info("quiet"); }), "");
  set_level(Level::kInfo);
  EXPECT_TRUE(enabled(Level::kInfo));
  EXPECT_FALSE(enabled(Level::kDebug));
  EXPECT_EQ(captured([] {
              info("heard");
              debug("quiet");
            }),
            "[opmux] [info] heard\n");
}

TEST_F(Log, OffIsSilentForEveryLevel) {
  set_level(Level::kOff);
  EXPECT_EQ(captured([] {
              error("quiet");
              write(Level::kOff, "quiet");
            }),
            "");
}

TEST_F(Log, EventIsOneLineWhateverItHolds) {
  EXPECT_EQ(captured([] { warn("a\n[opmux] [error] forged {} \x1b[2J"); }),
            "[opmux] [warn] a\\x0a[opmux] [error] forged {} \\x1b[2J\n");
}

TEST(LogLevel, ParsesEveryNameAndNothingElse) {
  const std::pair<const char*, Level> names[] = {{"trace", Level::kTrace}, {"debug", Level::kDebug},
                                                 {"info", Level::kInfo},   {"warn", Level::kWarn},
                                                 {"error", Level::kError}, {"off", Level::kOff}};
  for (const auto& [name, expected] : names) {
    Level level = expected == Level::kOff ? Level::kTrace : Level::kOff;
    EXPECT_TRUE(parse_level(name, level)) << name;
    EXPECT_EQ(level, expected) << name;
  }
  Level level = Level::kDebug;
  EXPECT_FALSE(parse_level("", level));
  EXPECT_FALSE(parse_level("Warn", level));
  EXPECT_FALSE(parse_level("warning", level));
  EXPECT_EQ(level, Level::kDebug);
}

// The variable is read once per process, at first use: each case needs a process of its own.
TEST(LogLevelDeathTest, ComesFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  testing::EnvironmentGuard guard;
  const auto report = [] {
    for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError})
      std::fputc(enabled(level) ? '1' : '0', stderr);
    std::fputc('\n', stderr);
    std::_Exit(0);
  };
  guard.set("OPMUX_LOG", "info");
  EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), "^0111\n");
  guard.set("OPMUX_LOG", "off");
  EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), "^0000\n");
  guard.set("OPMUX_LOG", "loud");
  EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), "^0011\n");
  guard.unset("OPMUX_LOG");
  EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), "^0011\n");
}

}  // namespace
}  // namespace opmux::log
