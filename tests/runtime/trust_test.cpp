// SPDX-License-Identifier: Apache-2.0
//
// Cases 20, 26 and 56 over a whole runtime: what others could change is refused with strict trust.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>

#include "core/base/environment.hpp"
#include "core/base/log.hpp"
#include "core/base/trust.hpp"
#include "core/loader/loader.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::binding_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SiluCall;
using testing::World;

constexpr const char* kManifest = R"yaml(manifest: 1
provider: acme
plugin: binds
priority: 90
libraries:
  k: {distribution: acme, glob: "acme/*.so"}
operators:
  silu_and_mul:
    - library: k
      required_symbols: fake_answer
      returns: int
      call: [input, out]
      when: {device: cpu}
)yaml";

class RuntimeTrustTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Check untrusted = check_trust(OPMUX_BINARY_DIR "/bin/opmux-probe"))
      GTEST_SKIP() << "others could change the build folder: " << to_string(*untrusted);
    fs::copy_file(fakes::path("module_binds"), world_.manifests() / "opmux_binds.so");
    library_ = world_.install("acme", "acme/kernels.so", fakes::path("none"));
    for (fs::path folder = library_.parent_path(); folder != world_.folder().path();
         folder = folder.parent_path())
      set_mode(folder, 0755);
    set_mode(library_, 0755);
    set_mode(world_.manifests(), 0755);
    set_mode(world_.manifests() / "opmux_binds.so", 0755);
    world_.write_manifest("acme.yaml", kManifest);
    set_mode(world_.manifests() / "acme.yaml", 0644);
  }

  static void set_mode(const fs::path& path, mode_t mode) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }

  Options options(Trust trust) const {
    Options options;
    options.environments = {world_.folder() / "env"};
    options.manifests = {world_.manifests()};
    options.trust = trust;
    return options;
  }

  // Native serves, and the binding says why not acme.
  void expect_rejected(const std::string& rule, const std::string& found) {
    StatusOr<Runtime> runtime = Runtime::open(options(Trust::kStrict));
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const Report report = runtime->report();
    const BindingReport* binding = binding_of(report, "silu_and_mul", "acme");
    ASSERT_NE(binding, nullptr);
    ASSERT_TRUE(binding->rejection);
    EXPECT_EQ(binding->rejection->rule, rule);
    EXPECT_EQ(binding->rejection->found, found);
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_EQ(call.provider.last_provider(), "native");
  }
  void expect_served(const Options& options) {
    StatusOr<Runtime> runtime = Runtime::open(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_EQ(call.provider.last_provider(), "acme");
  }

  World world_;
  fs::path library_;
};

TEST_F(RuntimeTrustTest, WhatNobodyElseCanChangeServesWithStrictTrust) {
  expect_served(options(Trust::kStrict));
}

TEST_F(RuntimeTrustTest, Case20ALibraryThatOthersMayWriteIsRejectedWithStrictTrust) {
  set_mode(library_, 0666);
  expect_rejected("trust.writable", "it has mode 0666");
}

TEST_F(RuntimeTrustTest, Case20WithLaxTrustItServesAndTheModeIsWarnedOf) {
  set_mode(library_, 0666);
  testing::EnvironmentGuard variables;
  variables.set("OPMUX_LOG", "warn");
  ::testing::internal::CaptureStderr();
  expect_served(options(Trust::kLax));
  std::fflush(stderr);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("[warn] " + library_.string() + ": it has mode 0666;"));
}

TEST_F(RuntimeTrustTest, Case20AFolderAboveThatOthersMayWriteIsRefused) {
  set_mode(library_.parent_path(), 0777);
  expect_rejected("trust.writable",
                  library_.parent_path().string() + ", on the way to it, has mode 0777");
}

TEST_F(RuntimeTrustTest, Case20AModuleThatOthersMayWriteIsRefused) {
  set_mode(world_.manifests() / "opmux_binds.so", 0775);
  expect_rejected("trust.writable", "it has mode 0775");
}

