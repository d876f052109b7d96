// SPDX-License-Identifier: Apache-2.0
//
// Routes of one thread.
#include <gtest/gtest.h>

#include <optional>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

class WithRouteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.drop_in("one", "live_1", 60);
    world_.drop_in("two", "live_2", 50);
    world_.write_routes("one, two");
    StatusOr<Runtime> opened = Runtime::open(world_.options());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    runtime_.emplace(std::move(*opened));
  }

  LiveWorld world_;
  std::optional<Runtime> runtime_;
};

TEST_F(WithRouteTest, ChangesTheCallsOfItsThreadUntilItEnds) {
  LiveCall call(*runtime_);
  {
    const StatusOr<RouteScope> scope = runtime_->with_route({{"live_0", {"two"}}});
    ASSERT_TRUE(scope.ok()) << scope.status().message();
    EXPECT_EQ(call.seen(), mark(2));
    EXPECT_EQ(LiveCall(*runtime_, 1).seen(), mark(1, 1)) << "not of this operator";
    std::thread([&] { EXPECT_EQ(LiveCall(*runtime_).seen(), mark(1)); }).join();
  }
  EXPECT_EQ(call.seen(), mark(1));
}

TEST_F(WithRouteTest, StaysWithTheGenerationThatItWasMadeOf) {
  LiveCall call(*runtime_);
  std::optional<RouteScope> scope;
  {
    StatusOr<RouteScope> made = runtime_->with_route({{"live_0", {"two"}}});
    ASSERT_TRUE(made.ok());
    scope.emplace(std::move(*made));
  }
  ASSERT_TRUE(runtime_->set_routes({{"live_*", {"one"}}}).ok());
  EXPECT_EQ(call.seen(), mark(2));
  scope.reset();
  EXPECT_EQ(call.seen(), mark(1));
}

TEST_F(WithRouteTest, RefusesNamesThatMeanNothing) {
  const StatusOr<RouteScope> scope = runtime_->with_route({{"live_0", {"tow"}}});
  ASSERT_FALSE(scope.ok());
  EXPECT_EQ(scope.status().rejection()->rule, "config.unknown_provider");
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(1));
}

TEST_F(WithRouteTest, RefusesAProviderThatIsNotLoaded) {
  ASSERT_TRUE(runtime_->set_routes({}).ok());
  world_.write_routes("one");
  ASSERT_TRUE(runtime_->reload().ok());
  const StatusOr<RouteScope> scope = runtime_->with_route({{"live_0", {"two"}}});
  ASSERT_FALSE(scope.ok());
  EXPECT_EQ(scope.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(scope.status().rejection()->rule, "registry.not_routed");
}

TEST_F(WithRouteTest, ScopesMadeAgainAndAgainShareOneGeneration) {
  LiveCall call(*runtime_);
  for (int round = 0; round < 1000; ++round) {
    const StatusOr<RouteScope> scope = runtime_->with_route({{"live_0", {"two"}}});
    ASSERT_TRUE(scope.ok());
    ASSERT_EQ(call.seen(), mark(2));
  }
  EXPECT_EQ(runtime_->report().history.size(), 1u) << "no change for other threads";
}

}  // namespace
}  // namespace opmux::testing
