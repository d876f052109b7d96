// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <boost/dll/shared_library_load_mode.hpp>

#include "core/base/descriptor.hpp"
#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/loader.hpp"
#include "core/loader/mapped_files.hpp"
#include "core/loader/process_state.hpp"

namespace opmux {

namespace {

struct MappedLibrary {
  FileIdentity identity;
  boost::dll::shared_library library;
  void* handle = nullptr;  // the library's, or a reference without one
};

using LibrariesByPath = std::map<std::string, MappedLibrary>;

struct MappedLibraries {
  std::mutex mutex;
  LibrariesByPath by_path;
};

// Never destroyed: a library is retired, not unmapped, and its code may run until the process ends.
MappedLibraries& mapped_libraries() {
  static MappedLibraries* const libraries = std::make_unique<MappedLibraries>().release();
  return *libraries;
}

// A constructor of the library that throws ends the process here, in std::terminate: unwinding
// through the dynamic linker would leave its lock taken and its tables half written, and the next
// dlopen of any thread would hang. The probe has met such a library before this process does.
void* open_or_terminate(const std::filesystem::path& path, int mode) noexcept {
  return ::dlopen(path.c_str(), mode);
}

// The dynamic linker's own words when it fails. Boost.DLL, which allocates, comes after the
// library's constructors have run: memory that runs out there leaves the library mapped and is an
// exception.
std::string open_library(const std::filesystem::path& path, BindingMode binding,
                         Visibility visibility, boost::dll::shared_library& library) {
  namespace load_mode = boost::dll::load_mode;
  const bool is_global = visibility == Visibility::kGlobal;
  void* const first =
      open_or_terminate(path, (binding == BindingMode::kNow ? RTLD_NOW : RTLD_LAZY) |
                                  (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (first == nullptr) {
    const char* const text = ::dlerror();
    return text == nullptr ? "the dynamic linker gives no reason" : text;
  }
  std::error_code code;
  library.load(path, code,
               load_mode::rtld_lazy | (is_global ? load_mode::rtld_global : load_mode::rtld_local));
  if (code) return code.message();
  ::dlclose(first);
  return {};
}

Rejection open_failed(const std::filesystem::path& path, std::string expected, std::string found) {
  return reject(rules::kLoaderOpenFailed, path.empty() ? "(empty path)" : printable(path.native()),
                std::move(expected), std::move(found));
}

// dlopen refuses an executable, and Boost.DLL then hands out the main program in place of an error.
bool is_running_program(const FileIdentity& identity) {
  FileIdentity program;
  return file_identity("/proc/self/exe", program) && program == identity;
}

Rejection changed(const std::filesystem::path& path, const FileIdentity& checked,
                  std::string found) {
  return reject(rules::kLoaderChanged, printable(path.native()),
                "the file that was checked, " + to_string(checked), std::move(found));
}

// The dynamic linker opened the path once more, after the check of `file`.
Result<void*> checked_handle(const MappedLibrary& mapped, const Descriptor& file,
                             const std::filesystem::path& path, const FileIdentity* checked) {
  void* const handle = mapped.handle;
  if (checked == nullptr) return handle;
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) {
    return changed(path, *checked, "a library without an entry in the dynamic linker's list");
  }
  const std::optional<bool> same = is_mapping_of(map->l_ld, file.get());
  if (same && *same) return handle;
  return changed(path, *checked,
                 same ? "another file was mapped under this path"
                      : "what was mapped is not known: /proc/self/maps does not tell");
}

}  // namespace

Result<void*> map_library(const std::filesystem::path& path, BindingMode mode,
                          Visibility visibility, const FileIdentity* checked) {
  if (!path.is_absolute()) {
    return open_failed(path, "an absolute path", path.empty() ? "no path" : "a relative path");
  }
  FileIdentity identity;
  // Open from before the mapping until after it, so that no other file can get its inode.
  const Descriptor file{
      checked == nullptr ? -1 : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
  if (!(file.valid() ? file_identity(file.get(), identity) : file_identity(path, identity))) {
    return open_failed(path, "a file that the dynamic linker maps", "no such file");
  }
  if (checked != nullptr && !(identity == *checked)) {
    return changed(path, *checked, "another file, " + to_string(identity));
  }
  MappedLibraries& libraries = mapped_libraries();
  const std::lock_guard lock(libraries.mutex);
  const auto known = libraries.by_path.find(path.native());
  if (known != libraries.by_path.end()) {
    // By inode, it is the file that is mapped; what is to be true of its content was checked
    // before.
    if (is_same_but_for_status(known->second.identity, identity)) {
      known->second.identity = identity;
      return checked_handle(known->second, file, path, checked);
    }
    // The dynamic linker would answer with the old library for the same path.
    return reject(rules::kLoaderChanged, printable(path.native()),
                  "the file that this process mapped, " + to_string(known->second.identity),
                  "another file, " + to_string(identity));
  }
  if (is_running_program(identity)) {
    return open_failed(path, "a shared object", "the running program itself");
  }
  LibrariesByPath made;
  MappedLibrary& mapped =
      made.emplace(path.native(), MappedLibrary{identity, {}, nullptr}).first->second;
  const ProcessStateGuard state(printable(path.native()));
  const std::string error = open_library(path, mode, visibility, mapped.library);
  if (!error.empty()) {
    return open_failed(path, "a file that the dynamic linker maps", printable(error));
  }
  // Kept when it is refused, too: a library that ran its constructors is not unmapped.
  mapped.handle = mapped.library.native();
  libraries.by_path.merge(made);
  return checked_handle(mapped, file, path, checked);
}

Check check_mapped_dependencies(const std::filesystem::path& library,
                                const std::vector<std::filesystem::path>& needed) {
  std::map<std::string, std::filesystem::path> mapped;
  for (const std::filesystem::path& path : mapped_files("")) mapped[path.filename()] = path;
  for (const std::filesystem::path& file : needed) {
    const auto found = mapped.find(file.filename());
    if (found == mapped.end()) continue;
    FileIdentity checked;
    FileIdentity present;
    // What is gone from the disk cannot be told apart.
    if (!file_identity(file, checked) || !file_identity(found->second, present)) continue;
    if (checked.device == present.device && checked.inode == present.inode) continue;
    return reject(rules::kLoaderDependencyElsewhere, printable(library.native()),
                  "it finds " + printable(file.native()) + ", with which it was checked",
                  printable(found->second.native()) + " is mapped, which the linker takes for it");
  }
  return std::nullopt;
}

bool unmap_library(const std::filesystem::path& path) {
  MappedLibraries& libraries = mapped_libraries();
  const std::lock_guard lock(libraries.mutex);
  const auto known = libraries.by_path.find(path.native());
  if (known == libraries.by_path.end()) return true;
  if (known->second.library.is_loaded()) {
    known->second.library.unload();
  } else {
    ::dlclose(known->second.handle);
  }
  void* const still = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (still == nullptr) {
    libraries.by_path.erase(known);
    return true;
  }
  // It may be asked for again, and another file of its path must not be taken for it: it is held
  // and known as before.
  known->second.handle = still;
  return false;
}

}  // namespace opmux
