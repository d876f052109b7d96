// SPDX-License-Identifier: Apache-2.0
//
// Selection by property, from the manifests and module tables to the call (field report C13).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::binding_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SiluCall;
using testing::World;

class PropertiesTest : public ::testing::Test {
 protected:
  // A drop-in provider before native, whose module declares in_place; `keys` go with its binding.
  void install(const std::string& keys = "") {
    world_.write_manifest("acme/acme.yaml",
                          "manifest: 1\nprovider: acme\nplugin: acme\npriority: 90\noperators:\n"
                          "  silu_and_mul: {module: silu_and_mul, " +
                              keys + "when: {device: cpu}}\n");
    fs::copy_file(fakes::path("module_serves"), world_.manifests() / "acme/opmux_acme.so");
  }

  // Opens with these settings for silu_and_mul, calls it once and leaves the report.
  std::string served_by(const std::string& settings) {
    world_.folder().write("config/opmux/opmux.yaml",
                          "config: 1\nroutes:\n  silu_and_mul: " + settings + "\n");
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    if (!runtime.ok()) return runtime.status().message();
    report_ = runtime->report();
    SiluCall call;
    const Status status = call.run(*runtime);
    if (!status.ok()) return status.message();
    EXPECT_TRUE(call.is_right());
    return call.provider.last_provider();
  }

  World world_;
  Report report_;
};

TEST_F(PropertiesTest, AModuleSpeaksForItsOwnTable) {
  install();
  EXPECT_EQ(served_by("{require: [in_place]}"), "acme");
  EXPECT_THAT(binding_of(report_, "silu_and_mul", "acme")->properties, ElementsAre("in_place"));
  EXPECT_THAT(binding_of(report_, "silu_and_mul", "native")->properties,
              ElementsAre("deterministic", "in_place"));
}

TEST_F(PropertiesTest, ABindingThatDoesNotDeclareWhatTheRouteRequiresIsSkippedVisibly) {
  install();
  EXPECT_EQ(served_by("{require: [deterministic]}"), "native");
  const BindingReport* binding = binding_of(report_, "silu_and_mul", "acme");
  ASSERT_TRUE(binding->rejection);
  EXPECT_FALSE(binding->callable);
  EXPECT_EQ(binding->rejection->rule, "registry.property");
  EXPECT_EQ(binding->rejection->subject, "silu_and_mul: acme");
  EXPECT_EQ(binding->rejection->expected, "a binding that declares deterministic");
  EXPECT_EQ(binding->rejection->found, "it declares in_place only");
}

TEST_F(PropertiesTest, TheManifestsWordReplacesTheModules) {
  install("properties: [deterministic], ");
  EXPECT_EQ(served_by("{require: [deterministic]}"), "acme");
  EXPECT_THAT(binding_of(report_, "silu_and_mul", "acme")->properties,
              ElementsAre("deterministic"));
}

TEST_F(PropertiesTest, WithoutARequirementNothingIsSkipped) {
  install("properties: [], ");
  EXPECT_EQ(served_by("{order: [acme, native]}"), "acme");
  EXPECT_THAT(binding_of(report_, "silu_and_mul", "acme")->properties, IsEmpty());
}

TEST_F(PropertiesTest, AnOrderOfOneDeviceLeavesTheOthersAlone) {
  install();
  EXPECT_EQ(served_by("{order: {cuda: [vllm]}}"), "acme");
  EXPECT_EQ(served_by("{order: {cpu: [native], cuda: [acme]}}"), "native");
  EXPECT_FALSE(binding_of(report_, "silu_and_mul", "acme")->routed);
}

// in_place is the manifest's word, and what the module says when it binds can contradict it.
TEST_F(PropertiesTest, ABindingThatCopiesIsNotInPlace) {
  world_.install("acme", "acme/kernels.so", fakes::path("two_answers"));
  fs::copy_file(fakes::path("module_binds"), world_.manifests() / "opmux_binds.so");
  const auto rejection = [&](const std::string& properties) {
    world_.write_manifest(
        "acme.yaml",
        "manifest: 1\nprovider: acme\nplugin: binds\n" + properties +
            "libraries:\n  k: {distribution: acme, glob: \"acme/*.so\"}\noperators:\n"
            "  copied: {library: k, required_symbols: fake_answer, returns: int, call: [out], "
            "when: {device: cpu}}\n"
            "declare:\n  copied: {schema: \"copied(Tensor(a!) out) -> ()\"}\n");
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    EXPECT_TRUE(runtime.ok()) << runtime.status().message();
    const Report report = runtime->report();
    const BindingReport* binding = binding_of(report, "copied", "acme");
    EXPECT_NE(binding, nullptr);
    return binding == nullptr ? std::optional<Rejection>() : binding->rejection;
  };
  EXPECT_FALSE(rejection(""));
  EXPECT_FALSE(rejection("properties: [deterministic]\n"));
  const std::optional<Rejection> contradicted = rejection("properties: [in_place]\n");
  ASSERT_TRUE(contradicted);
  EXPECT_EQ(contradicted->rule, "loader.in_place");
  EXPECT_EQ(contradicted->subject, "copied: acme");
  EXPECT_EQ(contradicted->expected, "no copies into outputs");
  EXPECT_EQ(contradicted->found, "2 per call");
}

}  // namespace
}  // namespace opmux
