// SPDX-License-Identifier: Apache-2.0
#include "core/base/folder_listing.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>

namespace opmux {

FolderListing list_folder(const std::filesystem::path& folder) {
  FolderListing listing;
  const auto close = [](DIR* open) { closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(opendir(folder.c_str()), close);
  if (open == nullptr) {
    listing.fault = std::generic_category().message(errno);
    return listing;
  }
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(open.get());
    if (entry == nullptr) {
      if (errno != 0) listing.fault = std::generic_category().message(errno);
      break;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (listing.names.size() == kMaximumFolderEntries) {
      listing.fault = "it has more than " + std::to_string(kMaximumFolderEntries) + " entries";
      break;
    }
    listing.names.emplace_back(name);
  }
  std::sort(listing.names.begin(), listing.names.end());
  return listing;
}

}  // namespace opmux
