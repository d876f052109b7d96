// SPDX-License-Identifier: Apache-2.0
//
// What one site-packages folder has installed; private to this folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/discovery/discovery.hpp"

namespace opmux::discovery {

// A RECORD of torch is 2 MB; this leaves room.
inline constexpr std::size_t kRecordCap = 64 * 1024 * 1024;

// The distribution in one folder; nothing when it is not installed there.
Result<std::optional<Distribution>> find_in_folder(const std::string& name,
                                                   const std::filesystem::path& site_packages);

// The paths of a distribution's RECORD as record_paths() gives them.
Result<std::vector<std::string>> read_record(const Distribution& distribution,
                                             std::string_view prefix);

// The other distribution in the same folder whose RECORD lists `path` (relative), as "NAME
// VERSION"; empty when there is none.
std::string owner_of(const std::string& path, const Distribution& distribution);

}  // namespace opmux::discovery
