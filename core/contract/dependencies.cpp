// SPDX-License-Identifier: Apache-2.0
#include "core/contract/dependencies.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/folder_listing.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

constexpr std::string_view kDriver = "libcuda.so.1";
// Far more than any process maps; each kept library holds a descriptor.
constexpr std::size_t kMaxKept = 256;

// Libraries that were read before. The lock is not held while a file is read; two threads may read
// the same file, and either result serves.
class Kept {
 public:
  static Kept& instance() {
    static Kept kept;
    return kept;
  }

  Result<std::shared_ptr<const elf::ExportTable>> open(const std::filesystem::path& path) {
    FileIdentity identity;
    const bool known = file_identity(path, identity);
    const std::string key = path.string();
    if (known) {
      const std::lock_guard lock(mutex_);
      const auto found = tables_.find(key);
      if (found != tables_.end() && found->second.identity == identity) return found->second.table;
    }
    auto opened = elf::ExportTable::open(path);
    if (!opened) return std::move(opened).rejection();
    auto table = std::make_shared<const elf::ExportTable>(*std::move(opened));
    if (known) {
      const std::lock_guard lock(mutex_);
      if (tables_.size() >= kMaxKept) tables_.clear();
      tables_.insert_or_assign(key, Entry{identity, table});
    }
    return std::shared_ptr<const elf::ExportTable>(std::move(table));
  }

  // What was found once is only asked again when it is gone: the search reads the linker's cache.
  std::filesystem::path find_system(const std::string& name) {
    std::filesystem::path path;
    {
      const std::lock_guard lock(mutex_);
      const auto found = system_.find(name);
      if (found != system_.end()) path = found->second;
    }
    std::error_code ignored;
    if (!path.empty() && std::filesystem::exists(path, ignored)) return path;
    path = find_system_library(name);
    if (!path.empty()) {
      const std::lock_guard lock(mutex_);
      system_.insert_or_assign(name, path);
    }
    return path;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    tables_.clear();
    system_.clear();
  }

 private:
  struct Entry {
    FileIdentity identity;
    std::shared_ptr<const elf::ExportTable> table;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> tables_;
  std::unordered_map<std::string, std::filesystem::path> system_;
};

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

// Run paths of a file as folders. A relative one depends on the folder that the host happens to
// stand in and is not followed; nor is one with a variable other than $ORIGIN.
std::vector<std::filesystem::path> run_path_folders(const elf::ElfFile& file) {
  std::vector<std::filesystem::path> folders;
  const std::string origin = std::filesystem::path(file.path).parent_path().string();
  for (std::string path : file.run_paths) {
    replace_all(path, "${ORIGIN}", origin);
    replace_all(path, "$ORIGIN", origin);
    if (path.starts_with('/') && path.find('$') == std::string::npos) folders.emplace_back(path);
  }
  return folders;
}

std::string torch_name(const TorchInstallation& torch) {
  return "torch " + torch.version + " (" + torch.library_folder.string() + ")";
}

class Search {
 public:
  explicit Search(const StaticCheckContext& context) : context_(context) {}

  Result<Dependencies> run(const elf::ElfFile& file) {
    if (Check failed = add_needed(file)) return *failed;
    // Mapped before the library, for all to see, whether the library names it or not.
    if (context_.python != nullptr) {
      const std::string& name = context_.python->soname;
      if (!found_.by_name.contains(name)) {
        if (Check failed = use(file, name, {context_.python->path})) return *failed;
      }
    }
    for (std::size_t i = 0; i < found_.libraries.size(); ++i) {
      // Held by a copy of the pointer: add_needed appends to the vector.
      const std::shared_ptr<const elf::ExportTable> table = found_.libraries[i].table;
      if (Check failed = add_needed(table->file())) return *failed;
    }
    return std::move(found_);
  }

 private:
  Check add_needed(const elf::ElfFile& file) {
    for (const std::string& name : file.needed) {
      if (found_.by_name.contains(name)) continue;
      if (Check failed = add(file, name)) return failed;
    }
    return std::nullopt;
  }

  Check add(const elf::ElfFile& file, const std::string& name) {
    if (name == kDriver) return add_driver(file);
    if (context_.python != nullptr && name == context_.python->soname) {
      return use(file, name, {context_.python->path});
    }
    if (name.find('/') != std::string::npos) {
      if (!name.starts_with('/')) return missing(file, name, "a relative path");
      return use(file, name, {name});
    }
    std::vector<std::filesystem::path> candidates;
    const bool of_torch = is_torch_library(name);
    if (context_.torch != nullptr) {
      candidates.push_back(context_.torch->library_folder / name);
      for (const auto& folder : context_.torch->dependency_folders) {
        candidates.push_back(folder / name);
      }
    } else if (of_torch) {
      // One that happens to lie in a system folder belongs to a torch that nobody chose.
      return reject(rules::kContractNeededMissing, subject(file, name),
                    "a torch chosen for this provider, which has " + name, "no torch is chosen",
                    "Add `requires: {torch: ...}` to the manifest, and name an environment that "
                    "has torch.");
    }
    if (!of_torch) {
      for (const auto& folder : run_path_folders(file)) candidates.push_back(folder / name);
      if (auto path = Kept::instance().find_system(name); !path.empty()) candidates.push_back(path);
    }
    return use(file, name, candidates);
  }

