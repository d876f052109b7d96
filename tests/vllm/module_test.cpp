// SPDX-License-Identifier: Apache-2.0
//
// The handshake, and what the module says about registrations.
#include <dlfcn.h>

#include "tests/vllm/fake_provider.hpp"

namespace opmux::testing {
namespace {

using ::testing::Test;

OpmuxPluginOpen entry() {
  vllm_module();
  return symbol<OpmuxPluginOpen>(load(OPMUX_VLLM_MODULE), OPMUX_PLUGIN_ENTRY);
}

TEST(Module, TellsItsNameAndTheTorchItWasBuiltAgainst) {
  const OpmuxModule& module = vllm_module();
  EXPECT_EQ(module.struct_size, sizeof(OpmuxModule));
  EXPECT_EQ(module.abi_major, OPMUX_PLUGIN_ABI_MAJOR);
  EXPECT_STREQ(module.name, "vllm");
  EXPECT_STREQ(module.build_identity, "torch " OPMUX_TORCH_RELEASE);
  EXPECT_EQ(module.operator_count, 0U);
  EXPECT_EQ(module.operators, nullptr);
}

TEST(Module, RefusesAHostOfAnotherMajor) {
  static OpmuxHost host = test_host();
  const OpmuxPluginOpen open = entry();
  host.abi_major = 3;
  const OpmuxModule* module = nullptr;
  EXPECT_EQ(open(&host, &module), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(), "expected plugin ABI 2, found 3");
  EXPECT_EQ(module, nullptr);
  EXPECT_EQ(open(&test_host(), &module), OPMUX_OK);
}

TEST(Module, RefusesAHostWhoseStructIsTooSmall) {
  OpmuxHost host = test_host();
  host.struct_size = sizeof(OpmuxHost) - 8;
  const OpmuxModule* module = nullptr;
  EXPECT_EQ(entry()(&host, &module), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(module, nullptr);
}

TEST(Module, MapsNoCudaLibraryOfItsOwn) {
  vllm_module();
  EXPECT_EQ(::dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD), nullptr);
  EXPECT_EQ(::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD), nullptr);
}

TEST(Registrations, NameTheLibraryTheSchemaAndAllKeysWithAKernel) {
  fake_provider();
  const auto found = registrations_of(OPMUX_FAKE_PROVIDER);
  EXPECT_EQ(found.size(), 28U);
  using Keys = std::vector<std::string>;
  // Torch prints a mark without a label in this form.
  EXPECT_EQ(found.at("opmux_fake::scale(Tensor input, float factor, Tensor($0! -> ) out) -> ()"),
            Keys{"CPU"});
  EXPECT_EQ(found.at("opmux_fake::write_and_return(Tensor(a!) out, Tensor input) -> Tensor(a!)"),
            Keys{"CPU"});
  EXPECT_EQ(found.at("opmux_fake::composite(Tensor input) -> Tensor"),
            Keys{"CompositeImplicitAutograd"});
  EXPECT_EQ(found.at("opmux_fake::no_kernel(Tensor input) -> ()"), Keys{});
  EXPECT_EQ(found.count("opmux_fake::overloaded.int(Tensor input, int value) -> ()"), 1U);
}

TEST(Registrations, LeaveOutWhatTorchItselfDefines) {
  EXPECT_TRUE(registrations_of(OPMUX_TORCH_FOLDER "/lib/libtorch_cpu.so").empty());
}

TEST(Registrations, TellALibraryThatAnotherOneNeeds) {
  // The outer library registers nothing itself and brings the inner one in as its dependency.
  vllm_module();
  load(OPMUX_OUTER_PROVIDER);
  EXPECT_TRUE(registrations_of(OPMUX_OUTER_PROVIDER).empty());
  EXPECT_EQ(registrations_of(OPMUX_INNER_PROVIDER).size(), 1U);
}

}  // namespace
}  // namespace opmux::testing
