// SPDX-License-Identifier: Apache-2.0
//
// Python's library for true Python extensions. Nothing here starts an interpreter.
#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/loader.hpp"
#include "core/loader/mapped_files.hpp"

namespace opmux {

namespace {

// "3.12" of "3.12.3 (main, ...) [GCC ...]", which also builds without the global lock begin with;
// they say "free-threading build" further on. Callable before and without initialisation.
std::string version_of(const char* text) {
  const std::string_view whole(text == nullptr ? "" : text);
  const std::size_t first = whole.find('.');
  const std::size_t second = whole.find('.', first + 1);
  std::string version(whole.substr(0, second));
  if (whole.find("free-threading build") != std::string_view::npos) version += "t";
  return version;
}

// Empty when it does not tell.
std::string version_of_mapped(const std::filesystem::path& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  void* const function = dlsym(handle, "Py_GetVersion");
  std::string version;
  if (function != nullptr) version = version_of(reinterpret_cast<const char* (*)()>(function)());
  dlclose(handle);  // the one count that this look took
  return version;
}

Check other_python(const PythonLibrary& python, const std::string& found) {
  return reject(rules::kLoaderPythonConflict, python.path.string(),
                "Python " + python.version + ", or none, in this process", found);
}

Check show_python(const PythonLibrary& python) {
  // A program that is a Python, or that links one, shows its functions to all libraries.
  if (void* const function = dlsym(RTLD_DEFAULT, "Py_GetVersion")) {
    const auto get_version = reinterpret_cast<const char* (*)()>(function);
    const std::string version = version_of(get_version());
    if (version == python.version) return std::nullopt;
    return other_python(python, "Python " + printable(version));
  }
  // One that was mapped for its owner alone is shown to all by mapping it again.
  for (const std::filesystem::path& mapped : mapped_files("libpython3.")) {
    if (mapped.filename() == "libpython3.so") continue;  // names the real one and holds nothing
    // By what it says, since its file may have any name.
    const std::string version = version_of_mapped(mapped);
    if (version != python.version) {
      return other_python(python, printable(mapped.native()) +
                                      (version.empty() ? "" : ", Python " + printable(version)));
    }
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(mapped, error);
    Result<void*> shown =
        map_library(error ? mapped : real, BindingMode::kNow, Visibility::kGlobal);
    return shown.ok() ? Check() : Check(std::move(shown).rejection());
  }
  Result<void*> mapped = map_library(python.path, BindingMode::kNow, Visibility::kGlobal);
  if (!mapped.ok()) return std::move(mapped).rejection();
  return std::nullopt;
}

}  // namespace

Check preload_python(const PythonLibrary& python, const TorchInstallation* torch) {
  if (Check refused = show_python(python)) return refused;
  if (torch == nullptr) return std::nullopt;
  Result<void*> mapped =
      map_library(torch->library_folder / "libtorch_python.so", BindingMode::kNow);
  if (!mapped.ok()) return std::move(mapped).rejection();
  return std::nullopt;
}

}  // namespace opmux
