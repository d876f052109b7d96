// SPDX-License-Identifier: Apache-2.0
#include "core/discovery/matching.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/folders.hpp"

namespace opmux::discovery {
namespace {

namespace fs = std::filesystem;

class Walk {
 public:
  Walk(fs::path root, const std::string& glob) : root_(std::move(root)), parts_(split(glob, '/')) {}

  Matches run() {
    visit({}, 0);
    std::sort(matches_.paths.begin(), matches_.paths.end());
    return std::move(matches_);
  }

 private:
  bool is_full() const {
    return matches_.paths.size() > kMaximumMatches || entries_ > kMaximumWalk;
  }

  // Depth is the number of parts, which check_glob() bounds.
  void visit(const std::string& folder, std::size_t depth) {
    if (is_full()) return;
    const std::string& part = parts_[depth];
    const std::string prefix = folder.empty() ? "" : folder + "/";
    if (part.find_first_of("*?[") == std::string::npos) {
      accept(prefix + part, depth);
      return;
    }
    const FolderListing listing = list_folder(root_ / folder);
    if (!listing.fault.empty())
      matches_.faults.push_back(printable((root_ / folder).native()) + ": " + listing.fault);
    entries_ += listing.names.size();
    if (entries_ > kMaximumWalk)
      matches_.faults.push_back("the glob walks more than " + std::to_string(kMaximumWalk) +
                                " entries");
    for (const std::string& name : listing.names) {
      if (name.front() == '.' && part.front() != '.') continue;
      if (glob_match(part, name)) accept(prefix + name, depth);
      if (is_full()) return;
    }
  }

  void accept(const std::string& path, std::size_t depth) {
    std::error_code error;
    if (depth + 1 < parts_.size()) {
      if (is_folder(root_ / path)) visit(path, depth + 1);
    } else if (const auto status = fs::symlink_status(root_ / path, error);
               !error && status.type() != fs::file_type::not_found &&
               status.type() != fs::file_type::directory) {
      matches_.paths.push_back(path);
    }
  }

  fs::path root_;
  std::vector<std::string> parts_;
  Matches matches_;
  std::size_t entries_ = 0;
};

}  // namespace

Check check_glob(const std::string& glob) {
  constexpr std::size_t kMaximumParts = 32;
  const auto refuse = [&](std::string found) {
    return reject(rules::kDiscoveryOutsideRoot, "glob `" + printable(glob) + "`",
                  "a relative path of at most " + std::to_string(kMaximumParts) +
                      " parts without `.` and `..`",
                  std::move(found), "Write the glob relative to the root.");
  };
  if (glob.empty()) return refuse("an empty one");
  if (glob.front() == '/') return refuse("an absolute one");
  const std::vector<std::string> parts = split(glob, '/');
  if (parts.size() > kMaximumParts) return refuse(std::to_string(parts.size()) + " parts");
  for (const std::string& part : parts)
    if (part.empty() || part == "." || part == "..")
      return refuse(part.empty() ? "an empty part" : "the part `" + part + "`");
  return std::nullopt;
}

Matches match_glob(const fs::path& root, const std::string& glob) { return Walk(root, glob).run(); }

Result<Candidates> resolve(const fs::path& root, const std::vector<std::string>& paths) {
  Candidates candidates;
  std::vector<FileIdentity> identities;
  const fs::path real_root = real_path_or_same(root);
  for (const std::string& path : paths) {
    const fs::path full = root / path;
    const std::string name = printable(path);
    std::error_code error;
    std::error_code not_a_link;
    const fs::path target = fs::read_symlink(full, not_a_link);
    const std::string description =
        not_a_link ? name : name + " is a link to " + printable(target.native()) + ", which";
    const fs::path real = fs::canonical(full, error);
    if (error == std::errc::no_such_file_or_directory) {
      candidates.unusable.push_back(description + " does not exist");
      continue;
    }
    if (error) {
      candidates.unusable.push_back(description + " cannot be resolved: " + error.message());
      continue;
    }
    if (!lies_inside(real, real_root))
      return reject(rules::kDiscoveryOutsideRoot, printable(full.native()),
                    "a file inside " + printable(real_root.native()) + " after links are resolved",
                    "a link to " + printable(real.native()));
    FileIdentity identity;
    if (!is_file(real) || !file_identity(real, identity)) {
      candidates.unusable.push_back(description + " is not a regular file");
      continue;
    }
    // Two names of one file are one match.
    const bool is_known = std::any_of(identities.begin(), identities.end(), [&](const auto& known) {
      return known.device == identity.device && known.inode == identity.inode;
    });
    if (is_known) continue;
    identities.push_back(identity);
    candidates.files.push_back(real);
    candidates.names.push_back(path);
  }
  return candidates;
}

}  // namespace opmux::discovery
