// SPDX-License-Identifier: Apache-2.0
//
// All manifests of a run: which files count, and which of two that say the same.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/base/folder_listing.hpp"
#include "core/base/hash.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/base/trust.hpp"
#include "core/manifest/reading.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

using reading::Head;
using reading::OperatorLookup;

// One file that takes part, through both passes.
struct Candidate {
  fs::path path;
  std::size_t level = 0;  // 0 has the highest precedence
  std::size_t file = 0;   // index into ManifestSet::files
  bool declarations_only = false;
  bool refused = false;
  bool masked = false;
  yaml::Node root;
  Head head;
  Manifest manifest;
  yaml::Errors errors{fs::path{}};

  bool is_provider() const { return head.has_provider && !manifest.provider.empty(); }
};

std::string shown(const fs::path& path) { return printable(path.string()); }

bool is_manifest_name(const fs::path& path) { return path.extension() == ".yaml"; }

// A name that was probably meant to end in .yaml.
bool is_nearly_manifest_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".yml" || extension == ".YAML" || extension == ".YML";
}

// An empty file or a link to /dev/null.
bool hides(const fs::path& path) {
  std::error_code error;
  if (fs::canonical(path, error) == "/dev/null") return true;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) == 0 && !error;
}

class SetReader {
 public:
  ManifestSet read(const ManifestSources& sources) {
    std::size_t level = 0;
    trust_ = sources.trust;
    for (const fs::path& file : sources.files) add_named_file(file);
    for (const fs::path& folder : sources.folders) add_folder(folder, ++level, false);
    for (const fs::path& folder : sources.declaration_folders) add_folder(folder, ++level, true);

    describe_masks();
    for (auto& candidate : candidates_) read_first_pass(*candidate);
    resolve_providers();
    resolve_declarations();
    read_second_pass();
    collect();
    return std::move(set_);
  }

 private:
  struct Mask {
    fs::path path;
    bool hides = false;
  };
  // An empty file that nothing above masks.
  struct HidingFile {
    std::size_t file = 0;  // index into ManifestSet::files
    std::string key;
    bool hides_any = false;
  };

  std::size_t add_file(const fs::path& path, const fs::path& folder, std::string state) {
    set_.files.push_back(
        {path, folder, std::move(state), mask_key(path.lexically_relative(folder)), {}});
    return set_.files.size() - 1;
  }

  void add_candidate(const fs::path& path, const fs::path& folder, std::size_t level,
                     bool declarations_only) {
    auto candidate = std::make_unique<Candidate>();
    candidate->path = path;
    candidate->level = level;
    candidate->file = add_file(path, folder, "read");
    candidate->declarations_only = declarations_only;
    candidate->errors = yaml::Errors{path};
    candidate->manifest.file = path;
    candidates_.push_back(std::move(candidate));
  }

  // False when the same file was reached on another way.
  bool is_new(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return error || seen_.insert(real).second;
  }

