// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/loader.hpp"
#include "core/loader/private_copy.hpp"
#include "core/loader/process_state.hpp"

namespace opmux {

namespace {

// The table as this host reads it: version 1.0 of the ABI had every field up to `operators`.
constexpr std::size_t kSmallestModule = offsetof(OpmuxModule, start_listening);
constexpr std::size_t kSmallestEntry = offsetof(OpmuxOperatorEntry, context) + sizeof(void*);
// A count beyond this is a table that was not filled in.
constexpr std::uint32_t kMostOperators = 65536;

// What a module offered, in this host's layout. Lives for the process.
struct ModuleTable {
  OpmuxModule module{};
  OpmuxDeviceServices device_services{};
  std::vector<OpmuxOperatorEntry> operators;
  std::deque<std::string> texts;  // a module that is unmapped takes its own with it

  void keep(const char*& text) {
    if (text != nullptr) text = texts.emplace_back(text).c_str();
  }
};

// Copies the fields that both sides know; the rest stays zero.
template <class Struct>
Struct read_known_fields(const void* foreign, std::uint32_t struct_size) {
  Struct known{};
  std::memcpy(&known, foreign, std::min<std::size_t>(struct_size, sizeof(Struct)));
  return known;
}

std::uint32_t read_struct_size(const void* foreign) {
  std::uint32_t size = 0;
  std::memcpy(&size, foreign, sizeof(size));
  return size;
}

std::string abi_version(std::uint32_t major, std::uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Rejection abi_rejection(const std::string& subject, std::string expected, std::string found) {
  return reject(rules::kLoaderAbi, subject, std::move(expected), std::move(found));
}

Result<std::unique_ptr<ModuleTable>> read_table(const OpmuxModule* foreign,
                                                const std::string& subject) {
  if (foreign == nullptr) {
    return abi_rejection(subject, "a module table", "OPMUX_OK without a module table");
  }
  const std::uint32_t struct_size = read_struct_size(foreign);
  if (struct_size < kSmallestModule) {
    return abi_rejection(subject,
                         "OpmuxModule.struct_size of at least " + std::to_string(kSmallestModule),
                         std::to_string(struct_size));
  }
  auto table = std::make_unique<ModuleTable>();
  table->module = read_known_fields<OpmuxModule>(foreign, struct_size);
  OpmuxModule& module = table->module;
  if (module.abi_major != OPMUX_PLUGIN_ABI_MAJOR) {
    return abi_rejection(subject,
                         "plugin ABI " + abi_version(OPMUX_PLUGIN_ABI_MAJOR, 0) + " to " +
                             abi_version(OPMUX_PLUGIN_ABI_MAJOR, OPMUX_PLUGIN_ABI_MINOR),
                         "plugin ABI " + abi_version(module.abi_major, module.abi_minor));
  }
  if (module.name == nullptr || *module.name == '\0') {
    return abi_rejection(subject, "a module name", "none");
  }
  if (module.version == nullptr) module.version = "";
  if (module.build_identity == nullptr) module.build_identity = "";
  table->keep(module.name);
  table->keep(module.version);
  table->keep(module.build_identity);
  module.struct_size = sizeof(OpmuxModule);

  if (module.operator_count > kMostOperators ||
      (module.operator_count > 0 && module.operators == nullptr)) {
    return abi_rejection(subject, "a table of the module's operators",
                         "operator_count " + std::to_string(module.operator_count) +
                             (module.operators == nullptr ? " without a table" : ""));
  }
  const auto* entry = reinterpret_cast<const std::byte*>(module.operators);
  for (std::uint32_t i = 0; i < module.operator_count; ++i) {
    // The distance between entries is the size that the module was built with.
    const std::uint32_t entry_size = read_struct_size(entry);
    const std::string name = "operators[" + std::to_string(i) + "]";
    if (entry_size < kSmallestEntry || entry_size % alignof(OpmuxOperatorEntry) != 0) {
      return abi_rejection(subject,
                           name + ".struct_size of at least " + std::to_string(kSmallestEntry),
                           std::to_string(entry_size));
    }
    OpmuxOperatorEntry known = read_known_fields<OpmuxOperatorEntry>(entry, entry_size);
    if (known.name == nullptr || known.schema == nullptr || known.call == nullptr) {
      return abi_rejection(subject, name + " with name, schema and call",
                           "an entry without one of them");
    }
    known.struct_size = sizeof(OpmuxOperatorEntry);
    table->keep(known.name);
    table->keep(known.schema);
    table->operators.push_back(known);
    entry += entry_size;
  }
  module.operators = table->operators.empty() ? nullptr : table->operators.data();
  if (module.device_services != nullptr) {
    table->device_services = read_known_fields<OpmuxDeviceServices>(
        module.device_services, read_struct_size(module.device_services));
    table->device_services.struct_size = sizeof(OpmuxDeviceServices);
    module.device_services = &table->device_services;
  }
  return table;
}

// A late reader may still look at the table of a module that is unmapped.
const OpmuxModule* keep_for_ever(std::unique_ptr<ModuleTable> table) {
  struct Tables {
    std::mutex mutex;
    std::vector<std::unique_ptr<ModuleTable>> kept;
  };
  static Tables* const tables = std::make_unique<Tables>().release();
  const std::lock_guard lock(tables->mutex);
  tables->kept.push_back(std::move(table));
  return &tables->kept.back()->module;
}

const char* status_name(OpmuxStatus status) {
  switch (status) {
    case OPMUX_UNSUPPORTED:
      return "OPMUX_UNSUPPORTED";
    case OPMUX_INVALID_ARGUMENT:
      return "OPMUX_INVALID_ARGUMENT";
    case OPMUX_ERROR_BEFORE_LAUNCH:
      return "OPMUX_ERROR_BEFORE_LAUNCH";
    case OPMUX_ERROR_AFTER_LAUNCH:
      return "OPMUX_ERROR_AFTER_LAUNCH";
    case OPMUX_INCOMPATIBLE:
      return "OPMUX_INCOMPATIBLE";
    default:
      return "an unknown status";
  }
}

Result<PluginModule> shake_hands(OpmuxPluginOpen entry, const std::filesystem::path& path,
                                 const std::string& subject) {
  constexpr const char* kAccepted = "opmux_plugin_open returns OPMUX_OK";
  const OpmuxModule* foreign = nullptr;
  OpmuxStatus status = OPMUX_OK;
  take_module_error();  // of an earlier call on this thread
  try {
    const ProcessStateGuard state(subject);
    status = entry(host_services(), &foreign);
  } catch (const std::exception& error) {
    return reject(rules::kLoaderModuleRefused, subject, kAccepted,
                  "it threw: " + printable(error.what()));
  } catch (...) {
    return reject(rules::kLoaderModuleRefused, subject, kAccepted,
                  "it threw something that is no std::exception");
  }
  const std::string message = take_module_error();
  if (status != OPMUX_OK) {
    return reject(rules::kLoaderModuleRefused, subject, kAccepted,
                  std::string(status_name(status)) + " (" + std::to_string(status) + ")" +
                      (message.empty() ? ", without a message" : ": " + printable(message)));
  }
  Result<std::unique_ptr<ModuleTable>> table = read_table(foreign, subject);
  if (!table.ok()) return std::move(table).rejection();
  return PluginModule{path, keep_for_ever(std::move(table).value()), path, false};
}

// What speaks against unmapping a module that says it may be, or nothing.
std::string reason_to_keep(const OpmuxModule& module, void* handle) {
  for (std::uint32_t index = 0; index < module.operator_count; ++index) {
    if (module.operators[index].device_type != OPMUX_DEVICE_CPU)
      return "it launches device work (" + printable(module.operators[index].name) + ")";
  }
  if (module.bind != nullptr) return "it binds foreign libraries";
  if (module.device_services != nullptr) return "it offers memory and streams of devices";
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return "the dynamic linker does not know it";
  // What the file itself names; what those need in turn is not its own.
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_NODELETE) != 0)
      return "it was linked with -z nodelete";
  }
  return {};
}

