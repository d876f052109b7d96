// SPDX-License-Identifier: Apache-2.0
#include "tests/support/plugin_module.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace opmux::testing {
namespace {

thread_local std::string t_error;

}  // namespace

void give_up(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
}

void* load(const std::string& path, bool lazy) {
  void* library = ::dlopen(path.c_str(), (lazy ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
  if (library == nullptr) {
    give_up(path + ": " + ::dlerror());
  }
  return library;
}

void* find_symbol(void* library, const char* name) {
  void* address = ::dlsym(library, name);
  if (address == nullptr) {
    give_up(std::string(name) + ": no such symbol");
  }
  return address;
}

const OpmuxHost& test_host() {
  static const OpmuxHost host = [] {
    OpmuxHost made{};
    made.struct_size = sizeof(made);
    made.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
    made.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
    made.log = [](std::int32_t, const char*, const char*) {};
    made.set_error = [](const char* text) { t_error = text; };
    return made;
  }();
  return host;
}

std::string take_error() { return std::exchange(t_error, {}); }

void load_torch(const std::string& folder) {
  load(folder + "/lib/libc10.so");
  load(folder + "/lib/libtorch_cpu.so");
}

const OpmuxModule& open_module(const char* path) {
  const auto open = symbol<OpmuxPluginOpen>(load(path), OPMUX_PLUGIN_ENTRY);
  const OpmuxModule* opened = nullptr;
  if (open(&test_host(), &opened) != OPMUX_OK) {
    give_up("opmux_plugin_open: " + take_error());
  }
  return *opened;
}

OpmuxStatus call_bound(const OpmuxBound& bound, std::initializer_list<OpmuxValue> values,
                       std::uint32_t flags, OpmuxDevice device, std::uint32_t stream_kind,
                       void* stream) {
  OpmuxCall call{};
  call.struct_size = sizeof(call);
  call.flags = flags;
  call.device = device;
  call.stream_kind = stream_kind;
  call.stream = stream;
  call.value_count = static_cast<std::uint32_t>(values.size());
  call.values = values.begin();
  call.host = &test_host();
  return bound.call(bound.binding, &call);
}

}  // namespace opmux::testing
