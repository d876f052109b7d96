// SPDX-License-Identifier: Apache-2.0
//
// Case 57: memory that runs out at the n-th allocation of a change: for every n where a change is
// cheap, for every 41st of what a reload does before it probes. Either the change
// is refused and the routes are as before, or it is made; nothing ends the process, and the next
// change works.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tests/runtime/live_world.hpp"
#include "tests/support/failing_allocations.hpp"

namespace opmux::testing {
namespace {

class AllocationFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.drop_in("one", "live_1", 60);
    world_.drop_in("two", "live_unloadable_2", 50);
    write("one");
    Options options = world_.options();
    options.use_cache = false;  // it is JSON, too
    options.progress = [](const std::string&) { stop_failing(); };
    StatusOr<Runtime> opened = Runtime::open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    runtime_.emplace(std::move(*opened));
    call_.emplace(*runtime_);
  }

  void write(const std::string& provider) const {
    world_.write_config("log: error\nroutes:\n  \"live_*\": [" + provider + "]\n");
  }

  // Runs `change` from version `before` to version `after` of the module with the n-th allocation
  // failing, until one has none left to fail, and undoes it where it was made. `step` n at a time.
  void expect_all_or_nothing(int before, int after, const std::function<Status()>& change,
                             const std::function<Status()>& undo, std::uint64_t step) {
    int refused = 0;
    for (std::uint64_t n = 0;; n += step) {
      const std::uint64_t generation = runtime_->report().generation;
      Status status;
      const bool failed = fails_at(n, failing_, [&] { status = change(); });
      const std::uint64_t now = runtime_->report().generation;
      ASSERT_EQ(call_->seen(), mark(status.ok() ? after : before)) << n << ": " << status.message();
      ASSERT_EQ(now, status.ok() ? generation + 1 : generation) << n << ": " << status.message();
      refused += status.ok() ? 0 : 1;
      if (!failed) {
        ASSERT_TRUE(status.ok()) << status.message();
        break;
      }
      if (status.ok()) {
        const Status undone = undo();
        ASSERT_TRUE(undone.ok()) << undone.message();
        ASSERT_EQ(call_->seen(), mark(before));
      }
    }
    EXPECT_GT(refused, 0) << "no allocation ever failed";
  }

  Failing failing_ = Failing::kOnce;
  LiveWorld world_;
  std::optional<Runtime> runtime_;
  std::optional<LiveCall> call_;
};

// One allocation fails, or all after it as well.
class LackOfMemoryTest : public AllocationFailureTest,
                         public ::testing::WithParamInterface<Failing> {
 protected:
  void SetUp() override {
    failing_ = GetParam();
    AllocationFailureTest::SetUp();
  }
};

TEST_P(LackOfMemoryTest, Case57SetRoutesOfLoadedProviders) {
  const auto to = [&](const char* first, const char* second) {
    return [this, routes = Routes{{"live_*", {first, second}}}] {
      return runtime_->set_routes(routes);
    };
  };
  ASSERT_TRUE(to("one", "two")().ok());
  expect_all_or_nothing(1, 2, to("two", "one"), to("one", "two"), 1);
}

// Up to the probe, which speaks JSON: destroying a nlohmann::json allocates, and ends the process
// when it cannot.
TEST_F(AllocationFailureTest, Case57AReloadUpToTheProbe) {
  const auto to = [&](const char* provider) {
    return [this, provider] {
      {
        const AllocationsDoNotFail of_the_program;
        write(provider);
      }
      return runtime_->reload();
    };
  };
  expect_all_or_nothing(1, 2, to("two"), to("one"), 41);
}

TEST_P(LackOfMemoryTest, Case57AScope) {
  write("one, two");
  ASSERT_TRUE(runtime_->reload().ok());
  const Routes routes{{"live_0", {"two"}}};
  for (std::uint64_t n = 0;; ++n) {
    bool made = false;
    std::int64_t seen = 0;
    const bool failed = fails_at(n, failing_, [&] {
      const StatusOr<RouteScope> scope = runtime_->with_route(routes);
      const AllocationsDoNotFail any_more;
      made = scope.ok();
      seen = call_->seen();
    });
    ASSERT_EQ(seen, mark(made ? 2 : 1));
    ASSERT_EQ(call_->seen(), mark(1));
    if (!failed) {
      ASSERT_TRUE(made);
      break;
    }
  }
}

TEST_P(LackOfMemoryTest, Case57TheFirstCallOfAThread) {
  for (std::uint64_t n = 0;; ++n) {
    bool failed = false;
    std::thread([&] {
      LiveCall call(*runtime_);
      failed = fails_at(n, failing_, [&] {
        const Status status = call.run();
        EXPECT_TRUE(status.ok() || call.x[0] == mark(1)) << status.message();
      });
      EXPECT_EQ(call.seen(), mark(1));
    }).join();
    if (!failed) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, LackOfMemoryTest,
                         ::testing::Values(Failing::kOnce, Failing::kFromThenOn),
                         [](const ::testing::TestParamInfo<Failing>& info) {
                           return info.param == Failing::kOnce ? "FailsOnce" : "StaysAway";
                         });

}  // namespace
}  // namespace opmux::testing
