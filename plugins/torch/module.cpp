// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/module.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "plugins/torch/host.hpp"

namespace opmux::torch_shared {
namespace {

std::string release_text(std::uint64_t abi) {
  return std::to_string(abi >> 56) + "." + std::to_string(abi >> 48 & 0xff) + "." +
         std::to_string(abi >> 40 & 0xff);
}

// Why the torch in this process is not the one that this module was built against.
std::string torch_fault() {
  const std::string expected = release_text(TORCH_ABI_VERSION);
  void* library = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  auto* abi_version =
      library == nullptr
          ? nullptr
          : reinterpret_cast<std::uint64_t (*)()>(::dlsym(library, "aoti_torch_abi_version"));
  if (abi_version == nullptr) {
    return "expected torch " + expected + ", found a torch that does not tell its release";
  }
  const std::string found = release_text(abi_version());
  return found == expected ? std::string()
                           : "expected torch " + expected + ", found torch " + found;
}

}  // namespace

OpmuxStatus open_module(const OpmuxHost* host, const OpmuxModule& own,
                        const OpmuxModule** module) noexcept {
  if (host == nullptr || module == nullptr || host->struct_size < sizeof(OpmuxHost)) {
    return OPMUX_INCOMPATIBLE;
  }
  set_host(host);
  try {
    if (host->abi_major != OPMUX_PLUGIN_ABI_MAJOR) {
      return refuse(OPMUX_INCOMPATIBLE, "expected plugin ABI " +
                                            std::to_string(OPMUX_PLUGIN_ABI_MAJOR) + ", found " +
                                            std::to_string(host->abi_major));
    }
    if (const std::string fault = torch_fault(); !fault.empty()) {
      return refuse(OPMUX_INCOMPATIBLE, fault);
    }
  } catch (...) {
    return refuse(OPMUX_INCOMPATIBLE, current_exception_text());
  }
  *module = &own;
  return OPMUX_OK;
}

}  // namespace opmux::torch_shared
