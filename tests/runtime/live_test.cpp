// SPDX-License-Identifier: Apache-2.0
//
// Reloads and routes that change while calls run.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

class LiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.drop_in("one", "live_1", 60);
    world_.drop_in("two", "live_2", 50);
    world_.write_routes("one, two");
  }

  LiveWorld world_;
};

TEST_F(LiveTest, AReloadPublishesWhatTheConfigurationSaysNow) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  LiveCall call(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  EXPECT_EQ(call.op.boxed().last_call().provider, "one");
  EXPECT_EQ(call.op.boxed().last_call().generation, runtime->report().generation);

  world_.write_routes("two, one");
  EXPECT_EQ(call.seen(), mark(1)) << "nobody asked for a reload";
  const std::uint64_t before = runtime->report().generation;
  const Status status = runtime->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(call.seen(), mark(2));
  EXPECT_EQ(call.op.boxed().last_call().generation, before + 1);

  const Report report = runtime->report();
  EXPECT_EQ(report.generation, before + 1);
  ASSERT_EQ(report.history.size(), 2u);
  EXPECT_EQ(report.history[0].trigger, "open");
  EXPECT_EQ(report.history[1].trigger, "reload");
  EXPECT_EQ(report.history[1].outcome, "published");
  EXPECT_EQ(report.history[1].generation, before + 1);
  EXPECT_TRUE(report.history[1].reasons.empty());
}

TEST_F(LiveTest, AReloadWithoutADifferenceIsNoNewGeneration) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const std::uint64_t before = runtime->report().generation;
  ASSERT_TRUE(runtime->reload().ok());
  EXPECT_EQ(runtime->report().generation, before);
  EXPECT_EQ(runtime->report().history.back().outcome, "unchanged");
}

TEST_F(LiveTest, CountersGoOnThroughGenerations) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  ASSERT_TRUE(runtime->set_routes({{"live_*", {"two"}}}).ok());
  EXPECT_EQ(call.seen(), mark(2));
  ASSERT_TRUE(runtime->set_routes({}).ok());
  EXPECT_EQ(call.seen(), mark(1));
  ASSERT_TRUE(runtime->reload().ok());
  const Report report = runtime->report();
  EXPECT_EQ(binding_of(report, "live_0", "one")->calls, 2u);
  EXPECT_EQ(binding_of(report, "live_0", "two")->calls, 1u);
}

TEST_F(LiveTest, SetRoutesPublishesWithoutReadingAnything) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  std::filesystem::remove_all(world_.folder() / "manifests");
  ASSERT_TRUE(runtime->set_routes({{"live_0", {"two"}}}).ok());
  LiveCall first(*runtime);
  LiveCall second(*runtime, 1);
  EXPECT_EQ(first.seen(), mark(2));
  EXPECT_EQ(second.seen(), mark(1, 1)) << "the configuration's route";
}

TEST_F(LiveTest, SetRoutesLoadsAProviderThatNoRouteNamedBefore) {
  world_.write_routes("one");
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  EXPECT_FALSE(binding_of(runtime->report(), "live_0", "two")->callable);
  const Status status = runtime->set_routes({{"live_0", {"two"}}});
  ASSERT_TRUE(status.ok()) << status.message();
  LiveCall call(*runtime);
  const Status served = call.run();
  EXPECT_TRUE(served.ok()) << served.message();
  EXPECT_EQ(call.x[0], mark(2));
}

TEST_F(LiveTest, RefusedRoutesChangeNothing) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const std::uint64_t before = runtime->report().generation;
  const Status status = runtime->set_routes({{"live_0", {"tow"}}});
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "config.unknown_provider");
  EXPECT_EQ(status.rejection()->hint, "Did you mean `two`?");
  EXPECT_EQ(runtime->report().generation, before);
  EXPECT_EQ(runtime->report().history.back().outcome, "refused");
  ASSERT_EQ(runtime->report().history.back().reasons.size(), 1u);
  EXPECT_EQ(runtime->report().history.back().reasons[0].rule, "config.unknown_provider");
  // Nor do they come back with the next reload.
  EXPECT_TRUE(runtime->reload().ok());
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(1));
}

TEST_F(LiveTest, AProviderThatIsGoneGivesWayToTheNextOfItsRoute) {
  world_.write_config("");
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  world_.remove("one");
  const Status status = runtime->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(call.seen(), mark(2));
  world_.drop_in("one", "live_1", 60);
  ASSERT_TRUE(runtime->reload().ok());
  EXPECT_EQ(call.seen(), mark(1));
}

