// SPDX-License-Identifier: Apache-2.0
//
// Native kernels are always there: without providers, without manifests, with only broken ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

class NativeTest : public ::testing::Test {
 protected:
  void SetUp() override { variables_.unset("TEST_OPMUX_TORCH"); }

  testing::EnvironmentGuard variables_;
  World world_;
};

TEST_F(NativeTest, ServesWithNothingInstalled) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  SiluCall call;
  ASSERT_TRUE(call.run(*runtime).ok());
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(call.provider.last_provider(), "native");
  EXPECT_EQ(runtime->report().probes, 0);
}

TEST_F(NativeTest, ServesWhenEveryManifestIsBroken) {
  // The same names as the shipped files: they mask them.
  for (const char* name :
       {"providers/native.yaml", "providers/vllm.yaml", "operators/activation.yaml"}) {
    world_.write_manifest(name, "manifest: 1\nprovider: [unclosed\n");
  }
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  EXPECT_GE(runtime->report().rejections.size(), 3u);
  SiluCall call;
  const Status status = call.run(*runtime);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(call.is_right());
}

TEST_F(NativeTest, StrictModeLetsNoCallPassARefusedManifestBy) {
  world_.write_manifest("acme.yaml", "manifest: 1\nprovidr: acme\n");
  Options options = world_.options();
  options.strict = true;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  SiluCall call;
  const Status status = call.run(*runtime);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "yaml.unknown_key");
  EXPECT_EQ(call.out[0], -77.0f);
}

TEST_F(NativeTest, RelativeManifestFoldersCountFromTheCurrentOne) {
  world_.write_manifest("acme/acme.yaml", R"yaml(manifest: 1
provider: acme
plugin: acme
priority: 90
operators:
  silu_and_mul:
    - module: silu_and_mul
      when: {device: cpu}
)yaml");
  fs::copy_file(fakes::path("module_none"), world_.manifests() / "acme/opmux_acme.so");
  const fs::path before = fs::current_path();
  fs::current_path(world_.folder().path());
  Options options = world_.options();
  options.manifests = {"manifests"};
  StatusOr<Runtime> runtime = Runtime::open(options);
  fs::current_path(before);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  // Found and opened: its table is empty.
  EXPECT_EQ(binding->rejection->rule, "contract.module_operator_missing")
      << to_string(*binding->rejection);
}

// Field report F05.
TEST_F(NativeTest, ADropInModuleThatMisbehavesIsRejectedAndNativeServes) {
  struct Case {
    const char* fake;
    const char* rule;
  };
  for (const Case& fault :
       {Case{"module_no_entry", "loader.no_entry"}, Case{"module_wrong_major", "loader.abi"},
        Case{"module_refuses", "loader.module_refused"},
        Case{"module_throws", "loader.module_refused"}, Case{"abort", "probe.signal"},
        Case{"quick_exit_0", "probe.exit"}, Case{"throw", "probe.exception"},
        Case{"module_none", "contract.module_operator_missing"}}) {
    World world;
    world.write_manifest("acme/acme.yaml", R"yaml(manifest: 1
provider: acme
plugin: acme
priority: 90
operators:
  silu_and_mul:
    - module: silu_and_mul
      when: {device: cpu}
)yaml");
    fs::copy_file(fakes::path(fault.fake), world.manifests() / "acme/opmux_acme.so");
    StatusOr<Runtime> runtime = Runtime::open(world.options());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    const Report report = runtime->report();
    const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
    ASSERT_NE(binding, nullptr) << fault.fake;
    ASSERT_TRUE(binding->rejection.has_value()) << fault.fake;
    EXPECT_EQ(binding->rejection->rule, fault.rule)
        << fault.fake << ": " << to_string(*binding->rejection);
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(call.provider.last_provider(), "native");
  }
}

TEST_F(NativeTest, UnknownOperatorsNameTheNearest) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const auto missing = runtime->op<void(Tensor, Tensor)>("silu_and_mull");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("silu_and_mul"));
}

