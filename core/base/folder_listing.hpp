// SPDX-License-Identifier: Apache-2.0
//
// The names in a folder, in a stable order and within a cap. std::filesystem's iterator ends the
// process when memory runs out (libstdc++ 12 throws out of a noexcept function); this throws
// std::bad_alloc.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace opmux {

// More entries than any real site-packages folder has; a folder that goes on for ever ends here.
inline constexpr std::size_t kMaximumFolderEntries = 100'000;

struct FolderListing {
  std::vector<std::string> names;  // without . and .., sorted by bytes
  std::string fault;               // why the listing is not complete, empty when it is
};

FolderListing list_folder(const std::filesystem::path& folder);

}  // namespace opmux