  Check add_driver(const elf::ElfFile& file) {
    static const HostFacts kNothing;
    const HostFacts& host = context_.host != nullptr ? *context_.host : kNothing;
    const auto& path = host.driver.empty() ? host.stub_driver : host.driver;
    if (path.empty()) {
      return reject(rules::kContractNoDriver, std::string(kDriver),
                    "an NVIDIA driver (libcuda.so.1)", "libcuda.so.1 not found: no NVIDIA driver");
    }
    found_.stub_driver = host.driver.empty();
    return use(file, std::string(kDriver), {path});
  }

  // The first candidate that exists and is for this machine, as the dynamic linker chooses.
  Check use(const elf::ElfFile& file, const std::string& name,
            const std::vector<std::filesystem::path>& candidates) {
    std::error_code ignored;
    for (const auto& path : candidates) {
      if (!std::filesystem::exists(path, ignored)) continue;
      auto table = Kept::instance().open(path);
      if (!table) {
        if (table.rejection().rule == rules::kContractWrongMachine.id) continue;
        return std::move(table).rejection();
      }
      const std::string& soname = (*table)->file().soname;
      const std::size_t index = found_.libraries.size();
      found_.libraries.push_back({path, *table});
      found_.by_name.emplace(name, index);
      if (!soname.empty()) found_.by_name.emplace(soname, index);
      return std::nullopt;
    }
    return missing(file, name, others(name, candidates));
  }

  // Libraries of the same stem in the searched folders: most often another major version.
  std::string others(const std::string& name,
                     const std::vector<std::filesystem::path>& candidates) const {
    const auto dot = name.find(".so");
    if (dot == std::string::npos) return "not found";
    const std::string stem = name.substr(0, dot + 3);
    std::set<std::string> found;
    for (const auto& candidate : candidates) {
      for (const std::string& file : list_folder(candidate.parent_path()).names) {
        if (file == stem || file.starts_with(stem + "."))
          found.insert((candidate.parent_path() / file).string());
        if (found.size() == 8) break;
      }
    }
    if (found.empty()) return "not found";
    const std::vector<std::string> list(found.begin(), found.end());
    return "not found, only " + join(list, ", ");
  }

  std::string subject(const elf::ElfFile& file, const std::string& name) const {
    return file.path + ": DT_NEEDED " + printable(name);
  }

  Check missing(const elf::ElfFile& file, const std::string& name, std::string found) const {
    const bool of_torch = context_.torch != nullptr && is_torch_library(name);
    std::string expected = printable(name) + " in ";
    std::string hint;
    if (of_torch) {
      expected += torch_name(*context_.torch);
      if (context_.torch->cuda.empty() && name.find("cuda") != std::string::npos) {
        hint = "This torch was built without CUDA: use a build of torch with CUDA.";
      }
    } else {
      expected += context_.torch != nullptr
                      ? "torch's folders, the library's run path or the system's folders"
                      : "the library's run path or the system's folders";
      if (name == "libc.so.6") {
        hint = "The library is linked to glibc, which this host does not have (musl?).";
      }
    }
    return reject(rules::kContractNeededMissing, subject(file, name), std::move(expected),
                  std::move(found), std::move(hint));
  }

  const StaticCheckContext& context_;
  Dependencies found_;
};

}  // namespace

bool is_torch_library(std::string_view name) {
  const auto stem = name.substr(0, name.find(".so"));
  return stem == "libtorch" || stem == "libc10" || stem == "libc10_cuda" || stem == "libshm" ||
         stem.starts_with("libtorch_") || stem.starts_with("libcaffe2");
}

const Dependency* Dependencies::find(const std::string& name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &libraries[found->second];
}

bool Dependencies::export_symbol(std::string_view name) const {
  return std::any_of(libraries.begin(), libraries.end(),
                     [&](const Dependency& library) { return library.table->contains(name); });
}

Result<Dependencies> find_dependencies(const elf::ElfFile& file,
                                       const StaticCheckContext& context) {
  return Search(context).run(file);
}

std::optional<std::vector<std::filesystem::path>> needed_files(const std::filesystem::path& path,
                                                               const StaticCheckContext& context) {
  auto file = elf::read(path, elf::Detail::kDependencies);
  if (!file.ok()) return std::nullopt;
  const auto dependencies = find_dependencies(*file, context);
  if (!dependencies.ok()) return std::nullopt;
  std::vector<std::filesystem::path> files;
  for (const Dependency& dependency : dependencies->libraries) files.push_back(dependency.path);
  return files;
}

void release_dependencies() { Kept::instance().clear(); }

}  // namespace opmux
