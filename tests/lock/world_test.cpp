// SPDX-License-Identifier: Apache-2.0
//
// Locks over real files: a distribution with a library, a drop-in folder with manifests and a
// plugin module, a torch that is only a few files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_whole;
using testing::SiluCall;
using testing::World;
using testing::write_whole;

constexpr const char* kManifest = R"yaml(manifest: 1
provider: acme
plugin: binds
priority: 90
libraries:
  k: {distribution: acme, glob: "acme/*kernels.so"}
operators:
  silu_and_mul:
    - library: k
      required_symbols: fake_answer
      returns: int
      call: [input, out]
      when: {device: cpu}
)yaml";

class LockWorldTest : public ::testing::Test {
 protected:
  LockWorldTest() {
    fs::copy_file(fakes::path("module_binds"), world_.manifests() / "opmux_binds.so");
    library_ = world_.install("acme", "acme/kernels.so", fakes::path("none"));
    world_.write_manifest("acme.yaml", kManifest);
  }

  Options options(bool load = false) const {
    Options options;
    options.environments = {world_.folder() / "env"};
    options.manifests = {world_.manifests()};
    options.load = load;
    return options;
  }
  fs::path file() const { return world_.folder() / "opmux.lock"; }

  void make_lock() {
    StatusOr<Runtime> runtime = Runtime::open(options());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const Status status = runtime->write_lock(file());
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::vector<Rejection> drifts(const Options& options) {
    StatusOr<Runtime> runtime = Runtime::open(options);
    EXPECT_TRUE(runtime.ok()) << runtime.status().message();
    if (!runtime.ok()) return {};
    StatusOr<std::vector<Rejection>> found = runtime->compare_lock(file());
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *found : std::vector<Rejection>{};
  }

  // compare_lock names exactly these rules, and a runtime under the lock does not open, says so and
  // maps nothing.
  void expect_drifts(std::vector<std::string> rules) { expect_drifts(std::move(rules), options()); }
  void expect_drifts(std::vector<std::string> rules, Options changed) {
    std::vector<std::string> found;
    std::string text;
    for (const Rejection& drift : drifts(changed)) {
      found.push_back(drift.rule);
      text += to_string(drift) + "\n";
    }
    EXPECT_EQ(found, rules) << text;
    changed.load = true;
    changed.lock_file = file();
    StatusOr<Runtime> runtime = Runtime::open(changed);
    ASSERT_FALSE(runtime.ok());
    ASSERT_NE(runtime.status().rejection(), nullptr);
    EXPECT_EQ(runtime.status().rejection()->rule, rules.front());
    EXPECT_THAT(runtime.status().message(), HasSubstr(file().string()));
    EXPECT_THAT(read_whole("/proc/self/maps"), Not(HasSubstr(library_.string())));
  }

  World world_;
  fs::path library_;
};

TEST_F(LockWorldTest, UnderALockThatHoldsTheProviderServes) {
  make_lock();
  EXPECT_TRUE(drifts(options()).empty());
  Options locked = options(true);
  locked.lock_file = file();
  StatusOr<Runtime> runtime = Runtime::open(locked);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  SiluCall call;
  ASSERT_TRUE(call.run(*runtime).ok());
  EXPECT_EQ(call.provider.last_provider(), "acme");
}

TEST_F(LockWorldTest, NoPathOfTheMachineIsInTheLock) {
  make_lock();
  const std::string text = read_whole(file());
  EXPECT_THAT(text, Not(HasSubstr(world_.folder().path().string())));
  EXPECT_THAT(text, Not(HasSubstr(OPMUX_BINARY_DIR)));
  EXPECT_THAT(text, HasSubstr("\"library\": \"distribution acme: acme/kernels.so\""));
  EXPECT_THAT(text, HasSubstr("\"module\": \"manifest acme: opmux_binds.so\""));
}

TEST_F(LockWorldTest, TheLockHoldsWhereTheSameFilesLieElsewhere) {
  make_lock();
  World other;
  fs::copy(world_.folder() / "env", other.folder() / "elsewhere", fs::copy_options::recursive);
  fs::copy(world_.manifests(), other.folder() / "drop-in", fs::copy_options::recursive);
  Options moved = options();
  moved.environments = {other.folder() / "elsewhere"};
  moved.manifests = {other.folder() / "drop-in"};
  EXPECT_TRUE(drifts(moved).empty());
}

TEST_F(LockWorldTest, LockingTwiceWritesTheSameBytes) {
  make_lock();
  const std::string first = read_whole(file());
  make_lock();
  EXPECT_EQ(read_whole(file()), first);
}

// ---- the drifts ----

TEST_F(LockWorldTest, AVersionBump) {
  make_lock();
  const fs::path metadata = world_.site_packages() / "acme-1.0.dist-info";
  fs::rename(metadata, world_.site_packages() / "acme-1.1.dist-info");
  world_.folder().write("env/lib/python3.12/site-packages/acme-1.1.dist-info/METADATA",
                        "Metadata-Version: 2.1\nName: acme\nVersion: 1.1\n");
  expect_drifts({"lock.version"});
}

TEST_F(LockWorldTest, AChangedByteThatKeepsSizeAndTime) {
  make_lock();
  const auto time = fs::last_write_time(library_);
  std::string content = read_whole(library_);
  content.back() = static_cast<char>(content.back() ^ 1);
  write_whole(library_, content);
  fs::last_write_time(library_, time);
  expect_drifts({"lock.bytes"});
}

TEST_F(LockWorldTest, AChangedLibraryIsNotEvenProbed) {
  make_lock();
  fs::copy_file(fakes::path("abort"), library_, fs::copy_options::overwrite_existing);
  std::vector<std::string> steps;
  Options locked = options(true);
  locked.lock_file = file();
  locked.progress = [&](const std::string& text) { steps.push_back(text); };
  StatusOr<Runtime> runtime = Runtime::open(locked);
  ASSERT_FALSE(runtime.ok());
  EXPECT_EQ(runtime.status().rejection()->rule, "lock.bytes");
  EXPECT_THAT(runtime.status().message(), HasSubstr("1 difference from"));
  EXPECT_TRUE(steps.empty()) << steps.front();
}

TEST_F(LockWorldTest, AContractThatTheVerdictsTell) {
  make_lock();
  std::string text = read_whole(file());
  text.replace(text.find("\"fake_answer\""), 13, "\"fake_answers\"");
  write_whole(file(), text);
  expect_drifts({"lock.contract"});
}

TEST_F(LockWorldTest, AChangedPluginModule) {
  make_lock();
  fs::copy_file(fakes::path("module_listens"), world_.manifests() / "opmux_binds.so",
                fs::copy_options::overwrite_existing);
  Options changed = options(true);
  changed.lock_file = file();
  StatusOr<Runtime> runtime = Runtime::open(changed);
  ASSERT_FALSE(runtime.ok());
  EXPECT_EQ(runtime.status().rejection()->rule, "lock.bytes");
  EXPECT_EQ(runtime.status().rejection()->subject, "manifest acme: opmux_binds.so");
}

TEST_F(LockWorldTest, AMovedFile) {
  make_lock();
  fs::rename(library_, world_.site_packages() / "acme/moved-kernels.so");
  world_.folder().write("env/lib/python3.12/site-packages/acme-1.0.dist-info/RECORD",
                        "acme/moved-kernels.so,,\n");
  expect_drifts({"lock.moved"});
}

TEST_F(LockWorldTest, AProviderThatIsGone) {
  make_lock();
  fs::remove_all(world_.site_packages() / "acme-1.0.dist-info");
  expect_drifts({"lock.file_missing", "lock.file_missing", "lock.binding_missing"});
}

TEST_F(LockWorldTest, AnAddedProvider) {
  make_lock();
  fs::create_directories(world_.folder() / "more");
  fs::copy_file(fakes::path("two_answers"), world_.folder() / "more/kernels2.so");
  fs::copy_file(fakes::path("module_binds"), world_.folder() / "more/opmux_binds.so");
  std::string manifest = kManifest;
  manifest.replace(manifest.find("provider: acme"), 14, "provider: more");
  manifest.replace(manifest.find("{distribution: acme, glob: \"acme/*kernels.so\"}"), 46,
                   "{glob: \"kernels2.so\"}");
  manifest.replace(manifest.find("fake_answer"), 11, "fake_second_answer");
  world_.folder().write("more/more.yaml", manifest);
  Options more = options();
  more.manifests.insert(more.manifests.begin(), world_.folder() / "more");
  expect_drifts({"lock.manifest", "lock.file_added", "lock.file_added"}, more);
}

TEST_F(LockWorldTest, ABindingThatIsRefusedNow) {
  make_lock();
  std::string manifest = kManifest;
  manifest.replace(manifest.find("required_symbols: fake_answer"), 29,
                   "required_symbols: fake_nothing");
  world_.write_manifest("acme.yaml", manifest);
  expect_drifts({"lock.manifest", "lock.binding_missing"});
  EXPECT_THAT(drifts(options()).back().found, HasSubstr("contract.symbol_missing"));
}

TEST_F(LockWorldTest, ABindingThatIsUsableNow) {
  std::string manifest = kManifest;
  manifest.replace(manifest.find("required_symbols: fake_answer"), 29,
                   "required_symbols: fake_nothing");
  world_.write_manifest("acme.yaml", manifest);
  make_lock();
  world_.write_manifest("acme.yaml", kManifest);
  expect_drifts({"lock.manifest", "lock.binding_added"});
}

TEST_F(LockWorldTest, AChangedManifest) {
  make_lock();
  world_.write_manifest("acme.yaml", std::string(kManifest) + "# a word\n");
  expect_drifts({"lock.manifest"});
}

TEST_F(LockWorldTest, AnotherOrderOfTheRoute) {
  make_lock();
  Options other = options();
  other.routes = {{"silu_and_mul", {"native", "acme"}}};
  expect_drifts({"lock.route", "lock.route"}, other);
}

TEST_F(LockWorldTest, AnotherTorch) {
  const auto write_torch = [&](const std::string& version) {
    world_.folder().write("env/lib/python3.12/site-packages/torch/version.py",
                          "__version__ = '" + version + "'\ncuda = None\n");
  };
  write_torch("2.11.0+cpu");
  world_.folder().write("env/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so", "torch");
  std::string manifest = kManifest;
  world_.write_manifest(
      "acme.yaml", manifest.replace(manifest.find("priority"), 0, "requires: {torch: \">=2\"}\n"));
  make_lock();
  EXPECT_TRUE(drifts(options()).empty());
  write_torch("2.12.0+cpu");
  expect_drifts({"lock.torch"});
  EXPECT_EQ(drifts(options())[0].expected, "torch 2.11.0+cpu (no CUDA)");
  EXPECT_EQ(drifts(options())[0].found, "torch 2.12.0+cpu (no CUDA)");
  write_torch("2.11.0+cpu");
  world_.folder().write("env/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so", "tor(h");
  expect_drifts({"lock.torch"});
}

TEST_F(LockWorldTest, AMissingDriver) {
  make_lock();
  std::string text = read_whole(file());
  text.replace(text.find("\"stub\": false"), 13, "\"floor\": \"13.0\", \"stub\": true");
  write_whole(file(), text);
  if (fs::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "this machine has a driver";
  expect_drifts({"lock.driver"});
  Options stub = options();
  stub.stub_driver = true;
  EXPECT_TRUE(drifts(stub).empty()) << "a machine without a GPU checks the rest";
}

// ---- the lock as a file and a setting ----

TEST_F(LockWorldTest, ALockThatIsNotThereOrBrokenStopsTheStart) {
  Options locked = options(true);
  locked.lock_file = file();
  StatusOr<Runtime> missing = Runtime::open(locked);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().rejection()->rule, "lock.missing");
  write_whole(file(), "{}");
  StatusOr<Runtime> broken = Runtime::open(locked);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().rejection()->rule, "lock.form");
}

