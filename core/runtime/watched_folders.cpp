// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/files.hpp"
#include "core/base/folder_listing.hpp"
#include "core/runtime/state.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

class Folders {
 public:
  // Every entry of the folder.
  void all(const fs::path& folder) { add(folder, {}); }

  // The entry itself, and where it or folders above it do not exist, the first name that would make
  // it exist. A link is followed by what it and its targets stand in.
  void entry(const fs::path& path) {
    std::error_code error;
    fs::path name = path;
    fs::path folder = path.parent_path();
    while (!fs::is_directory(folder, error) && folder != folder.parent_path()) {
      name = folder;
      folder = folder.parent_path();
    }
    // What a link goes through may be renamed instead of it, as Kubernetes does with mounted files.
    if (fs::is_symlink(path, error)) {
      all(folder);
      const fs::path target = fs::canonical(path, error);
      if (!error) add(target.parent_path(), {target.filename().string()});
    } else {
      add(folder, {name.filename().string()});
    }
  }

  // A folder of manifests: its files, and those of its subfolders.
  void manifests(const fs::path& folder) {
    entry(folder);
    all(folder);
    for (const std::string& name : list_folder(folder).names) {
      std::error_code ignored;
      if (fs::is_directory(folder / name, ignored)) all(folder / name);
      if (fs::is_symlink(folder / name, ignored)) entry(folder / name);
    }
  }

  std::vector<WatchedFolder> take() { return std::move(folders_); }

 private:
  void add(const fs::path& folder, std::vector<std::string> names) {
    if (!folder.empty()) folders_.push_back({folder, std::move(names)});
  }

  std::vector<WatchedFolder> folders_;
};

// Where a configuration would be read that nobody asked for: one that takes the place of `config`
// when it appears is a change as well.
std::vector<fs::path> default_config_files(const Config& config) {
  if (config.origin != "none" && config.origin != "user" && config.origin != "system") return {};
  std::vector<fs::path> files;
  if (!user_config_folder().empty()) files.push_back(user_config_folder() / "opmux.yaml");
  files.emplace_back("/etc/opmux/opmux.yaml");
  return files;
}

}  // namespace

std::vector<WatchedFolder> watched_folders(const Options& options, const Preparation& preparation) {
  Folders folders;
  if (!preparation.config.file.empty()) folders.entry(preparation.config.file);
  for (const fs::path& file : default_config_files(preparation.config)) folders.entry(file);
  if (!preparation.lock_file.empty()) folders.entry(preparation.lock_file);
  for (const fs::path& file : options.manifest_files) folders.entry(file);
  for (const fs::path& folder : preparation.manifest_folders) folders.manifests(folder);
  for (const PythonEnvironment& environment : preparation.environments.environments) {
    folders.entry(environment.root);
    for (const fs::path& site_packages : environment.site_packages) folders.all(site_packages);
  }
  for (const fs::path& folder : preparation.module_folders) {
    folders.entry(folder);
    folders.all(folder);
  }
  for (const ProviderPlan& provider : preparation.plan.providers) {
    if (!provider.module.empty()) folders.entry(provider.module);
    for (const LibraryPlan& library : provider.libraries) {
      for (const CandidatePlan& candidate : library.candidates) {
        if (candidate.found) folders.entry(candidate.found->path);
      }
    }
  }
  return folders.take();
}

}  // namespace opmux