TEST_F(LiveTest, AModuleThatIsGoneGivesWayToTheNextOfItsRoute) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  std::filesystem::remove(world_.module_file("one"));
  const Status status = runtime->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(2));
  EXPECT_EQ(binding_of(runtime->report(), "live_0", "one")->rejection->rule,
            "discovery.module_missing");
}

// Case 66: of plugin modules only. Both generations answer with their own version.
TEST_F(LiveTest, Case66AModuleThatChangedUnderItsPathIsMappedBesideTheOldOne) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  LiveCall inside(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  // A call that is inside the old file when the new one is published.
  inside.x[1] = 1;
  std::int64_t answered = 0;
  std::thread caller([&] { answered = inside.seen(); });
  ASSERT_TRUE(becomes_true([&] { return __atomic_load_n(&inside.x[0], __ATOMIC_SEQ_CST) > 0; }));

  world_.replace_module("one", "live_3");
  const Status status = runtime->reload();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(call.seen(), mark(3));
  __atomic_store_n(&inside.x[1], 0, __ATOMIC_SEQ_CST);
  caller.join();
  EXPECT_EQ(answered, mark(1));

  // The file of the first generation again is a third file for this process.
  world_.replace_module("one", "live_1");
  ASSERT_TRUE(runtime->reload().ok());
  EXPECT_EQ(call.seen(), mark(1));
}

TEST_F(LiveTest, EveryChangeIsToldOnce) {
  std::vector<ChangeReport> told;
  Options options = world_.options();
  options.on_change = [&](const ChangeReport& change) { told.push_back(change); };
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  world_.write_routes("two");
  const Status first = runtime->reload();
  ASSERT_TRUE(first.ok()) << first.message();
  world_.write_routes("three");
  ASSERT_FALSE(runtime->reload().ok());
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].trigger, "open");
  EXPECT_EQ(told[1].outcome, "published");
  EXPECT_EQ(told[2].outcome, "refused");
  EXPECT_EQ(told[2].reasons[0].rule, "config.unknown_provider");
  EXPECT_EQ(told[2].time.size(), std::string("2026-01-02T03:04:05.678Z").size());
}

// Case 62.
TEST_F(LiveTest, Case62AChangeInsideAChangeIsRefusedAndOneInTheCallbackIsNot) {
  Runtime* running = nullptr;
  Status nested;
  Status after;
  bool asked = false;
  Options options = world_.options();
  options.use_cache = false;  // so that there is progress to tell
  options.progress = [&](const std::string&) {
    if (running != nullptr) nested = running->reload();
  };
  options.on_change = [&](const ChangeReport& change) {
    if (running == nullptr || asked || change.trigger != "reload") return;
    asked = true;
    after = running->set_routes({{"live_0", {"two"}}});
  };
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  running = &*runtime;
  ASSERT_TRUE(runtime->reload().ok());
  ASSERT_NE(nested.rejection(), nullptr) << "reload() was not asked for while it ran";
  EXPECT_EQ(nested.rejection()->rule, "runtime.nested");
  EXPECT_TRUE(asked);
  EXPECT_TRUE(after.ok()) << after.message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(2));
}

TEST_F(LiveTest, ACallbackThatThrowsChangesNothing) {
  Options options = world_.options();
  options.watch = true;
  std::atomic<int> told{0};
  options.on_change = [&](const ChangeReport&) {
    ++told;
    if (told % 2 == 0) throw 1;
    throw std::runtime_error("of the program");
  };
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  const Status status = runtime->set_routes({{"live_0", {"two"}}});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(2));
  // On the runtime's own thread, too.
  const int before = told;
  world_.write_routes("two");
  EXPECT_TRUE(becomes_true([&] { return told > before; }));
  EXPECT_TRUE(becomes_true([&] { return LiveCall(*runtime, 1).seen() == mark(2, 1); }));
}

// Case 61.
TEST_F(LiveTest, Case61AChangeDoesNotWaitForCallsInFlight) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  LiveCall inside(*runtime);
  inside.x[1] = 1;
  std::thread caller([&] { EXPECT_EQ(inside.seen(), mark(1)); });
  ASSERT_TRUE(becomes_true([&] { return __atomic_load_n(&inside.x[0], __ATOMIC_SEQ_CST) > 0; }));
  EXPECT_TRUE(runtime->set_routes({{"live_*", {"two"}}}).ok());
  const Status status = runtime->reload();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(2));
  __atomic_store_n(&inside.x[1], 0, __ATOMIC_SEQ_CST);
  caller.join();
}

// Case 63.
TEST_F(LiveTest, Case63AHandleServesAfterItsRuntimeIsGone) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  { const Runtime gone = std::move(*runtime); }
  EXPECT_EQ(call.seen(), mark(1));
}

}  // namespace
}  // namespace opmux::testing
