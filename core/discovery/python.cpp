// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/discovery.hpp"
#include "core/discovery/folders.hpp"
#include "core/discovery/metadata.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConfigCap = 64 * 1024;

// The prefixes that may hold this environment's Python: its own root, the root above a
// site-packages folder, and that of the Python which it was made with.
std::vector<fs::path> prefixes(const PythonEnvironment& environment) {
  std::vector<fs::path> roots;
  const auto add = [&roots](const fs::path& root) {
    if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
  };
  add(environment.root);
  for (const fs::path& packages : environment.site_packages) {
    // PREFIX/lib/python3.12/site-packages
    add(packages.parent_path().parent_path().parent_path());
  }
  const std::size_t own = roots.size();
  for (std::size_t at = 0; at < own; ++at) {
    const fs::path file = roots[at] / "pyvenv.cfg";
    if (!discovery::is_file(file)) continue;
    const auto text = read_regular_file(file, kConfigCap, rules::kDiscoveryUnreadable,
                                        rules::kDiscoveryUnreadable);
    if (!text.ok()) continue;
    const auto config = discovery::virtual_environment_config(*text);
    if (!config.home.is_absolute()) continue;
    add(config.home.parent_path());
    // `home`, or the program in it, may itself be a link into the installation.
    add(discovery::real_path_or_same(config.home).parent_path());
    const fs::path program = config.home / "python3";
    if (discovery::is_file(program))
      add(discovery::real_path_or_same(program).parent_path().parent_path());
  }
  return roots;
}

}  // namespace

std::string extension_python_version(const fs::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view kTag = ".cpython-3";
  const std::size_t tag = name.find(kTag);
  if (tag == std::string::npos) return {};
  std::size_t end = tag + kTag.size();
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (end == tag + kTag.size()) return {};
  std::string version = "3." + name.substr(tag + kTag.size(), end - tag - kTag.size());
  if (end < name.size() && name[end] == 't') version += "t";
  return version;
}

Result<PythonLibrary> find_libpython(const std::string& version,
                                     const std::vector<PythonEnvironment>& environments) {
  PythonLibrary python;
  python.version = version;
  python.soname = "libpython" + version + ".so.1.0";
  std::vector<fs::path> searched;
  for (const PythonEnvironment& environment : environments) {
    for (const fs::path& prefix : prefixes(environment)) {
      for (const char* folder : {"lib", "lib64"}) {
        const fs::path path = prefix / folder / python.soname;
        if (discovery::is_file(path)) {
          python.path = discovery::real_path_or_same(path);
          return python;
        }
      }
      searched.push_back(prefix / "lib");
    }
  }
  if (const fs::path path = find_system_library(python.soname); !path.empty()) {
    python.path = discovery::real_path_or_same(path);
    return python;
  }
  return reject(
      rules::kDiscoveryLibpythonMissing, python.soname,
      python.soname + ", which a true Python extension needs",
      "none in the system's folders" +
          (searched.empty() ? std::string() : " or in " + discovery::list_paths(searched)));
}

}  // namespace opmux
