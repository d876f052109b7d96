// SPDX-License-Identifier: Apache-2.0
#include "plugins/vllm/registrations.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plugins/torch/host.hpp"

namespace opmux::vllm {
namespace {

using torch_shared::current_exception_text;
using torch_shared::refuse;

// The real path, so that it compares equal to what discovery found.
std::string real_path(const char* path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  return error ? std::string(path) : resolved.string();
}

bool is_torch(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  return name.rfind("libtorch", 0) == 0 || name.rfind("libc10", 0) == 0;
}

const void* base_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// The library nearest to the registration that is neither torch nor this module. A library that is
// mapped because another one needs it registers under its own name.
std::string registering_library() {
  std::array<void*, 64> frames{};
  const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  const void* own_base = base_of(reinterpret_cast<const void*>(&list_registrations));
  for (int frame = 0; frame < depth; ++frame) {
    Dl_info info{};
    if (::dladdr(frames[static_cast<std::size_t>(frame)], &info) == 0 ||
        info.dli_fname == nullptr || info.dli_fbase == own_base || is_torch(info.dli_fname)) {
      continue;
    }
    return real_path(info.dli_fname);
  }
  return {};
}

struct NameHash {
  std::size_t operator()(const c10::OperatorName& name) const {
    return std::hash<std::string>()(name.name) ^ std::hash<std::string>()(name.overload_name);
  }
};

using Names = std::unordered_set<c10::OperatorName, NameHash>;

// Kernels by key. Asking the Dispatcher per key is a few milliseconds for all of torch; per
// operator and key it would be half a million look-ups.
std::map<c10::DispatchKey, Names> kernels_by_key() {
  std::map<c10::DispatchKey, Names> kernels;
  for (int number = 1; number <= static_cast<int>(c10::DispatchKey::EndOfAliasKeys); ++number) {
    const auto key = static_cast<c10::DispatchKey>(number);
    auto names = c10::Dispatcher::singleton().getRegistrationsForDispatchKey(key);
    if (!names.empty()) {
      kernels[key] =
          Names(std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
    }
  }
  return kernels;
}

std::set<std::string> mapped_libraries() {
  std::set<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* context) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/') {
          static_cast<std::set<std::string>*>(context)->insert(info->dlpi_name);
        }
        return 0;
      },
      &paths);
  return paths;
}

struct Definition {
  c10::OperatorName name;
  std::string library;
};

struct State {
  std::mutex mutex;
  // False while the Dispatcher tells a new listener about everything that is already there.
  bool armed = false;
  std::vector<Definition> definitions;
  std::map<c10::DispatchKey, Names> kernels_before;
  std::set<std::string> libraries_before;
};

// Never destroyed: the Dispatcher tells its listeners about deregistrations until the process ends.
State& state() {
  static State& instance = *std::make_unique<State>().release();
  return instance;
}

class Listener final : public c10::OpRegistrationListener {
 public:
  // Called under the Dispatcher's lock: only takes notes.
  void onOperatorRegistered(const c10::OperatorHandle& handle) override {
    State& notes = state();
    const std::scoped_lock lock(notes.mutex);
    if (notes.armed) {
      notes.definitions.push_back({handle.operator_name(), registering_library()});
    }
  }

  void onOperatorDeregistered(const c10::OperatorHandle& handle) override {
    State& notes = state();
    const std::scoped_lock lock(notes.mutex);
    std::erase_if(notes.definitions, [&](const Definition& definition) {
      return definition.name == handle.operator_name();
    });
  }
};

void report(OpmuxRegistrationVisitor visitor, void* context, const std::string& library,
            const c10::OperatorHandle& handle, const std::vector<const char*>& keys) {
  const std::string schema = c10::toString(handle.schema());
  OpmuxRegistration registration{};
  registration.struct_size = sizeof(registration);
  registration.dispatch_key_count = static_cast<std::uint32_t>(keys.size());
  registration.library = library.c_str();
  registration.schema = schema.c_str();
  registration.dispatch_keys = keys.data();
  visitor(context, &registration);
}

// The library that must have brought kernels without a definition, when there is only one.
std::string only_new_library(const std::set<std::string>& before) {
  std::string found;
  for (const std::string& path : mapped_libraries()) {
    if (before.count(path) != 0 || is_torch(path)) {
      continue;
    }
    if (!found.empty()) {
      return {};
    }
    found = path;
  }
  return found.empty() ? found : real_path(found.c_str());
}

void list_checked(OpmuxRegistrationVisitor visitor, void* context) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<Definition> definitions;
  {
    const std::scoped_lock lock(state().mutex);
    if (!state().armed) {
      throw std::logic_error("list_registrations before start_listening");
    }
    definitions = state().definitions;
  }
  Names defined;
  for (const Definition& definition : definitions) {
    defined.insert(definition.name);
    const auto handle = dispatcher.findSchema(definition.name);
    if (!handle) {
      continue;
    }
    std::vector<const char*> keys;
    for (int number = 1; number <= static_cast<int>(c10::DispatchKey::EndOfAliasKeys); ++number) {
      const auto key = static_cast<c10::DispatchKey>(number);
      if (handle->hasKernelForDispatchKey(key)) {
        keys.push_back(c10::toString(key));
      }
    }
    report(visitor, context, definition.library, *handle, keys);
  }
  std::unordered_map<c10::OperatorName, std::vector<const char*>, NameHash> gained;
  for (const auto& [key, names] : kernels_by_key()) {
    const auto before = state().kernels_before.find(key);
    for (const c10::OperatorName& name : names) {
      if (defined.count(name) == 0 &&
          (before == state().kernels_before.end() || before->second.count(name) == 0)) {
        gained[name].push_back(c10::toString(key));
      }
    }
  }
  if (gained.empty()) {
    return;
  }
  const std::string library = only_new_library(state().libraries_before);
  for (const auto& [name, keys] : gained) {
    // Without a schema it is a kernel for an operator that nobody defined: it cannot be called.
    if (const auto handle = dispatcher.findSchema(name)) {
      report(visitor, context, library, *handle, keys);
    }
  }
}

}  // namespace

OpmuxStatus start_listening() noexcept {
  try {
    static std::once_flag once;
    std::call_once(once, [] {
      State& notes = state();
      notes.kernels_before = kernels_by_key();
      notes.libraries_before = mapped_libraries();
      // The first backtrace() maps libgcc_s, which must not happen inside another dlopen.
      static_cast<void>(registering_library());
      // Kept for ever: the listener stays while libraries may be mapped.
      static_cast<void>(
          std::make_unique<c10::RegistrationHandleRAII>(
              c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()))
              .release());
      const std::scoped_lock lock(notes.mutex);
      notes.armed = true;
    });
    return OPMUX_OK;
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, current_exception_text());
  }
}

OpmuxStatus list_registrations(OpmuxRegistrationVisitor visitor, void* context) noexcept {
  try {
    list_checked(visitor, context);
    return OPMUX_OK;
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, current_exception_text());
  }
}

}  // namespace opmux::vllm
