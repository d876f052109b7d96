// SPDX-License-Identifier: Apache-2.0
//
// Files that are followed.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

using std::chrono::milliseconds;

class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.drop_in("one", "live_1", 60);
    world_.drop_in("two", "live_2", 50);
    world_.write_routes("one, two");
  }
  StatusOr<Runtime> open() const {
    Options options = world_.options();
    options.watch = true;
    return Runtime::open(options);
  }
  LiveWorld world_;
};

TEST_F(WatchTest, FollowsAConfigurationThatIsWrittenInPlace) {
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  LiveCall call(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  world_.write_config("routes:\n  \"live_*\": [two]\n", /*by_rename=*/false);
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(2); }));
  // Calls may see the generation a moment before the history tells of it.
  EXPECT_TRUE(becomes_true([&] { return runtime->report().history.back().trigger == "watch"; }));
}

TEST_F(WatchTest, FollowsAConfigurationThatIsRenamedOver) {
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  for (const int version : {2, 1, 2}) {
    world_.write_routes(version == 2 ? "two" : "one");
    EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(version); })) << version;
  }
}

// As Kubernetes replaces mounted files: the link that the path goes through is renamed.
TEST_F(WatchTest, FollowsAConfigurationBehindALink) {
  const std::filesystem::path mounted = world_.folder() / "mounted";
  const auto write_version = [&](const std::string& version, const std::string& providers) {
    std::filesystem::create_directories(mounted / version);
    write_whole(mounted / version / "opmux.yaml",
                "config: 1\nroutes:\n  \"live_*\": [" + providers + "]\n");
    std::filesystem::create_directory_symlink(version, mounted / "new");
    std::filesystem::rename(mounted / "new", mounted / "data");
  };
  write_version("v1", "one");
  std::filesystem::create_symlink("data/opmux.yaml", mounted / "opmux.yaml");
  Options options = world_.options();
  options.config_file = mounted / "opmux.yaml";
  options.watch = true;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  LiveCall call(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  write_version("v2", "two");
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(2); }));
}

TEST_F(WatchTest, ServesADropInFolderAndMasksAndRemovesIt) {
  world_.write_config("");
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  EXPECT_EQ(call.seen(), mark(1));
  const auto start = std::chrono::steady_clock::now();
  world_.drop_in("three", "live_3", 70);
  ASSERT_TRUE(becomes_true([&] { return call.seen() == mark(3); }));
  RecordProperty("milliseconds", std::to_string(std::chrono::duration_cast<milliseconds>(
                                                    std::chrono::steady_clock::now() - start)
                                                    .count()));
  // An empty file in a higher folder hides it.
  const std::filesystem::path user = world_.folder() / "config/opmux/providers.d";
  std::filesystem::remove_all(user);
  write_whole(world_.drop_in_folder("three") / "three.yaml", "");
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(1); }));
  LiveWorld::write_manifest(world_.drop_in_folder("three"), "three", 70);
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(3); }));
  world_.remove("three");
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(1); }));
}

TEST_F(WatchTest, FollowsAFolderThatComesLater) {
  std::filesystem::remove_all(world_.folder() / "config");
  world_.write_config("");
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  const std::filesystem::path user = world_.folder() / "config/opmux/providers.d/three";
  std::filesystem::create_directories(user);
  std::filesystem::copy_file(fakes::path("live_3"), user / "opmux_three.so");
  LiveWorld::write_manifest(user, "three", 70);
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(3); }));
}

TEST_F(WatchTest, AMendedFileIsTakenUpWhereverTheFaultWas) {
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  // The configuration names a folder that only it knows, with a broken manifest in it.
  std::filesystem::create_directories(world_.folder() / "more");
  write_whole(world_.folder() / "more/broken.yaml", "manifest: 1\nprovider: [\n");
  world_.write_config("manifests: [more]\nroutes:\n  \"live_*\": [two]\n");
  ASSERT_TRUE(becomes_true([&] { return runtime->report().history.back().outcome == "refused"; }));
  EXPECT_EQ(call.seen(), mark(1));
  write_whole(world_.folder() / "more/broken.yaml", "");
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(2); }));
}