  void add_named_file(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) {
      add_file(path, path.parent_path(), "rejected");
      set_.rejections.push_back(
          reject(rules::kManifestMissing, shown(path), "a manifest file", "nothing"));
      return;
    }
    if (is_new(path)) add_candidate(path, path.parent_path(), 0, false);
  }

  // Relative names of the manifests in `folder`, by bytes, so that no folder's order matters.
  std::vector<fs::path> list(const fs::path& folder, const fs::path& below) {
    std::vector<fs::path> names;
    const FolderListing listing = list_folder(folder / below);
    for (const std::string& text : listing.names) {
      const fs::path name = text;
      if (text.starts_with('.')) continue;
      std::error_code ignored;
      if (is_manifest_name(name)) {
        names.push_back(below / name);
      } else if (is_nearly_manifest_name(name)) {
        add_file(folder / below / name, folder, "not read: its name does not end in .yaml");
      } else if (below.empty() && fs::is_directory(folder / name, ignored)) {
        for (fs::path& inner : list(folder, name)) names.push_back(std::move(inner));
      }
    }
    if (!listing.fault.empty())
      set_.rejections.push_back(reject(rules::kYamlUnreadable, shown(folder / below),
                                       "a folder that can be listed", listing.fault));
    std::sort(names.begin(), names.end(), [](const fs::path& left, const fs::path& right) {
      return left.native() < right.native();
    });
    return names;
  }

  // The shipped folder keeps its providers in `providers/`, drop-in folders beside each other.
  static std::string mask_key(const fs::path& relative) {
    const std::string name = relative.string();
    constexpr std::string_view shipped = "providers/";
    return name.starts_with(shipped) ? name.substr(shipped.size()) : name;
  }

  void add_folder(const fs::path& folder, std::size_t level, bool declarations_only) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
      set_.rejections.push_back(
          reject(rules::kManifestMissing, shown(folder), "a folder of manifests",
                 fs::exists(folder, error) ? "another kind of file" : "nothing"));
      return;
    }
    // What it would mask counts no more than what it says.
    if (Check refused = require_trust(folder, trust_)) {
      set_.rejections.push_back(*std::move(refused));
      return;
    }
    std::vector<std::pair<std::string, Mask>> own;
    for (const fs::path& relative : list(folder, {})) {
      const fs::path path = folder / relative;
      const std::string key = mask_key(relative);
      const bool hiding = hides(path);
      own.emplace_back(key, Mask{path, hiding});
      if (const auto mask = masks_.find(key); mask != masks_.end()) {
        add_file(path, folder,
                 (mask->second.hides ? "hidden by " : "masked by ") + shown(mask->second.path));
        for (HidingFile& each : hiding_files_) each.hides_any = each.hides_any || each.key == key;
      } else if (hiding) {
        hiding_files_.push_back({add_file(path, folder, "hides files of this name"), key});
      } else if (is_new(path)) {
        add_candidate(path, folder, level, declarations_only);
      } else {
        add_file(path, folder, "read already");
      }
    }
    for (auto& [key, mask] : own) masks_.emplace(std::move(key), std::move(mask));
  }

  // An empty file that hides nothing was probably meant for a file of the same name in another
  // folder inside a folder of manifests.
  void describe_masks() {
    for (const HidingFile& hiding : hiding_files_) {
      if (hiding.hides_any) continue;
      ManifestSet::File& file = set_.files[hiding.file];
      file.state = "hides nothing: no folder below has " + printable(hiding.key);
      const fs::path name = file.path.filename();
      for (std::size_t index = 0; index < set_.files.size(); ++index) {
        const ManifestSet::File& other = set_.files[index];
        if (other.path.filename() != name || other.name == file.name || other.state != "read")
          continue;
        // Files come in the order of their folders, the highest first.
        const bool is_below = index > hiding.file && other.folder != file.folder;
        file.state +=
            "; " + shown(other.path) + " would be hidden by an empty " +
            (is_below ? shown(file.folder / other.name)
                      : printable(other.name) + " in a folder above " + shown(other.folder));
        break;
      }
    }
  }

  void read_first_pass(Candidate& candidate) {
    if (Check refused = require_trust(candidate.path, trust_)) {
      candidate.errors.add(*std::move(refused));
      candidate.refused = true;
      return;
    }
    Result<std::string> text = yaml::read_text_file(candidate.path);
    if (!text.ok()) {
      candidate.errors.add(std::move(text).rejection());
      candidate.refused = true;
      return;
    }
    set_.files[candidate.file].sha256 = sha256(*text);
    Result<yaml::Node> root = yaml::parse(*text, candidate.path);
    if (!root.ok()) {
      candidate.errors.add(std::move(root).rejection());
      candidate.refused = true;
      return;
    }
    candidate.root = *std::move(root);
    candidate.head = reading::read_head(candidate.root, candidate.manifest, candidate.errors);
    candidate.refused = !candidate.errors.empty();
  }

  void refuse_duplicate(Candidate& candidate, yaml::Position position, const std::string& what,
                        const std::string& other) {
    candidate.errors.add(rules::kManifestDuplicate, position, "one manifest with " + what,
                         "another one: " + other);
    candidate.refused = true;
  }

  // Of two manifests of one provider the one of the higher folder counts; two in one folder are
  // both refused. A refused manifest still masks, so that a fault never brings back what it
  // replaced.
  void resolve_providers() {
    std::map<std::string, std::vector<Candidate*>> by_provider;
    for (auto& candidate : candidates_)
      if (candidate->is_provider())
        by_provider[candidate->manifest.provider].push_back(candidate.get());
    for (auto& [provider, group] : by_provider) {
      const std::size_t level = group.front()->level;
      const auto lower = std::find_if(group.begin(), group.end(),
                                      [&](const Candidate* c) { return c->level != level; });
      for (auto candidate = lower; candidate != group.end(); ++candidate) {
        (*candidate)->masked = true;
        set_.files[(*candidate)->file].state = "masked by " + shown(group.front()->path);
      }
      if (lower - group.begin() < 2) continue;
      for (auto candidate = group.begin(); candidate != lower; ++candidate) {
        const Candidate& other = **(candidate == group.begin() ? candidate + 1 : group.begin());
        const yaml::Node* name = (*candidate)->root.find("provider");
        refuse_duplicate(**candidate, name->position, "`provider: " + provider + "` in a folder",
                         shown(other.path));
      }
    }
  }

  // What an operator means is never redefined from above: the declaration of the lowest folder
  // stays, others are refused with their file. Two in one folder are both refused.
  void resolve_declarations() {
    std::map<std::string, std::vector<std::pair<Candidate*, const OperatorDeclaration*>>> by_name;
    for (auto& candidate : candidates_) {
      if (candidate->refused || candidate->masked) continue;
      for (const OperatorDeclaration& declaration : candidate->manifest.declarations)
        by_name[declaration.name].emplace_back(candidate.get(), &declaration);
    }
    for (auto& [name, group] : by_name) {
      if (group.size() < 2) continue;
      const std::size_t lowest = group.back().first->level;
      const bool tie = group[group.size() - 2].first->level == lowest;
      for (std::size_t i = 0; i < group.size(); ++i) {
        const bool stays = !tie && i + 1 == group.size();
        if (stays) continue;
        const auto& [candidate, declaration] = group[i];
        const auto& other = i + 1 == group.size() ? group.front() : group.back();
        refuse_duplicate(*candidate, {declaration->location.line, declaration->location.column},
                         "a declaration of `" + name + "`", to_string(other.second->location));
      }
    }
  }

  void read_second_pass() {
    OperatorLookup operators;
    for (auto& candidate : candidates_) {
      if (candidate->masked) continue;
      if (!candidate->refused) {
        operators.add(candidate->manifest.declarations);
      } else if (const yaml::Node* declare = candidate->root.find("declare")) {
        for (const yaml::Entry& entry : declare->entries)
          operators.add_refused(entry.key, shown(candidate->path));
      }
    }
    for (auto& candidate : candidates_) {
      if (candidate->masked || candidate->refused) continue;
      if (candidate->declarations_only || !candidate->head.has_provider) continue;
      yaml::Errors undeclared{candidate->path};
      reading::read_provider(candidate->root, candidate->manifest, operators, candidate->errors,
                             undeclared);
      for (const Rejection& rejection : undeclared.rejections())
        set_.rejections.push_back(rejection);
      if (candidate->errors.empty()) set_.providers.push_back(candidate->manifest);
    }
  }

  void collect() {
    for (auto& candidate : candidates_) {
      if (candidate->masked) continue;
      if (!candidate->errors.empty()) set_.files[candidate->file].state = "rejected";
      for (const Rejection& rejection : candidate->errors.rejections())
        set_.rejections.push_back(rejection);
      // A fault in the provider part leaves the file's declarations good.
      if (candidate->refused) continue;
      for (OperatorDeclaration& declaration : candidate->manifest.declarations)
        set_.declarations.push_back(std::move(declaration));
    }
    std::sort(set_.declarations.begin(), set_.declarations.end(),
              [](const OperatorDeclaration& left, const OperatorDeclaration& right) {
                return left.name < right.name;
              });
    const auto order = [](const Manifest& manifest) {
      const bool native = manifest.provider == "native" || manifest.provider == "native_cuda";
      return std::tuple{native, -manifest.priority, manifest.provider};
    };
    std::sort(
        set_.providers.begin(), set_.providers.end(),
        [&](const Manifest& left, const Manifest& right) { return order(left) < order(right); });
  }

  Trust trust_ = Trust::kLax;
  ManifestSet set_;
  std::vector<std::unique_ptr<Candidate>> candidates_;  // by precedence, then name
  std::map<std::string, Mask> masks_;                   // of the folders so far
  std::vector<HidingFile> hiding_files_;
  std::set<fs::path> seen_;
};

}  // namespace

ManifestSet read_manifests(const ManifestSources& sources) { return SetReader{}.read(sources); }

}  // namespace opmux