TEST_F(LockWorldTest, ARefusedManifestIsNotLockedAndTheOldLockStays) {
  write_whole(file(), "before");
  world_.write_manifest("broken.yaml", "manifest: 1\nprovider: [x]\n");
  StatusOr<Runtime> runtime = Runtime::open(options());
  ASSERT_TRUE(runtime.ok());
  const Status status = runtime->write_lock(file());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.rejection()->rule, "lock.incomplete");
  EXPECT_THAT(status.rejection()->subject, HasSubstr("broken.yaml:2:11"));
  EXPECT_EQ(read_whole(file()), "before");
}

TEST_F(LockWorldTest, TheConfigurationsLockBindsRuntimesThatLoadAndNotThoseThatLook) {
  make_lock();
  world_.folder().write("opmux.yaml", "config: 1\nlock: opmux.lock\n");
  world_.write_manifest("acme.yaml", std::string(kManifest) + "# a word\n");
  Options configured = options(true);
  configured.config_file = world_.folder() / "opmux.yaml";
  StatusOr<Runtime> refused = Runtime::open(configured);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().rejection()->rule, "lock.manifest");
  configured.load = false;
  EXPECT_TRUE(Runtime::open(configured).ok());
}

TEST_F(LockWorldTest, TheVariableNamesTheLock) {
  testing::EnvironmentGuard variables;
  variables.set("OPMUX_LOCK", file().string());
  StatusOr<Runtime> missing = Runtime::open(options(true));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().rejection()->rule, "lock.missing");
  make_lock();
  EXPECT_TRUE(Runtime::open(options(true)).ok());
}

}  // namespace
}  // namespace opmux
