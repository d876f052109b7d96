// SPDX-License-Identifier: Apache-2.0
//
// A provider that is as its manifest says. One process per case: a Dispatcher library stays for a
// process's life.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

constexpr const char* kManifest = R"yaml(manifest: 1
provider: acme
plugin: vllm
priority: 90
requires: {torch: ">=2"}
libraries:
  c: {distribution: acme, glob: "acme/_C.*.so"}
operators:
  silu_and_mul:
    - library: c
      schema: "acme::silu_and_mul(Tensor! out, Tensor input, float scale=1.0) -> ()"
      dispatch_key: CPU
      call: [out, input]
      when: {input: {dtype: float32}}
)yaml";

class ServingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OPMUX_REQUIRE_PROVIDERS();
    library_ = world_.install("acme", "acme/_C.abi3.so", OPMUX_ACME_GOOD);
    world_.write_manifest("acme.yaml", kManifest);
  }

  World world_;
  fs::path library_;
};

TEST_F(ServingTest, TheProviderServesTheCall) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_TRUE(binding->usable) << to_string(*binding->rejection);
  EXPECT_TRUE(binding->callable);
  EXPECT_EQ(binding->library, library_.string());
  EXPECT_EQ(binding->contract, "dispatcher");
  EXPECT_EQ(report.find("silu_and_mul")->bindings.front().provider, "acme");

  SiluCall call;
  ASSERT_TRUE(call.run(*runtime).ok());
  EXPECT_EQ(call.provider.last_provider(), "acme");
  // The fake's kernel does nothing: had native run, the output would be written.
  EXPECT_EQ(call.out[0], -77.0f);
  EXPECT_EQ(testing::binding_of(runtime->report(), "silu_and_mul", "acme")->calls, 1u);
}

TEST_F(ServingTest, ARefusedConditionFallsBackToNative) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const auto silu = runtime->op<void(Tensor, Tensor)>("silu_and_mul");
  ASSERT_TRUE(silu.ok());
  std::array<std::uint16_t, 8> input{};
  std::array<std::uint16_t, 4> out{1, 1, 1, 1};
  ASSERT_TRUE((*silu)(TensorView(input.data(), DType::kBFloat16, {1, 8}),
                      TensorView(out.data(), DType::kBFloat16, {1, 4}))
                  .ok());
  EXPECT_EQ(silu->boxed().last_provider(), "native");
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(testing::binding_of(runtime->report(), "silu_and_mul", "acme")->refused, 1u);
}

TEST_F(ServingTest, ARouteThatLeavesTheProviderOutNeverLoadsIt) {
  Options options = world_.options();
  options.routes = {{"*", {"native"}}};
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  EXPECT_EQ(report.probes, 0);
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  EXPECT_FALSE(binding->routed);
  EXPECT_EQ(binding->rejection->rule, "registry.not_routed");
  EXPECT_THAT(testing::read_whole("/proc/self/maps"), ::testing::Not(HasSubstr("libtorch_cpu")));
}

TEST_F(ServingTest, AReportOnlyRuntimeMapsNoTorchAndStillSaysUsable) {
  Options options = world_.options();
  options.load = false;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  EXPECT_TRUE(binding->usable);
  EXPECT_FALSE(binding->callable);
  EXPECT_THAT(testing::read_whole("/proc/self/maps"), ::testing::Not(HasSubstr("libtorch_cpu")));
}

TEST_F(ServingTest, ASecondStartNeedsNoProbe) {
  Options options = world_.options();
  options.load = false;
  StatusOr<Runtime> cold = Runtime::open(options);
  ASSERT_TRUE(cold.ok());
  EXPECT_EQ(cold->report().probes, 1);
  StatusOr<Runtime> warm = Runtime::open(options);
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(warm->report().probes, 0);
  EXPECT_TRUE(testing::binding_of(warm->report(), "silu_and_mul", "acme")->usable);

  // The file changes: what was found no longer counts.
  fs::last_write_time(library_, fs::last_write_time(library_) + std::chrono::seconds(1));
  StatusOr<Runtime> changed = Runtime::open(options);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->report().probes, 1);
}

TEST_F(ServingTest, ARejectedBindingTellsEveryCandidateOfItsLibrary) {
  const fs::path other = library_.parent_path() / "_D.abi3.so";
  fs::rename(library_, other);
  world_.folder().write("env/lib/python3.12/site-packages/acme-1.0.dist-info/RECORD",
                        "acme/_D.abi3.so,,\n");
  fs::resize_file(other, fs::file_size(other) / 2);
  std::string manifest = kManifest;
  const std::string before = "  c: {distribution: acme, glob: \"acme/_C.*.so\"}\n";
  manifest.replace(manifest.find(before), before.size(),
                   "  c:\n    - {distribution: acme, glob: \"acme/_C.*.so\"}\n"
                   "    - {distribution: acme, glob: \"acme/_D.*.so\"}\n");
  world_.write_manifest("acme.yaml", manifest);
  Options options = world_.options();
  options.load = false;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_TRUE(binding->rejection.has_value());
  EXPECT_EQ(binding->rejection->rule, "contract.truncated") << to_string(*binding->rejection);
  ASSERT_EQ(binding->alternatives.size(), 1u);
  EXPECT_EQ(binding->alternatives[0].rejection->rule, "discovery.no_match");
}