TEST_F(RuntimeTrustTest, AManifestAndAFolderThatOthersMayWriteAreNotRead) {
  for (const auto& [path, good] : {std::pair{world_.manifests() / "acme.yaml", mode_t{0644}},
                                   std::pair{world_.manifests(), mode_t{0755}}}) {
    set_mode(path, 0777);
    StatusOr<Runtime> runtime = Runtime::open(options(Trust::kStrict));
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const Report report = runtime->report();
    EXPECT_EQ(binding_of(report, "silu_and_mul", "acme"), nullptr);
    ASSERT_FALSE(report.rejections.empty());
    EXPECT_EQ(report.rejections[0].rule, "trust.writable");
    EXPECT_THAT(report.rejections[0].subject, HasSubstr(path.string()));
    set_mode(path, good);
  }
}

TEST_F(RuntimeTrustTest, AnEnvironmentThatOthersMayWriteIsNotSearched) {
  set_mode(world_.site_packages(), 0777);
  StatusOr<Runtime> runtime = Runtime::open(options(Trust::kStrict));
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  EXPECT_EQ(binding_of(report, "silu_and_mul", "acme")->rejection->rule,
            "discovery.distribution_missing");
  ASSERT_FALSE(report.rejections.empty());
  EXPECT_EQ(report.rejections[0].rule, "trust.writable");
  EXPECT_EQ(report.rejections[0].subject, world_.site_packages().string());
}

TEST_F(RuntimeTrustTest, AConfigurationThatOthersMayWriteIsAnError) {
  Options configured = options(Trust::kStrict);
  configured.config_file = world_.folder().write("opmux.yaml", "config: 1\n");
  set_mode(*configured.config_file, 0664);
  StatusOr<Runtime> refused = Runtime::open(configured);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().rejection()->rule, "trust.writable");
  EXPECT_EQ(refused.status().rejection()->subject, configured.config_file->string());
  configured.trust = Trust::kLax;
  EXPECT_TRUE(Runtime::open(configured).ok());
}

