// SPDX-License-Identifier: Apache-2.0
#include "tests/vllm/dispatcher_world.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace opmux::testing {
namespace {

thread_local std::string t_error;

[[noreturn]] void give_up(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
}

}  // namespace

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

const OpmuxModule& vllm_module() {
  static const OpmuxModule* const module = [] {
    load(OPMUX_TORCH_FOLDER "/lib/libc10.so");
    load(OPMUX_TORCH_FOLDER "/lib/libtorch_cpu.so");
    const auto open = symbol<OpmuxPluginOpen>(load(OPMUX_VLLM_MODULE), OPMUX_PLUGIN_ENTRY);
    const OpmuxModule* opened = nullptr;
    if (open(&test_host(), &opened) != OPMUX_OK) {
      give_up("opmux_plugin_open: " + take_error());
    }
    if (opened->start_listening() != OPMUX_OK) {
      give_up("start_listening: " + take_error());
    }
    return opened;
  }();
  return *module;
}

void load_libtorch() { load(OPMUX_TORCH_FOLDER "/lib/libtorch.so"); }

std::string take_error() { return std::exchange(t_error, {}); }

std::map<std::string, std::vector<std::string>> registrations_of(const std::string& real_path) {
  struct Collection {
    std::string path;
    std::map<std::string, std::vector<std::string>> found;
  } collection{real_path, {}};
  const OpmuxStatus status = vllm_module().list_registrations(
      [](void* context, const OpmuxRegistration* registration) {
        auto& target = *static_cast<Collection*>(context);
        if (target.path == registration->library) {
          target.found[registration->schema] = {
              registration->dispatch_keys,
              registration->dispatch_keys + registration->dispatch_key_count};
        }
      },
      &collection);
  EXPECT_EQ(status, OPMUX_OK) << take_error();
  return collection.found;
}

Bound::Bound(const std::string& operator_schema, const std::string& provider_schema,
             const std::vector<OpmuxCallSource>& sources, const BindOptions& options) {
  std::vector<OpmuxResultTarget> targets;
  for (const std::int32_t argument : options.results) {
    targets.push_back({argument});
  }
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DISPATCHER;
  request.device_type = options.device_type;
  request.source_count = static_cast<std::uint32_t>(sources.size());
  request.result_count = static_cast<std::uint32_t>(targets.size());
  request.operator_name = "test";
  request.operator_schema = operator_schema.c_str();
  request.provider_schema = provider_schema.c_str();
  request.dispatch_key = options.dispatch_key.c_str();
  request.sources = sources.data();
  request.results = targets.data();
  bound_.struct_size = sizeof(bound_);
  status_ = vllm_module().bind(&request, &bound_);
  reason_ = take_error();
}

OpmuxStatus Bound::call(std::initializer_list<OpmuxValue> values, std::uint32_t flags,
                        OpmuxDevice device, std::uint32_t stream_kind, void* stream) const {
  if (status_ != OPMUX_OK) {
    ADD_FAILURE() << "not bound: " << reason_;
    return status_;
  }
  OpmuxCall call{};
  call.struct_size = sizeof(call);
  call.flags = flags;
  call.device = device;
  call.stream_kind = stream_kind;
  call.stream = stream;
  call.value_count = static_cast<std::uint32_t>(values.size());
  call.values = values.begin();
  call.host = &test_host();
  return bound_.call(bound_.binding, &call);
}

}  // namespace opmux::testing
