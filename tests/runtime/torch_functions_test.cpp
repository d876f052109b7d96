// SPDX-License-Identifier: Apache-2.0
//
// A provider that registers nothing and exports C++ functions, from its manifest to the call:
// examples/torch_functions as it is, and with everything wrong that can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

constexpr const char* kManifest = R"yaml(manifest: 1
provider: acme
plugin: direct_symbol
priority: 90
requires: {torch: ">=2"}
libraries:
  functions: {distribution: acme, glob: "acme/functions*.so"}
operators:
  rms_norm:
    library: functions
    required_symbols: "rms_norm(at::Tensor&, at::Tensor&, at::Tensor&, double)"
    returns: void
    call: [out, input, weight, eps]
    when: {device: cpu}
  silu_and_mul:
    library: functions
    required_symbols: "silu_and_mul(at::Tensor&, at::Tensor&)"
    returns: void
    call: [out, input]
    when: {device: cpu}
)yaml";

class TorchFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    OPMUX_REQUIRE_PROVIDERS();
    library_ = world_.install("acme", "acme/functions.so", OPMUX_FUNCTIONS);
    world_.write_manifest("acme.yaml", kManifest);
  }

  // What became of one binding, and that calls are served all the same, by `server`; strict calls
  // fail with the binding's rejection.
  Rejection expect_rejected(const std::string& operator_name, const std::string& provider,
                            const std::string& server) {
    Rejection rejection;
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    EXPECT_TRUE(runtime.ok());
    if (!runtime.ok()) return rejection;
    const Report report = runtime->report();
    const BindingReport* binding = testing::binding_of(report, operator_name, provider);
    EXPECT_NE(binding, nullptr);
    if (binding == nullptr) return rejection;
    EXPECT_FALSE(binding->usable);
    if (binding->rejection) rejection = *binding->rejection;
    SiluCall call;
    EXPECT_TRUE(call.run(*runtime).ok());
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(call.provider.last_provider(), server);
    Options strict = world_.options();
    strict.strict = true;
    StatusOr<Runtime> strict_runtime = Runtime::open(strict);
    EXPECT_TRUE(strict_runtime.ok());
    if (!strict_runtime.ok()) return rejection;
    SiluCall refused;
    const Status status = refused.run(*strict_runtime);
    // What comes after the rejected binding of another provider is no fallback.
    if (binding == &report.find(operator_name)->bindings.front()) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(status.message(), HasSubstr(to_string(rejection)));
    }
    return rejection;
  }

  World world_;
  fs::path library_;
};

TEST_F(TorchFunctions, TheFunctionsServeTheCalls) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  for (const char* name : {"rms_norm", "silu_and_mul"}) {
    const BindingReport* binding = testing::binding_of(report, name, "acme");
    ASSERT_NE(binding, nullptr);
    ASSERT_TRUE(binding->usable) << to_string(*binding->rejection);
    EXPECT_TRUE(binding->callable);
    EXPECT_EQ(binding->contract, "direct_symbol");
    EXPECT_EQ(binding->library, library_.string());
  }
  SiluCall silu;
  ASSERT_TRUE(silu.run(*runtime).ok());
  EXPECT_TRUE(silu.is_right());
  EXPECT_EQ(silu.provider.last_provider(), "acme");

  auto norm = runtime->op<void(Tensor, Tensor, double, Tensor)>("rms_norm");
  ASSERT_TRUE(norm.ok()) << norm.status().message();
  std::array<float, 4> input{1.0f, -2.0f, 3.0f, 4.0f};
  std::array<float, 4> weight{1.0f, 0.5f, 2.0f, 1.0f};
  std::array<float, 4> out{};
  ASSERT_TRUE((*norm)(TensorView(input.data(), DType::kFloat32, {1, 4}),
                      TensorView(weight.data(), DType::kFloat32, {4}), 1e-6,
                      TensorView(out.data(), DType::kFloat32, {1, 4}))
                  .ok());
  EXPECT_EQ(norm->boxed().last_provider(), "acme");
  // 30 / 4 is the mean of the squares.
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(out[i], input[i] * weight[i] / std::sqrt(7.5 + 1e-6), 1e-6) << i;
}

TEST_F(TorchFunctions, ARemovedLibraryFallsBackAndStrictCallsSayWhy) {
  fs::remove(library_);
  const Rejection rejection = expect_rejected("silu_and_mul", "acme", "native");
  EXPECT_EQ(rejection.rule, "discovery.no_match");
  EXPECT_THAT(rejection.subject, HasSubstr("acme/functions*.so"));
}

