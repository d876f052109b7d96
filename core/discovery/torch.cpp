// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/discovery.hpp"
#include "core/discovery/distributions.hpp"
#include "core/discovery/folders.hpp"
#include "core/discovery/metadata.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kVersionFileCap = 64 * 1024;

// The folders of CUDA's libraries as its distributions lay them out beside torch.
std::vector<fs::path> dependency_folders(const fs::path& site_packages) {
  std::vector<fs::path> folders;
  const fs::path vendor = site_packages / "nvidia";
  for (const std::string& name : list_folder(vendor).names) {
    if (const fs::path folder = vendor / name / "lib"; discovery::is_folder(folder)) {
      folders.push_back(folder);
      continue;
    }
    for (const std::string& inner : list_folder(vendor / name).names)
      if (const fs::path folder = vendor / name / inner / "lib"; discovery::is_folder(folder))
        folders.push_back(folder);
  }
  return folders;
}

// An editable torch lies in its source tree.
std::optional<fs::path> torch_folder(const fs::path& site_packages) {
  if (discovery::is_file(site_packages / "torch" / "version.py")) return site_packages / "torch";
  const auto distribution = discovery::find_in_folder("torch", site_packages);
  if (distribution.ok() && *distribution && (*distribution)->editable_root)
    if (const fs::path folder = *(*distribution)->editable_root / "torch";
        discovery::is_file(folder / "version.py"))
      return folder;
  return std::nullopt;
}

bool satisfies(const Requirements& requirements, const TorchInstallation& torch) {
  if (requirements.torch) {
    const auto version = Version::parse(torch.version);
    if (!version.ok() || !requirements.torch->contains(*version)) return false;
  }
  if (requirements.cuda) {
    if (torch.cuda.empty()) return false;
    const auto version = Version::parse(torch.cuda);
    if (!version.ok() || !requirements.cuda->contains(*version)) return false;
  }
  return true;
}

std::string describe(const Requirements& requirements) {
  std::string text = "torch";
  if (requirements.torch) text += " " + requirements.torch->text();
  if (requirements.cuda) text += " built for CUDA " + requirements.cuda->text();
  return text;
}

std::string describe(const TorchInstallation& torch) {
  return "torch " + printable(torch.version) +
         (torch.cuda.empty() ? " (no CUDA)" : " (CUDA " + printable(torch.cuda) + ")") + " in " +
         printable(torch.root.parent_path().native());
}

}  // namespace

Result<TorchInstallation> find_torch(const Requirements& requirements,
                                     const std::vector<PythonEnvironment>& environments) {
  std::vector<fs::path> searched;
  std::vector<std::string> unsuitable;
  for (const PythonEnvironment& environment : environments)
    for (const fs::path& site_packages : environment.site_packages) {
      searched.push_back(site_packages);
      const auto folder = torch_folder(site_packages);
      if (!folder) continue;
      const auto text = read_regular_file(*folder / "version.py", kVersionFileCap,
                                          rules::kDiscoveryUnreadable, rules::kDiscoveryUnreadable);
      if (!text.ok()) {
        unsuitable.push_back(text.rejection().subject + ": " + text.rejection().found);
        continue;
      }
      auto [version, cuda] = discovery::torch_version(*text);
      TorchInstallation torch;
      torch.root = *folder;
      torch.library_folder = *folder / "lib";
      torch.version = std::move(version);
      torch.cuda = std::move(cuda);
      const auto parsed = Version::parse(torch.version);
      if (!parsed.ok()) {
        unsuitable.push_back(printable((*folder / "version.py").native()) +
                             (torch.version.empty()
                                  ? " without a version"
                                  : " with the version `" + printable(torch.version) + "`"));
        continue;
      }
      torch.base_version = parsed->base();
      for (const std::string& name : discovery::list_matching(*folder, "_C.cpython-*.so"))
        torch.python = extension_python_version(name);
      if (!satisfies(requirements, torch)) {
        unsuitable.push_back(describe(torch));
        continue;
      }
      torch.dependency_folders = dependency_folders(folder->parent_path());
      return torch;
    }
  if (!unsuitable.empty())
    return reject(rules::kDiscoveryRequires, "requires", describe(requirements),
                  join(unsuitable, "; "));
  return reject(
      rules::kDiscoveryTorchMissing, "torch", describe(requirements) + " in a searched environment",
      searched.empty() ? "no environment to search" : "none in " + discovery::list_paths(searched));
}

}  // namespace opmux