TEST_F(RuntimeTrustTest, ALockThatOthersMayWriteIsAnError) {
  Options locked = options(Trust::kStrict);
  locked.lock_file = world_.folder() / "opmux.lock";
  {
    StatusOr<Runtime> runtime = Runtime::open(options(Trust::kStrict));
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const Status written = runtime->write_lock(*locked.lock_file);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  const StatusOr<Runtime> opened = Runtime::open(locked);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  set_mode(*locked.lock_file, 0664);
  const StatusOr<Runtime> refused = Runtime::open(locked);
  ASSERT_NE(refused.status().rejection(), nullptr);
  EXPECT_EQ(refused.status().rejection()->rule, "trust.writable");
  EXPECT_EQ(refused.status().rejection()->subject, locked.lock_file->string());
}

TEST_F(RuntimeTrustTest, TheStricterOfFileVariableAndOptionWins) {
  set_mode(library_, 0666);
  for (const auto& [file, variable, option, is_strict] :
       {std::tuple{"lax", "lax", Trust::kLax, false},
        {"strict", "lax", Trust::kLax, true},
        {"lax", "strict", Trust::kLax, true},
        {"lax", "lax", Trust::kStrict, true}}) {
    testing::EnvironmentGuard variables;
    variables.set("OPMUX_TRUST", variable);
    Options configured = options(option);
    configured.config_file =
        world_.folder().write("opmux.yaml", std::string("config: 1\ntrust: ") + file + "\n");
    set_mode(*configured.config_file, 0644);
    configured.load = false;
    StatusOr<Runtime> runtime = Runtime::open(configured);
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    EXPECT_EQ(binding_of(runtime->report(), "silu_and_mul", "acme")->usable, !is_strict)
        << file << " " << variable;
  }
}

TEST_F(RuntimeTrustTest, Case56ACacheFolderThatOthersMayWriteIsNotUsed) {
  const fs::path cache = world_.folder() / "cache";
  expect_served(options(Trust::kStrict));
  ASSERT_TRUE(fs::exists(cache / "findings"));
  EXPECT_FALSE(fs::exists(cache / "checks")) << "kept by identity alone, not believed";
  StatusOr<Runtime> warm = Runtime::open(options(Trust::kStrict));
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(warm->report().probes, 0);
  set_mode(cache, 0777);
  StatusOr<Runtime> without = Runtime::open(options(Trust::kStrict));
  ASSERT_TRUE(without.ok());
  const Report report = without->report();
  EXPECT_EQ(report.probes, 1) << "the cache was believed";
  ASSERT_FALSE(report.rejections.empty());
  EXPECT_EQ(report.rejections[0].rule, "trust.writable");
  EXPECT_EQ(report.rejections[0].subject, cache.string());
}

TEST_F(RuntimeTrustTest, Case25ADependencyThatIsMappedFromElsewhereIsRefusedWithBothPaths) {
  const std::string name = "libfake_neighbour.so";
  const fs::path needed = world_.site_packages() / "acme" / name;
  fs::copy_file(fakes::path("needs_neighbour"), library_, fs::copy_options::overwrite_existing);
  fs::copy_file(fakes::path("libfake_neighbour"), needed);
  set_mode(needed, 0755);
  world_.write_manifest("acme.yaml",
                        std::string(kManifest).replace(std::string(kManifest).find("acme/*.so"), 9,
                                                       "acme/kernels.so"));
  expect_served(options(Trust::kLax));

  World other;
  const fs::path mapped = other.folder() / name;
  fs::copy_file(fakes::path("libfake_neighbour"), mapped);
  const fs::path again = other.install("acme", "acme/kernels.so", fakes::path("needs_neighbour"));
  fs::copy_file(fakes::path("libfake_neighbour"), again.parent_path() / name);
  void* const handle = dlopen(mapped.c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();
  const Check refused = check_mapped_dependencies(again, {again.parent_path() / name});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rule, "loader.dependency_elsewhere");
  EXPECT_EQ(refused->subject, again.string());
  EXPECT_THAT(refused->expected, HasSubstr((again.parent_path() / name).string()));
  EXPECT_THAT(refused->found, HasSubstr(mapped.string()));
  EXPECT_FALSE(check_mapped_dependencies(again, {mapped})) << "the one that is mapped";
  expect_rejected("loader.dependency_elsewhere",
                  mapped.string() + " is mapped, which the linker takes for it");
  dlclose(handle);
}

// Case 26: what the user of an elevated process says does not count.
class Elevated {
 public:
  Elevated() { pretend_elevated(true); }
  ~Elevated() { pretend_elevated(std::nullopt); }
};

TEST_F(RuntimeTrustTest, Case26AnElevatedProcessIgnoresOverridesAndUserFolders) {
  testing::EnvironmentGuard variables;
  variables.set("OPMUX_MANIFESTS", world_.manifests().string());
  variables.set("OPMUX_STRICT", "1");
  variables.set("OPMUX_NO_SUCH_NAME", "1");
  variables.set("VIRTUAL_ENV", (world_.folder() / "env").string());
  world_.folder().write("config/opmux/opmux.yaml", "config: 1\nstrict: true\n");
  world_.folder().write("config/opmux/providers.d/acme.yaml", kManifest);
  ::testing::internal::CaptureStderr();
  log::set_level(log::Level::kWarn);
  StatusOr<Runtime> runtime = [] {
    const Elevated elevated;
    Options options;
    return Runtime::open(options);
  }();
  std::fflush(stderr);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  EXPECT_FALSE(report.strict);
  EXPECT_EQ(report.config_file, "");
  EXPECT_TRUE(report.environments.empty());
  EXPECT_EQ(binding_of(report, "silu_and_mul", "acme"), nullptr);
  for (const ManifestFileReport& manifest : report.manifests)
    EXPECT_THAT(manifest.path, Not(HasSubstr(world_.folder().path().string())));
  for (const char* name :
       {"OPMUX_CACHE_DIR", "OPMUX_LOG", "OPMUX_MANIFESTS", "OPMUX_NO_SUCH_NAME", "OPMUX_STRICT"}) {
    const std::string line = std::string("[warn] ") + name + " is ignored: ";
    const std::size_t at = said.find(line);
    ASSERT_NE(at, std::string::npos) << name << "\n" << said;
    EXPECT_EQ(said.find(line, at + 1), std::string::npos) << name << " is told twice";
  }
}

}  // namespace
}  // namespace opmux