TEST_F(TorchFunctions, AnOlderReleaseIsToldInWords) {
  fs::copy_file(OPMUX_OLDER_FUNCTIONS, library_, fs::copy_options::overwrite_existing);
  const Rejection silu = expect_rejected("silu_and_mul", "acme", "native");
  EXPECT_EQ(silu.rule, "contract.symbol_missing");
  EXPECT_EQ(silu.subject, library_.string() + ": silu_and_mul(at::Tensor&, at::Tensor&)");
  EXPECT_EQ(silu.found,
            "not among the 2 functions that the library exports; the nearest is "
            "silu_and_mul(at::Tensor&, at::Tensor&, int): it has 3 parameters in place of 2; "
            "parameter 3 `int` is added");
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  EXPECT_EQ(testing::binding_of(report, "rms_norm", "acme")->rejection->found,
            "not among the 2 functions that the library exports; the nearest is "
            "rms_norm(at::Tensor&, at::Tensor const&, at::Tensor&, float): parameter 2 is "
            "`at::Tensor const&` in place of `at::Tensor&`, const differs; parameter 4 is `float` "
            "in place of `double`, another precision");
}

TEST_F(TorchFunctions, TwoLibrariesInTheEnvironmentAreNamed) {
  const fs::path second = library_.parent_path() / "functions_old.so";
  fs::copy_file(OPMUX_FUNCTIONS, second);
  const std::string record = world_.site_packages() / "acme-1.0.dist-info/RECORD";
  std::ofstream(record, std::ios::app) << "acme/functions_old.so,,\n";
  const Rejection rejection = expect_rejected("silu_and_mul", "acme", "native");
  EXPECT_EQ(rejection.rule, "discovery.many_matches");
  EXPECT_THAT(rejection.found,
              AllOf(HasSubstr("acme/functions.so"), HasSubstr("functions_old.so")));
}

TEST_F(TorchFunctions, ASymbolThatTwoProvidersExportStaysWithTheHigherOne) {
  const fs::path second = world_.install("other", "other/kernels.so", OPMUX_FUNCTIONS);
  std::string manifest = kManifest;
  const auto replace = [&](const std::string& what, const std::string& with) {
    for (auto at = manifest.find(what); at != std::string::npos; at = manifest.find(what, at + 1))
      manifest.replace(at, what.size(), with);
  };
  replace("provider: acme", "provider: other");
  replace("priority: 90", "priority: 80");
  replace("distribution: acme, glob: \"acme/functions*.so\"",
          "distribution: other, glob: \"other/kernels.so\"");
  world_.write_manifest("other.yaml", manifest);
  const Rejection rejection = expect_rejected("silu_and_mul", "other", "acme");
  EXPECT_EQ(rejection.rule, "contract.symbol_twice");
  EXPECT_THAT(rejection.subject, HasSubstr(second.string()));
  EXPECT_EQ(rejection.expected, "exported once, by acme: functions (" + library_.string() + ")");
  EXPECT_EQ(rejection.found, "exported by other: functions (" + second.string() +
                                 "), which stands later in the load set, too");
}

TEST_F(TorchFunctions, TwoLibrariesOfOneFileNameAreNamed) {
  // Of other functions, so that the name is all that they share.
  const fs::path second = world_.install("other", "other/functions.so", OPMUX_OLDER_FUNCTIONS);
  world_.write_manifest("other.yaml", R"yaml(manifest: 1
provider: other
plugin: direct_symbol
priority: 80
requires: {torch: ">=2"}
libraries:
  functions: {distribution: other, glob: "other/functions.so"}
operators:
  silu_and_mul:
    library: functions
    required_symbols: "silu_and_mul(at::Tensor&, at::Tensor&, int)"
    returns: void
    call: [out, input, {value: 1}]
    when: {device: cpu}
)yaml");
  const Rejection rejection = expect_rejected("silu_and_mul", "other", "acme");
  EXPECT_EQ(rejection.rule, "contract.same_base_name");
  EXPECT_EQ(rejection.subject, second.string());
  EXPECT_EQ(rejection.expected,
            "one library called functions.so, acme: functions (" + library_.string() + ")");
  EXPECT_EQ(rejection.found, "a second one in " + second.parent_path().string());
}

TEST_F(TorchFunctions, AMappingThatTheModuleRefusesIsKnownBeforeAnythingIsLoaded) {
  std::string manifest = kManifest;
  manifest.replace(manifest.find("call: [out, input]"), 18, "call: [out]");
  world_.write_manifest("acme.yaml", manifest);
  Options options = world_.options();
  options.load = false;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  // The manifest itself says that `input` is dropped.
  const Report report = runtime->report();
  ASSERT_FALSE(report.rejections.empty());
  EXPECT_EQ(report.rejections.front().rule, "manifest.mapping");

  manifest = kManifest;
  manifest.replace(manifest.find("call: [out, input]"), 18, "call: [out, input, {value: 1}]");
  world_.write_manifest("acme.yaml", manifest);
  StatusOr<Runtime> second = Runtime::open(options);
  ASSERT_TRUE(second.ok());
  const Report bound = second->report();
  const BindingReport* binding = testing::binding_of(bound, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_FALSE(binding->usable);
  EXPECT_EQ(binding->rejection->rule, "loader.bind_refused");
  EXPECT_THAT(binding->rejection->found, AllOf(HasSubstr("3"), HasSubstr("2")));
  const BindingReport* good = testing::binding_of(bound, "rms_norm", "acme");
  ASSERT_NE(good, nullptr);
  EXPECT_TRUE(good->usable) << to_string(*good->rejection);
}

}  // namespace
}  // namespace opmux
