// SPDX-License-Identifier: Apache-2.0
//
// The module's entry point. The module is built against one release of torch and refuses every
// other: the Dispatcher's classes and the device guards' virtual tables change between releases.
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <exception>
#include <string>

#include "opmux/plugin.h"
#include "plugins/vllm/binding.hpp"
#include "plugins/vllm/device.hpp"
#include "plugins/vllm/host.hpp"
#include "plugins/vllm/registrations.hpp"

namespace opmux::vllm {
namespace {

const OpmuxHost* g_host = nullptr;

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

const OpmuxModule kModule = {
    sizeof(OpmuxModule),
    OPMUX_PLUGIN_ABI_MAJOR,
    OPMUX_PLUGIN_ABI_MINOR,
    0,
    "vllm",
    OPMUX_VERSION,
    "torch " TORCH_VERSION,
    nullptr,
    start_listening,
    list_registrations,
    bind,
    &kDeviceServices,
};

}  // namespace

void set_host(const OpmuxHost* host) noexcept { g_host = host; }

OpmuxStatus refuse(OpmuxStatus status, const std::string& text) noexcept {
  g_host->set_error(text.c_str());
  return status;
}

std::string current_exception_text() noexcept {
  constexpr std::size_t kMaximum = 2000;
  try {
    std::string text;
    try {
      throw;
    } catch (const c10::Error& error) {
      text = error.what_without_backtrace();
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
      text = "an exception that is no std::exception";
    }
    // Some errors carry a C++ stack in their text nevertheless.
    text.resize(std::min(text.size(), text.find("\nException raised from")));
    text.resize(std::min(text.size(), kMaximum));
    return text;
  } catch (...) {
    return {};  // out of memory; the status still tells
  }
}

}  // namespace opmux::vllm

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* host,
                                                             const OpmuxModule** module) {
  if (host == nullptr || module == nullptr || host->struct_size < sizeof(OpmuxHost)) {
    return OPMUX_INCOMPATIBLE;
  }
  opmux::vllm::set_host(host);
  try {
    if (host->abi_major != OPMUX_PLUGIN_ABI_MAJOR) {
      return opmux::vllm::refuse(OPMUX_INCOMPATIBLE,
                                 "expected plugin ABI " + std::to_string(OPMUX_PLUGIN_ABI_MAJOR) +
                                     ", found " + std::to_string(host->abi_major));
    }
    if (const std::string fault = opmux::vllm::torch_fault(); !fault.empty()) {
      return opmux::vllm::refuse(OPMUX_INCOMPATIBLE, fault);
    }
  } catch (...) {
    return opmux::vllm::refuse(OPMUX_INCOMPATIBLE, opmux::vllm::current_exception_text());
  }
  *module = &opmux::vllm::kModule;
  return OPMUX_OK;
}
