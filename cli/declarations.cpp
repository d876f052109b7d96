// SPDX-License-Identifier: Apache-2.0
#include "cli/declarations.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/files.hpp"
#include "core/config/config.hpp"
#include "core/runtime/locations.hpp"

namespace opmux::cli {

Result<ManifestSet> read_manifest_set(const CommonOptions& common) {
  namespace fs = std::filesystem;
  const Result<Config> config = load_config(common.config_file);
  if (!config.ok()) return config.rejection();
  ManifestSources sources;
  sources.folders = common.manifests;
  sources.folders.insert(sources.folders.end(), config->manifests.begin(), config->manifests.end());
  for (const fs::path& folder : {user_config_folder() / "providers.d",
                                 fs::path{"/etc/opmux/providers.d"}, shipped_manifest_folder()}) {
    std::error_code error;
    if (folder.is_absolute() && fs::is_directory(folder, error)) sources.folders.push_back(folder);
  }
  return read_manifests(sources);
}

Result<std::vector<OperatorDeclaration>> read_declarations(const CommonOptions& common) {
  Result<ManifestSet> manifests = read_manifest_set(common);
  if (!manifests.ok()) return std::move(manifests).rejection();
  return std::move(manifests->declarations);
}

}  // namespace opmux::cli
