// SPDX-License-Identifier: Apache-2.0
//
// What one release of vLLM's CUDA wheel registers, listed on a machine with or without a GPU and
// compared with tests/vllm/registered/RELEASE.txt. TEST_OPMUX_WRITE_REGISTERED=1 writes that file.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "tests/support/providers.hpp"
#include "tests/vllm/dispatcher_world.hpp"

namespace opmux::testing {
namespace {

std::vector<std::string> libraries() {
  const std::string release = OPMUX_PROVIDER_RELEASE;
  if (release == "vllm-0.20.2") {
    return {"vllm/_C.abi3.so", "vllm/_C_stable_libtorch.abi3.so", "vllm/_moe_C.abi3.so",
            "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"};
  }
  return {"vllm/_C_stable_libtorch.abi3.so", "vllm/_moe_C_stable_libtorch.abi3.so",
          "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"};
}

bool load_driver_or_stub() {
  return ::dlopen("libcuda.so.1", RTLD_NOW) != nullptr ||
         ::dlopen(OPMUX_CUDA_STUB, RTLD_NOW) != nullptr;
}

std::string registered() {
  std::string text;
  for (const std::string& library : libraries()) {
    const std::string path =
        std::filesystem::canonical(provider_folder(OPMUX_PROVIDER_RELEASE) / library).string();
    load(path, /*lazy=*/true);
    text += "## " + library + "\n";
    for (const auto& [schema, keys] : registrations_of(path)) {
      text += schema + "  [";
      for (std::size_t at = 0; at < keys.size(); ++at) {
        text += (at == 0 ? "" : ", ") + keys[at];
      }
      text += "]\n";
    }
  }
  return text;
}

TEST(RealCuda, RegistersWhatWasRecorded) {
  OPMUX_REQUIRE_PROVIDERS();
  ASSERT_TRUE(load_driver_or_stub());
  vllm_module();
  load_libtorch();
  const std::string found = registered();
  const std::string recorded_path =
      OPMUX_SOURCE_DIR "/tests/vllm/registered/" OPMUX_PROVIDER_RELEASE ".txt";
  if (const char* write = ::getenv("TEST_OPMUX_WRITE_REGISTERED");
      write != nullptr && std::string(write) == "1") {
    std::ofstream(recorded_path) << found;
  }
  std::ostringstream recorded;
  recorded << std::ifstream(recorded_path).rdbuf();
  EXPECT_EQ(found, recorded.str());
}

}  // namespace
}  // namespace opmux::testing