TEST_F(WatchTest, AProviderMayComeAfterTheRouteThatNamesIt) {
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  // A folder that only the refused configuration names, and that is not there yet.
  world_.write_config("manifests: [more]\nroutes:\n  \"live_*\": [three]\n");
  ASSERT_TRUE(becomes_true([&] { return runtime->report().history.back().outcome == "refused"; }));
  EXPECT_EQ(runtime->report().history.back().reasons.front().rule, "manifest.missing");
  const std::filesystem::path folder = world_.folder() / "more";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(becomes_true([&] {
    return runtime->report().history.back().reasons.front().rule == "config.unknown_provider";
  }));
  std::filesystem::copy_file(fakes::path("live_3"), folder / "opmux_three.so");
  LiveWorld::write_manifest(folder, "three", 50);
  EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(3); }));
}

// As `cp` does it. The running code must not be the file that is written over.
TEST_F(WatchTest, AModuleMayBeWrittenOverInPlace) {
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok());
  Load load(*runtime);
  LiveCall call(*runtime);
  ASSERT_TRUE(becomes_true([&] { return load.calls() > 0; }));
  for (const int version : {3, 2, 1}) {
    std::filesystem::copy_file(fakes::path("live_" + std::to_string(version)),
                               world_.module_file("one"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_TRUE(becomes_true([&] { return call.seen() == mark(version); }));
  }
  load.stop();
  EXPECT_EQ(load.wrong(), 0);
}

TEST_F(WatchTest, FollowsTheLock) {
  const std::filesystem::path lock = world_.folder() / "opmux.lock";
  {
    StatusOr<Runtime> runtime = open();
    ASSERT_TRUE(runtime.ok());
    const Status written = runtime->write_lock(lock);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  const std::string held = "lock: opmux.lock\nroutes:\n  \"live_*\": [one, two]\n";
  world_.write_config(held);
  StatusOr<Runtime> runtime = open();
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  EXPECT_EQ(runtime->report().lock_file, lock.string());
  const std::string text = read_whole(lock);
  write_whole(lock, "{");
  ASSERT_TRUE(becomes_true([&] { return runtime->report().history.back().outcome == "refused"; }));
  world_.write_config(
      "lock: opmux.lock\nroutes:\n  \"live_*\": {order: [one, two], on_error: next}\n");
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(runtime->report().history.size(), 2u) << "the same refusal is told once";
  EXPECT_EQ(runtime->report().generation, 1u);
  write_whole(lock, text);
  EXPECT_TRUE(becomes_true([&] { return runtime->report().generation == 2; }));
}

TEST(WatchDeathTest, ARuntimeThatIsDestroyedOnItsOwnThreadEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  LiveWorld world;
  world.drop_in("one", "live_1", 60);
  world.write_config("");
  const auto destroy = [&] {
    std::optional<Runtime> runtime;
    Options options = world.options();
    options.watch = true;
    options.on_change = [&](const ChangeReport& change) {
      if (change.trigger == "watch") runtime.reset();
    };
    StatusOr<Runtime> opened = Runtime::open(options);
    runtime.emplace(std::move(*opened));
    world.write_config("strict: true\n");
    std::this_thread::sleep_for(std::chrono::seconds(10));
  };
  EXPECT_DEATH(destroy(), "destroyed inside its own Options::on_change");
}

TEST_F(WatchTest, IsOffUnlessAskedFor) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  LiveCall call(*runtime);
  world_.write_routes("two");
  EXPECT_FALSE(becomes_true([&] { return call.seen() == mark(2); }, milliseconds(700)));
}

}  // namespace
}  // namespace opmux::testing
