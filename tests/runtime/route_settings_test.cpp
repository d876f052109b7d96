// SPDX-License-Identifier: Apache-2.0
//
// The settings of routes from opmux.yaml to the call and the report, with modules that fail on
// demand.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::binding_of;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

class RouteSettingsTest : public ::testing::Test {
 protected:
  // A drop-in provider of silu_and_mul that does what it is told.
  void install(const std::string& provider, int priority) {
    world_.write_manifest(provider + "/" + provider + ".yaml",
                          "manifest: 1\nprovider: " + provider + "\nplugin: " + provider +
                              "\npriority: " + std::to_string(priority) +
                              "\noperators:\n  silu_and_mul: {module: silu_and_mul, when: {device: "
                              "cpu}}\n");
    fs::copy_file(fakes::path("module_serves"), module(provider));
  }
  fs::path module(const std::string& provider) const {
    return world_.manifests() / (provider + "/opmux_" + provider + ".so");
  }

  Runtime open(const std::string& settings) {
    world_.folder().write("config/opmux/opmux.yaml",
                          "config: 1\nroutes:\n  silu_and_mul: " + settings + "\n");
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    if (!runtime.ok()) throw std::runtime_error(runtime.status().message());
    return std::move(*runtime);
  }

  template <class Function>
  Function* told(const std::string& provider, const char* function) const {
    void* const mapped = dlopen(module(provider).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (mapped == nullptr) throw std::runtime_error(provider + " is not mapped");
    return reinterpret_cast<Function*>(dlsym(mapped, function));
  }
  void answer_with(const std::string& provider, OpmuxStatus status) const {
    told<void(int)>(provider, "fake_answer_with")(status);
  }

  static std::string served_by(const Runtime& runtime) {
    SiluCall call;
    const Status status = call.run(runtime);
    return status.ok() ? call.provider.last_provider() : status.message();
  }

  World world_;
};

TEST_F(RouteSettingsTest, StrictIsOfTheseOperatorsOnly) {
  install("acme", 90);
  const Runtime strict = open("{order: [acme, native], strict: true}");
  EXPECT_EQ(served_by(strict), "acme");
  answer_with("acme", OPMUX_UNSUPPORTED);
  EXPECT_THAT(served_by(strict), HasSubstr("strict mode allows no fallback"));
  EXPECT_FALSE(strict.report().strict);
  const Runtime loose = open("{order: [acme, native], strict: false}");
  answer_with("acme", OPMUX_UNSUPPORTED);
  EXPECT_EQ(served_by(loose), "native");
}

TEST_F(RouteSettingsTest, StrictIsTurnedOffForSomeOperators) {
  install("acme", 90);
  world_.folder().write("config/opmux/opmux.yaml",
                        "config: 1\nstrict: true\nroutes:\n  silu_and_mul: {strict: false}\n");
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  EXPECT_EQ(served_by(*runtime), "acme");
  answer_with("acme", OPMUX_UNSUPPORTED);
  EXPECT_EQ(served_by(*runtime), "native");
}

// Case 58.
TEST_F(RouteSettingsTest, AnErrorBeforeLaunchGoesToTheNextWhereTheRouteSaysSo) {
  install("acme", 90);
  install("bravo", 80);
  const Runtime runtime = open("{on_error: next}");
  EXPECT_EQ(served_by(runtime), "acme");
  answer_with("acme", OPMUX_ERROR_BEFORE_LAUNCH);
  EXPECT_EQ(served_by(runtime), "bravo");
  answer_with("bravo", OPMUX_ERROR_BEFORE_LAUNCH);
  EXPECT_EQ(served_by(runtime), "native");
  answer_with("bravo", OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_THAT(served_by(runtime), HasSubstr("bravo"));
  const Report report = runtime.report();
  EXPECT_EQ(binding_of(report, "silu_and_mul", "acme")->errors, 3U);
  EXPECT_EQ(binding_of(report, "silu_and_mul", "bravo")->errors, 2U);
  EXPECT_EQ(binding_of(report, "silu_and_mul", "native")->calls, 1U);
}

TEST_F(RouteSettingsTest, AQuarantinedBindingIsInTheReport) {
  install("acme", 90);
  const Runtime runtime = open("{quarantine: {failures: 2, retry: 60m}}");
  EXPECT_EQ(served_by(runtime), "acme");
  EXPECT_FALSE(binding_of(runtime.report(), "silu_and_mul", "acme")->quarantine);
  answer_with("acme", OPMUX_ERROR_BEFORE_LAUNCH);
  for (int at = 0; at < 2; ++at) EXPECT_THAT(served_by(runtime), HasSubstr("fake: told to fail"));
  EXPECT_EQ(served_by(runtime), "native");
  const Report report = runtime.report();
  const BindingReport* binding = binding_of(report, "silu_and_mul", "acme");
  EXPECT_TRUE(binding->usable);
  ASSERT_TRUE(binding->quarantine);
  EXPECT_EQ(binding->quarantine->rule, "call.quarantined");
  EXPECT_EQ(binding->quarantine->subject, "silu_and_mul: acme");
  EXPECT_THAT(binding->quarantine->found,
              HasSubstr("2 failures in a row, the last: fake: told to fail; tried again in 3"));
  EXPECT_EQ(binding->quarantined, 1U);
  EXPECT_THAT(to_json(report), HasSubstr("\"quarantine\": {"));
}

TEST_F(RouteSettingsTest, AQuarantineOutlivesAReload) {
  install("acme", 90);
  Runtime runtime = open("{quarantine: {failures: 1, retry: 60m}}");
  EXPECT_EQ(served_by(runtime), "acme");
  answer_with("acme", OPMUX_ERROR_BEFORE_LAUNCH);
  EXPECT_THAT(served_by(runtime), HasSubstr("told to fail"));
  world_.folder().write("config/opmux/opmux.yaml",
                        "config: 1\nroutes:\n  silu_and_mul: {order: [acme, native], quarantine: "
                        "{failures: 1, retry: 60m}}\n");
  ASSERT_TRUE(runtime.reload().ok());
  EXPECT_EQ(served_by(runtime), "native");
}

TEST_F(RouteSettingsTest, AShadowFindsWhatDiffersAndChangesNothing) {
  install("acme", 90);
  const Runtime runtime = open("{order: [acme], shadow: {provider: native, sample: 1}}");
  SiluCall call;
  ASSERT_TRUE(call.run(runtime).ok());
  EXPECT_EQ(call.provider.last_provider(), "acme");
  EXPECT_TRUE(call.is_right());
  const BindingReport equal = *binding_of(runtime.report(), "silu_and_mul", "acme");
  EXPECT_EQ(equal.shadow_calls, 1U);
  EXPECT_EQ(equal.shadow_differences, 0U);

  told<void(float)>("acme", "fake_add")(0.5F);
  ASSERT_TRUE(call.run(runtime).ok());
  EXPECT_FALSE(call.is_right());  // the result is acme's all the same
  const Report report = runtime.report();
  const BindingReport* different = binding_of(report, "silu_and_mul", "acme");
  EXPECT_EQ(different->shadow_calls, 2U);
  EXPECT_EQ(different->shadow_differences, 1U);
  EXPECT_EQ(binding_of(report, "silu_and_mul", "native")->calls, 0U);
}

TEST_F(RouteSettingsTest, AShadowThatCannotRunIsReported) {
  install("acme", 90);
  world_.write_manifest("bravo.yaml",
                        "manifest: 1\nprovider: bravo\nplugin: bravo\noperators:\n  silu_and_mul: "
                        "{module: silu_and_mul, when: {device: cpu}}\n");
  const Runtime runtime = open("{shadow: {provider: bravo, sample: 1}}");
  EXPECT_EQ(served_by(runtime), "acme");
  const Report report = runtime.report();
  ASSERT_EQ(report.rejections.size(), 1U);
  EXPECT_EQ(report.rejections[0].rule, "registry.shadow");
  EXPECT_EQ(report.rejections[0].subject, "shadow by bravo");
  EXPECT_EQ(report.rejections[0].expected, "a callable binding on cpu");
  EXPECT_EQ(report.rejections[0].found, "none for silu_and_mul");
}

TEST_F(RouteSettingsTest, ASettingThatChangesIsPublishedByAReload) {
  install("acme", 90);
  Runtime runtime = open("{on_error: raise}");
  EXPECT_EQ(served_by(runtime), "acme");
  answer_with("acme", OPMUX_ERROR_BEFORE_LAUNCH);
  EXPECT_THAT(served_by(runtime), HasSubstr("told to fail"));
  world_.folder().write("config/opmux/opmux.yaml",
                        "config: 1\nroutes:\n  silu_and_mul: {on_error: next}\n");
  ASSERT_TRUE(runtime.reload().ok());
  EXPECT_EQ(served_by(runtime), "native");
  EXPECT_EQ(runtime.report().generation, 2U);
}

TEST_F(RouteSettingsTest, TheConfigurationMayStartInTheBackgroundAndAskToBeWatched) {
  install("acme", 90);
  const std::string file = "config/opmux/opmux.yaml";
  world_.folder().write(file, "config: 1\nstart: background\nwatch: true\n");
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  ASSERT_TRUE(runtime->wait_ready(std::chrono::seconds(20)).ok());
  EXPECT_EQ(served_by(*runtime), "acme");
  EXPECT_EQ(runtime->report().history.at(1).trigger, "background");
  world_.folder().write(file, "config: 1\nwatch: true\nroutes: {silu_and_mul: [native]}\n");
  for (int tries = 0; tries < 500 && served_by(*runtime) != "native"; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(served_by(*runtime), "native");
}

TEST_F(RouteSettingsTest, ARequirementThatChangesIsPublishedByAReload) {
  install("acme", 90);
  Runtime runtime = open("{order: [acme, native]}");
  EXPECT_EQ(served_by(runtime), "acme");
  world_.folder().write("config/opmux/opmux.yaml",
                        "config: 1\nroutes:\n  silu_and_mul: {order: [acme, native], require: "
                        "[deterministic]}\n");
  ASSERT_TRUE(runtime.reload().ok());
  EXPECT_EQ(served_by(runtime), "native");
  EXPECT_EQ(binding_of(runtime.report(), "silu_and_mul", "acme")->rejection->rule,
            "registry.property");
}

}  // namespace
}  // namespace opmux