// dlsym also answers with what a dependency exports.
bool lives_in(void* symbol, void* handle) {
  Dl_info info{};
  void* owner = nullptr;
  void* asked = nullptr;
  return dladdr1(symbol, &info, &owner, RTLD_DL_LINKMAP) != 0 &&
         dlinfo(handle, RTLD_DI_LINKMAP, &asked) == 0 && owner == asked;
}

}  // namespace

Result<PluginModule> open_module(const std::filesystem::path& path, const FileIdentity* checked,
                                 ModulePlace place) {
  std::filesystem::path file = path;
  Result<void*> mapped = static_cast<void*>(nullptr);
  if (place == ModulePlace::kPrivateCopy && !PrivateCopy::looks_beside_itself(path)) {
    Result<PrivateCopy> copy = PrivateCopy::of(path, checked);
    if (copy.ok()) {
      file = copy->path();
      mapped = map_library(file, BindingMode::kNow);
    } else {
      mapped = std::move(copy).rejection();
    }
    if (!mapped.ok()) {
      if (mapped.rejection().rule == rules::kLoaderChanged.id) return std::move(mapped).rejection();
      file = path;
      log::info(printable(path.native()) +
                " is mapped in place, where writing over the file ends the program: " +
                to_string(mapped.rejection()));
    }
  }
  if (file == path) mapped = map_library(file, BindingMode::kNow, Visibility::kLocal, checked);
  if (!mapped.ok() && mapped.rejection().rule == rules::kLoaderChanged.id) {
    FileIdentity now;
    if (checked != nullptr && (!file_identity(path, now) || !(now == *checked)))
      return std::move(mapped).rejection();
    Result<PrivateCopy> copy = PrivateCopy::of(path, checked);
    if (!copy.ok()) return std::move(copy).rejection();
    file = copy->path();
    mapped = map_library(file, BindingMode::kNow);
  }
  if (!mapped.ok()) return std::move(mapped).rejection();
  const std::string subject = printable(path.native());
  void* const symbol = dlsym(*mapped, OPMUX_PLUGIN_ENTRY);
  if (symbol == nullptr) {
    return reject(rules::kLoaderNoEntry, subject, "exported symbol " OPMUX_PLUGIN_ENTRY, "none");
  }
  if (!lives_in(symbol, *mapped)) {
    Dl_info info{};
    dladdr(symbol, &info);
    return reject(rules::kLoaderNoEntry, subject, "exported symbol " OPMUX_PLUGIN_ENTRY,
                  "it is exported by the dependency " +
                      printable(info.dli_fname == nullptr ? "?" : info.dli_fname) + " only");
  }
  Result<PluginModule> module =
      shake_hands(reinterpret_cast<OpmuxPluginOpen>(symbol), path, subject);
  if (!module.ok()) return module;
  module->mapped = file;
  if ((module->module->flags & OPMUX_MODULE_UNLOADABLE) != 0) {
    const std::string against = reason_to_keep(*module->module, *mapped);
    module->is_unloadable = against.empty();
    if (!against.empty()) {
      log::warn(subject + " says that it may be unmapped, but " + against + ": it stays mapped");
    }
  }
  return module;
}

bool close_module(const PluginModule& module) { return unmap_library(module.mapped); }

Result<PluginModule> open_linked_module(OpmuxPluginOpen entry, const std::string& name) {
  const std::string subject = "linked-in module " + printable(name);
  if (entry == nullptr) {
    return reject(rules::kLoaderNoEntry, subject, "an entry point", "none");
  }
  return shake_hands(entry, {}, subject);
}

}  // namespace opmux
