// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/discovery.hpp"
#include "core/discovery/folders.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// The DIR that --environment takes for this torch: the environment's root where the layout shows
// it, else the folder that torch lies in.
fs::path environment_of(const TorchInstallation& torch) {
  fs::path site_packages = torch.root.parent_path();
  const fs::path python = site_packages.parent_path();
  const std::string library_folder = python.parent_path().filename().native();
  if (python.filename().native().rfind("python3", 0) == 0 &&
      (library_folder == "lib" || library_folder == "lib64"))
    return python.parent_path().parent_path();
  return site_packages;
}

// The torch versions that modules of this name were built for, over all folders.
std::string built_versions(const std::string& prefix, const std::vector<fs::path>& folders) {
  std::vector<std::string> versions;
  for (const fs::path& folder : folders) {
    if (!folder.is_absolute()) continue;
    for (const std::string& name : list_folder(folder).names)
      if (name.size() > prefix.size() + 3 && name.compare(0, prefix.size(), prefix) == 0 &&
          name.compare(name.size() - 3, 3, ".so") == 0)
        versions.push_back(printable(name.substr(prefix.size(), name.size() - prefix.size() - 3)));
  }
  std::sort(versions.begin(), versions.end());
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  if (versions.empty()) return "none";
  return (versions.size() == 1 ? "a module for torch " : "modules for torch ") +
         join(versions, ", ");
}

// Modules that this project's own build makes; all others are somebody's drop-in.
bool is_built_here(const std::string& name) {
  return name == "vllm" || name == "flash_attn" || name == "direct_symbol" || name == "native_cuda";
}

// The manifest's folder is the last that is searched.
std::string put_beside_manifest(const std::string& file, const std::vector<fs::path>& folders) {
  return "put " + printable(file) + " beside its manifest" +
         (folders.empty() ? "" : ", in " + printable(folders.back().native())) + ".";
}

}  // namespace

Result<fs::path> find_module(const std::string& name, const TorchInstallation* torch,
                             const std::vector<fs::path>& folders) {
  const std::string prefix = "opmux_" + name + (torch == nullptr ? "" : ".torch-");
  const std::string file = prefix + (torch == nullptr ? "" : torch->base_version) + ".so";
  const bool is_plain_name = !name.empty() && name.find('/') == std::string::npos;
  for (const fs::path& folder : folders) {
    // A relative folder would depend on the current one.
    if (!is_plain_name || !folder.is_absolute()) continue;
    if (const fs::path path = folder / file; discovery::is_file(path))
      return discovery::real_path_or_same(path);
  }
  const std::string subject = "plugin `" + printable(name) + "`";
  const std::string expected = "a module `" + printable(name) + "`";
  const std::string where = folders.empty() ? "" : " in " + discovery::list_paths(folders);
  if (torch == nullptr) {
    const std::string built = built_versions("opmux_" + name + ".torch-", folders);
    return reject(rules::kDiscoveryModuleMissing, subject,
                  expected + (built == "none" ? "" : " that needs no torch"), built + where,
                  built != "none" ? "Add `requires: {torch: ...}` to the manifest."
                  : is_built_here(name)
                      ? "Build it: ./dev build."
                      : "Build the plugin, and " + put_beside_manifest(file, folders));
  }
  std::string hint =
      "Build it: ./dev build --environment " + printable(environment_of(*torch).native());
  if (!is_built_here(name))
    hint += " for a module of opmux; one of a drop-in is built by itself for this torch: " +
            put_beside_manifest(file, folders);
  return reject(rules::kDiscoveryModuleMissing, subject,
                expected + " for torch " + printable(torch->base_version),
                built_versions(prefix, folders) + where, std::move(hint));
}

}  // namespace opmux
