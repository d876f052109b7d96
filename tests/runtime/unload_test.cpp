// SPDX-License-Identifier: Apache-2.0
//
// Modules that may be unmapped, and all others, which are retired.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <optional>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

class UnloadTest : public ::testing::Test {
 protected:
  void open(const std::string& fake, std::chrono::milliseconds deadline = std::chrono::seconds(5)) {
    world_.drop_in("one", fake, 60);
    world_.drop_in("two", "live_2", 50);
    world_.write_routes("one, two");
    Options options = world_.options();
    options.drain_deadline = deadline;
    StatusOr<Runtime> opened = Runtime::open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    runtime_.emplace(std::move(*opened));
  }
  ModuleReport module() const {
    for (const ModuleReport& module : runtime_->report().modules) {
      if (module.path == world_.module_file("one").native()) return module;
    }
    return {};
  }
  bool is_mapped() const {
    void* const handle = dlopen(world_.module_file("one").c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  }
  void leave_out() {
    world_.write_routes("two");
    const Status status = runtime_->reload();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  LiveWorld world_;
  std::optional<Runtime> runtime_;
};

TEST_F(UnloadTest, AnUnloadableModuleGoesWhenNoRouteUsesIt) {
  open("live_unloadable_1");
  LiveCall call(*runtime_);
  EXPECT_EQ(call.seen(), mark(1));
  EXPECT_EQ(module().state, "active");
  EXPECT_TRUE(module().unloadable);
  EXPECT_EQ(module().calls_inside, 0);
  leave_out();
  EXPECT_TRUE(becomes_true([&] { return module().state == "unmapped"; }));
  EXPECT_FALSE(is_mapped());
  EXPECT_EQ(call.seen(), mark(2));
}

TEST_F(UnloadTest, EveryOtherModuleIsRetiredAndStaysMapped) {
  open("live_1");
  leave_out();
  EXPECT_EQ(module().state, "retired");
  EXPECT_FALSE(module().unloadable);
  EXPECT_TRUE(is_mapped());
}

TEST_F(UnloadTest, WaitsForCallsInsideAndTellsWhenTheyAreLate) {
  open("live_unloadable_1", std::chrono::milliseconds(50));
  LiveCall inside(*runtime_);
  inside.x[1] = 1;
  std::thread caller([&] { EXPECT_EQ(inside.seen(), mark(1)); });
  ASSERT_TRUE(becomes_true([&] { return __atomic_load_n(&inside.x[0], __ATOMIC_SEQ_CST) > 0; }));
  leave_out();
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(2)) << "new calls go on";
  EXPECT_TRUE(becomes_true([&] { return module().state == "draining, past its deadline"; }));
  EXPECT_EQ(module().calls_inside, 1);
  EXPECT_TRUE(is_mapped());
  __atomic_store_n(&inside.x[1], 0, __ATOMIC_SEQ_CST);
  caller.join();
  EXPECT_TRUE(becomes_true([&] { return module().state == "unmapped"; }));
}

TEST_F(UnloadTest, ComesBackWhenARouteNamesItAgain) {
  open("live_unloadable_1");
  LiveCall call(*runtime_);
  for (int round = 0; round < 3; ++round) {
    leave_out();
    EXPECT_EQ(call.seen(), mark(2));
    if (round > 0) {
      EXPECT_TRUE(becomes_true([&] { return !is_mapped(); }));
    }
    world_.write_routes("one, two");
    ASSERT_TRUE(runtime_->reload().ok());
    EXPECT_EQ(call.seen(), mark(1));
  }
}

TEST_F(UnloadTest, AnOverrideHoldsItsModules) {
  open("live_unloadable_1");
  LiveCall call(*runtime_);
  {
    const StatusOr<RouteScope> scope = runtime_->with_route({{"live_0", {"one"}}});
    ASSERT_TRUE(scope.ok());
    leave_out();
    EXPECT_EQ(call.seen(), mark(1));
    EXPECT_TRUE(is_mapped());
    EXPECT_EQ(module().state, "draining");
  }
  EXPECT_TRUE(becomes_true([&] { return module().state == "unmapped"; }));
}

TEST_F(UnloadTest, AnotherRuntimeHoldsItToo) {
  open("live_unloadable_1");
  StatusOr<Runtime> other = Runtime::open(world_.options());
  ASSERT_TRUE(other.ok());
  leave_out();
  EXPECT_EQ(module().state, "active");
  EXPECT_EQ(LiveCall(*other).seen(), mark(1));
}

// Case 64: the report tells the truth about a module that the dynamic linker keeps.
TEST_F(UnloadTest, Case64AModuleThatTheLinkerKeepsIsToldToBeStillMapped) {
  open("live_unloadable_1");
  void* const held = dlopen(world_.module_file("one").c_str(), RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(held, nullptr);
  leave_out();
  EXPECT_TRUE(becomes_true([&] { return module().state == "retired, still mapped"; }));
  dlclose(held);
  // It comes back as it was, and a newer file of its path is not taken for it.
  world_.write_routes("one");
  ASSERT_TRUE(runtime_->reload().ok());
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(1));
  leave_out();
  world_.replace_module("one", "live_3");
  world_.write_routes("one");
  ASSERT_TRUE(runtime_->reload().ok());
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(3));
}

// Case 65: work of the module may still run on a stream, or stand in a captured graph, long after
// the call that launched it. Nobody can count that, so such a module is never unmapped, whatever it
// says of itself.
TEST_F(UnloadTest, Case65AModuleThatLaunchesDeviceWorkStaysMapped) {
  open("live_device_work");
  EXPECT_FALSE(module().unloadable);
  leave_out();
  EXPECT_EQ(module().state, "retired");
  EXPECT_FALSE(becomes_true([&] { return !is_mapped(); }, std::chrono::milliseconds(200)));
}

// Field report F16: a thread-local destructor keeps the module, whatever it says of itself, and a
// thread that ends later runs code that is still there.
TEST_F(UnloadTest, F16AModuleWithThreadLocalDestructorsIsToldToBeStillMapped) {
  open("live_thread_local");
  std::atomic<bool> may_end{false};
  std::atomic<bool> has_called{false};
  std::thread caller([&] {
    EXPECT_EQ(LiveCall(*runtime_).seen(), mark(1));
    has_called = true;
    while (!may_end) std::this_thread::yield();
  });
  EXPECT_TRUE(becomes_true([&] { return has_called.load(); }));
  leave_out();
  EXPECT_TRUE(becomes_true([&] { return module().state == "retired, still mapped"; }));
  EXPECT_TRUE(is_mapped());
  may_end = true;
  caller.join();
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(2));
}

}  // namespace
}  // namespace opmux::testing