TEST_F(NativeTest, OperatorsWithoutANativeKernelSayTheRule) {
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  const auto fp8 = runtime->op<void(Tensor, Tensor, Tensor)>("dynamic_scaled_fp8_quant");
  ASSERT_TRUE(fp8.ok()) << fp8.status().message();
  float x = 0;
  const TensorView view(&x, DType::kFloat32, {1, 1});
  const Status status = (*fp8)(view, view, view);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.rejection()->rule, "registry.no_native");
}

TEST_F(NativeTest, NamedInputsThatAreNotThereAreErrors) {
  Options environment = world_.options();
  environment.environments = {world_.folder() / "nowhere"};
  EXPECT_EQ(Runtime::open(environment).status().rejection()->rule, "discovery.bad_environment");
  Options manifests = world_.options();
  manifests.manifests = {world_.folder() / "nowhere"};
  EXPECT_EQ(Runtime::open(manifests).status().rejection()->rule, "manifest.missing");
  Options config = world_.options();
  config.config_file = world_.folder() / "nowhere.yaml";
  EXPECT_EQ(Runtime::open(config).status().rejection()->rule, "config.missing");
}

// Field report F07.
TEST_F(NativeTest, UnknownNamesInRoutesAreErrorsWithTheNearest) {
  Options provider = world_.options();
  provider.routes = {{"*", {"nativ"}}};
  const Status unknown_provider = Runtime::open(provider).status();
  ASSERT_NE(unknown_provider.rejection(), nullptr);
  EXPECT_EQ(unknown_provider.rejection()->rule, "config.unknown_provider");
  EXPECT_THAT(unknown_provider.rejection()->hint, HasSubstr("`native`"));
  Options pattern = world_.options();
  pattern.routes = {{"silu_and_mull", {"native"}}};
  const Status unknown_operator = Runtime::open(pattern).status();
  EXPECT_EQ(unknown_operator.rejection()->rule, "config.unknown_operator");
  EXPECT_THAT(unknown_operator.rejection()->hint, HasSubstr("`silu_and_mul`"));
}

TEST_F(NativeTest, ManifestFilesAreLookedAtWithoutTheConfiguredRoutes) {
  world_.folder().write("config/opmux/opmux.yaml", "config: 1\nroutes:\n  \"*\": [vllm, native]\n");
  world_.write_manifest("acme.yaml", R"yaml(manifest: 1
provider: acme
plugin: acme
operators:
  silu_and_mul:
    - module: silu_and_mul
      when: {device: cpu}
)yaml");
  Options options;
  options.manifest_files = {world_.manifests() / "acme.yaml"};
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  EXPECT_TRUE(binding->routed);
  ASSERT_TRUE(binding->rejection.has_value());
  EXPECT_EQ(binding->rejection->rule, "discovery.module_missing");
}

TEST_F(NativeTest, AManifestOfNativeForAnotherDeviceLeavesTheCpuKernel) {
  world_.write_manifest("providers/native.yaml", R"yaml(manifest: 1
provider: native
plugin: native
operators:
  silu_and_mul:
    - module: silu_and_mul
      when: {device: cuda}
)yaml");
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  SiluCall call;
  const Status status = call.run(*runtime);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(call.is_right());
}

TEST_F(NativeTest, HandlesOutliveTheirRuntime) {
  std::optional<Operator<void(Tensor, Tensor)>> kept;
  {
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    ASSERT_TRUE(runtime.ok());
    kept.emplace(*runtime->op<void(Tensor, Tensor)>("silu_and_mul"));
  }
  std::array<float, 4> input{1, 2, 3, 4};
  std::array<float, 2> out{};
  EXPECT_TRUE((*kept)(TensorView(input.data(), DType::kFloat32, {1, 4}),
                      TensorView(out.data(), DType::kFloat32, {1, 2}))
                  .ok());
  EXPECT_NEAR(out[0], 1.0 / (1.0 + std::exp(-1.0)) * 3.0, 1e-6);
}

}  // namespace
}  // namespace opmux
