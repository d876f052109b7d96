// SPDX-License-Identifier: Apache-2.0
//
// Broken edits while calls run: the running generation stays, the report says why, no call fails.
#include <gtest/gtest.h>

#include <optional>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

class BrokenEditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.drop_in("one", "live_1", 60);
    world_.write_config("probe: {deadline: 1s}\n");
    StatusOr<Runtime> opened = Runtime::open(world_.options());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    runtime_.emplace(std::move(*opened));
    before_ = runtime_->report().generation;
    load_.emplace(*runtime_);
    ASSERT_TRUE(becomes_true([&] { return load_->calls() > 0; }));
  }

  // The reload must be refused for `rule`, and change nothing.
  void expect_refused(const std::string& rule) {
    const Status status = runtime_->reload();
    ASSERT_FALSE(status.ok());
    ASSERT_NE(status.rejection(), nullptr) << status.message();
    EXPECT_EQ(status.rejection()->rule, rule) << status.message();
    const Report report = runtime_->report();
    EXPECT_EQ(report.generation, before_);
    EXPECT_EQ(report.history.back().outcome, "refused");
    EXPECT_EQ(report.history.back().reasons.front().rule, rule);
    EXPECT_EQ(LiveCall(*runtime_).seen(), mark(1));
    load_->stop();
    EXPECT_EQ(load_->wrong(), 0);
  }

  LiveWorld world_;
  std::optional<Runtime> runtime_;
  std::optional<Load> load_;
  std::uint64_t before_ = 0;
};

TEST_F(BrokenEditTest, ASyntaxErrorInTheConfiguration) {
  world_.write_config("routes: [\n");
  expect_refused("yaml.syntax");
}

TEST_F(BrokenEditTest, AnUnknownOperatorInARoute) {
  world_.write_config("routes:\n  live_x: [one]\n");
  expect_refused("config.unknown_operator");
}

TEST_F(BrokenEditTest, AnUnknownProviderInARoute) {
  world_.write_routes("nobody");
  expect_refused("config.unknown_provider");
}

TEST_F(BrokenEditTest, ARouteThatLeavesAnOperatorWithoutABinding) {
  write_whole(world_.folder() / "manifests/absent.yaml",
              "manifest: 1\nprovider: absent\nplugin: absent\noperators:\n"
              "  live_0: {module: live_0, when: {device: cpu}}\n");
  world_.write_config("routes:\n  live_0: [absent]\n");
  expect_refused("runtime.unserved");
}

TEST_F(BrokenEditTest, AStrictModeThatWouldRefuseEveryCall) {
  write_whole(world_.folder() / "manifests/absent.yaml",
              "manifest: 1\nprovider: absent\nplugin: absent\noperators:\n"
              "  live_0: {module: live_0, when: {device: cpu}}\n");
  world_.write_config("strict: true\nroutes:\n  live_0: [absent, one]\n");
  expect_refused("runtime.unserved");
}

TEST_F(BrokenEditTest, AnEnvironmentThatIsNotThere) {
  Options options = world_.options();
  options.environments.clear();
  write_whole(world_.config(), "config: 1\nenvironments: [\"" + world_.folder().string() + "\"]\n");
  load_->stop();
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  write_whole(world_.config(), "config: 1\nenvironments: [nowhere]\n");
  const Status status = runtime->reload();
  ASSERT_NE(status.rejection(), nullptr) << "the reload was not refused";
  EXPECT_EQ(status.rejection()->rule, "discovery.bad_environment");
}

TEST_F(BrokenEditTest, TheConfigurationIsGone) {
  std::filesystem::remove(world_.config());
  expect_refused("config.missing");
}

TEST_F(BrokenEditTest, ABrokenManifest) {
  write_whole(world_.folder() / "manifests/broken.yaml", "manifest: 1\nprovder: x\n");
  expect_refused("yaml.unknown_key");
}

TEST_F(BrokenEditTest, AProviderThatCrashesInTheProbe) {
  world_.drop_in("bad", "live_crashes", 90);
  expect_refused("probe.signal");
}

TEST_F(BrokenEditTest, AProviderThatHangsInTheProbe) {
  world_.drop_in("bad", "live_hangs", 90);
  expect_refused("probe.deadline");
}

TEST_F(BrokenEditTest, TheDropInFolderIsGone) {
  std::filesystem::remove_all(world_.folder() / "manifests");
  expect_refused("manifest.missing");
}

TEST_F(BrokenEditTest, AModuleThatIsReplacedHalfWay) {
  const std::string whole = read_whole(fakes::path("live_2"));
  const std::filesystem::path staged = world_.folder() / "staging/half.so";
  write_whole(staged, whole.substr(0, whole.size() / 2));
  std::filesystem::rename(staged, world_.module_file("one"));
  expect_refused("contract.truncated");
}

TEST_F(BrokenEditTest, AnOperatorThatIsDeclaredAnew) {
  std::string text = read_whole(world_.folder() / "manifests/live.yaml");
  const std::string before = "live_0(Tensor(a!) x, Tensor(b!) y) -> ()";
  text.replace(text.find(before), before.size(), "live_0(Tensor(a!) x) -> ()");
  write_whole(world_.folder() / "manifests/live.yaml", text);
  expect_refused("registry.redeclared_operator");
}

TEST_F(BrokenEditTest, AnOperatorThatTheModuleNoLongerHas) {
  world_.replace_module("one", "module_none");
  expect_refused("contract.module_operator_missing");
}

// What is broken since the start does not keep later edits out.
TEST_F(BrokenEditTest, AnOldFaultIsNoReasonToRefuseAnEdit) {
  load_->stop();
  world_.drop_in("bad", "live_crashes", 90);
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(1));
  world_.drop_in("two", "live_2", 80);
  const Status status = runtime->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(2));
}

TEST_F(BrokenEditTest, AMendedFaultIsPublished) {
  world_.write_config("routes: [\n");
  ASSERT_FALSE(runtime_->reload().ok());
  world_.drop_in("two", "live_2", 80);
  world_.write_config("");
  const Status status = runtime_->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(2));
  EXPECT_EQ(runtime_->report().generation, before_ + 1);
}

// A declaration of a refused change binds nobody.
TEST_F(BrokenEditTest, ANewOperatorWhoseSchemaIsMended) {
  const auto declare = [&](const std::string& schema) {
    write_whole(world_.folder() / "manifests/fresh.yaml",
                "manifest: 1\ndeclare:\n  fresh:\n    schema: \"" + schema +
                    "\"\n    summary: \"comes later\"\n");
  };
  declare("fresh(Tensor(a!) x) -> ()");
  world_.drop_in("bad", "live_crashes", 90);
  ASSERT_FALSE(runtime_->reload().ok());
  EXPECT_FALSE(runtime_->boxed("fresh").ok());

  world_.remove("bad");
  declare("fresh(Tensor(a!) x, int n) -> ()");
  const Status status = runtime_->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  const StatusOr<BoxedOperator> found = runtime_->boxed("fresh");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->schema(), "fresh(Tensor(a!) x, int n) -> ()");
}

// Caches are disposable: without room for them everything else works.
TEST_F(BrokenEditTest, NoRoomForCaches) {
  // As root ignores permissions, a file stands where the folder would be.
  std::filesystem::remove_all(world_.folder() / "cache");
  write_whole(world_.folder() / "cache", "");
  world_.drop_in("two", "live_2", 80);
  const Status status = runtime_->reload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(LiveCall(*runtime_).seen(), mark(2));
  load_->stop();
  EXPECT_EQ(load_->wrong(), 0);
}

}  // namespace
}  // namespace opmux::testing