TEST_F(ServingTest, ALaterCandidateServesWhenTheFirstEndsTheProbe) {
  world_.folder().write("env/lib/python3.12/site-packages/acme-1.0.dist-info/RECORD",
                        "acme/_C.abi3.so,,\nacme/_C_wide.abi3.so,,\n");
  fs::copy_file(fs::path(OPMUX_FAKE_DIRECTORY) / "illegal.so",
                library_.parent_path() / "_C_wide.abi3.so");
  std::string manifest = kManifest;
  const std::string before = "  c: {distribution: acme, glob: \"acme/_C.*.so\"}\n";
  manifest.replace(manifest.find(before), before.size(),
                   "  c:\n    - {distribution: acme, glob: \"acme/_C_wide.*.so\"}\n"
                   "    - {distribution: acme, glob: \"acme/_C.*.so\"}\n");
  world_.write_manifest("acme.yaml", manifest);
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_TRUE(binding->usable) << to_string(*binding->rejection);
  EXPECT_EQ(binding->library, library_.string());
  ASSERT_EQ(binding->alternatives.size(), 1u);
  EXPECT_EQ(binding->alternatives[0].rejection->rule, "probe.signal");
  EXPECT_THAT(to_string(*binding->alternatives[0].rejection), HasSubstr("SIGILL"));
}

TEST_F(ServingTest, ALibraryThatWouldMeetTheOneOfAnEarlierRuntimeIsRejected) {
  StatusOr<Runtime> earlier = Runtime::open(world_.options());
  ASSERT_TRUE(earlier.ok());
  ASSERT_TRUE(testing::binding_of(earlier->report(), "silu_and_mul", "acme")->callable);

  World other;
  const fs::path library = other.install("acme", "acme/_C.abi3.so", OPMUX_ACME_GOOD);
  other.write_manifest("acme.yaml", kManifest);
  StatusOr<Runtime> later = Runtime::open(other.options());
  ASSERT_TRUE(later.ok());
  const Report report = later->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_TRUE(binding->rejection.has_value());
  EXPECT_EQ(binding->rejection->rule, "probe.conflict");
  EXPECT_EQ(binding->rejection->subject, library.string());
  EXPECT_EQ(binding->rejection->expected, "namespace `acme` defined once in this process");
  EXPECT_THAT(binding->rejection->found, HasSubstr(library_.string()));
  SiluCall call;
  ASSERT_TRUE(call.run(*later).ok());
  EXPECT_EQ(call.provider.last_provider(), "native");
}

TEST_F(ServingTest, AReportOnlyRuntimeIsNoSilentFallbackInStrictMode) {
  Options options = world_.options();
  options.load = false;
  options.strict = true;
  options.routes = {{"silu_and_mul", {"acme", "native"}}};
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  SiluCall call;
  const Status status = call.run(*runtime);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.rejection()->rule, "call.fallback");
  EXPECT_EQ(call.out[0], -77.0f);
}

// A library that this release does not have: told once, and no other file stands in its place.
TEST_F(ServingTest, AMissingLibraryIsToldOnceAndHasNoPath) {
  std::string manifest = kManifest;
  const std::string libraries = "  c: {distribution: acme, glob: \"acme/_C.*.so\"}\n";
  manifest.insert(manifest.find(libraries) + libraries.size(),
                  "  d: {distribution: acme, glob: \"acme/_D.*.so\", optional: true}\n");
  manifest.replace(manifest.find("library: c"), 10, "library: [d, c]");
  manifest += R"yaml(  gelu_and_mul:
    - library: d
      schema: "acme::gelu_and_mul(Tensor! out, Tensor input) -> ()"
      dispatch_key: CPU
      call: [out, input]
)yaml";
  world_.write_manifest("acme.yaml", manifest);
  Options options = world_.options();
  options.load = false;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  const BindingReport* silu = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(silu, nullptr);
  ASSERT_TRUE(silu->usable) << to_string(*silu->rejection);
  ASSERT_EQ(silu->alternatives.size(), 1u);
  EXPECT_EQ(silu->alternatives[0].rejection->rule, "discovery.no_match");
  const BindingReport* gelu = testing::binding_of(report, "gelu_and_mul", "acme");
  ASSERT_NE(gelu, nullptr);
  ASSERT_TRUE(gelu->rejection.has_value());
  EXPECT_EQ(gelu->rejection->rule, "discovery.no_match");
  EXPECT_FALSE(gelu->library.has_value()) << *gelu->library;
}

}  // namespace
}  // namespace opmux
