// SPDX-License-Identifier: Apache-2.0
//
// From a glob to the one file that it means, confined to a root; private to this folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace opmux::discovery {

// A glob that meets more files than this is too wide whatever they are.
inline constexpr std::size_t kMaximumMatches = 64;
// Of all folders that one glob may walk.
inline constexpr std::size_t kMaximumWalk = 200'000;

// A glob is relative, and has neither `..` nor empty parts.
Check check_glob(const std::string& glob);

struct Matches {
  std::vector<std::string> paths;   // relative to the root, sorted; may be broken links
  std::vector<std::string> faults;  // folders that could not be listed, a reached cap
};

// Walks only the folders that the glob's leading parts allow. Wildcards stay within one part and
// do not match a leading dot.
Matches match_glob(const std::filesystem::path& root, const std::string& glob);

// What the paths turned out to be once links are resolved.
struct Candidates {
  std::vector<std::filesystem::path> files;  // distinct real regular files inside the root
  std::vector<std::string> names;            // the path under which each was found
  std::vector<std::string> unusable;         // "vllm/_C.abi3.so does not exist"
};

// A path whose real file lies outside the root is refused.
Result<Candidates> resolve(const std::filesystem::path& root,
                           const std::vector<std::string>& paths);

}  // namespace opmux::discovery
