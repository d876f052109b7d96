// SPDX-License-Identifier: Apache-2.0
//
// Starting in the background.
#include <gtest/gtest.h>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The shipped silu_and_mul has a native kernel; the drop-in provider needs a probe.
class BackgroundTest : public ::testing::Test {
 protected:
  Options background() const {
    Options options = world_.options();
    options.background = true;
    return options;
  }
  LiveWorld world_;
};

TEST_F(BackgroundTest, ServesNativeAtOnceAndProvidersWhenTheyAreReady) {
  world_.drop_in("one", "live_1");
  StatusOr<Runtime> runtime = Runtime::open(background());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  SiluCall silu;
  EXPECT_TRUE(silu.run(*runtime).ok());
  EXPECT_TRUE(silu.is_right());

  const Status ready = runtime->wait_ready(seconds(20));
  ASSERT_TRUE(ready.ok()) << ready.message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(1));
  const Report report = runtime->report();
  EXPECT_TRUE(report.ready);
  ASSERT_EQ(report.history.size(), 2u);
  EXPECT_EQ(report.history[0].trigger, "open");
  EXPECT_EQ(report.history[1].trigger, "background");
  EXPECT_EQ(report.history[1].generation, report.history[0].generation + 1);
}

TEST_F(BackgroundTest, SaysThatAProviderIsNotReadyYet) {
  world_.write_config("probe: {deadline: 1s}\n");
  world_.drop_in("one", "live_hangs");
  StatusOr<Runtime> runtime = Runtime::open(background());
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  const Status status = call.run();
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "registry.starting");
  EXPECT_FALSE(runtime->report().ready);
  const Status early = runtime->wait_ready(milliseconds(1));
  ASSERT_NE(early.rejection(), nullptr);
  EXPECT_EQ(early.rejection()->rule, "runtime.not_ready");
  // A provider that is broken is what it is after an open in the foreground: rejected.
  EXPECT_TRUE(runtime->wait_ready(seconds(20)).ok());
  EXPECT_EQ(binding_of(runtime->report(), "live_0", "one")->rejection->rule, "probe.deadline");
}

TEST_F(BackgroundTest, IsReadyAtOnceInTheForeground) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  EXPECT_TRUE(runtime->wait_ready(milliseconds(0)).ok());
}

TEST_F(BackgroundTest, ARuntimeMayGoWhileItsProvidersArePrepared) {
  world_.drop_in("one", "live_1");
  for (int round = 0; round < 3; ++round) {
    StatusOr<Runtime> runtime = Runtime::open(background());
    ASSERT_TRUE(runtime.ok());
  }
}

}  // namespace
}  // namespace opmux::testing
