// SPDX-License-Identifier: Apache-2.0
//
// What the dynamic linker has mapped. Inside core/loader only.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace opmux {

// Paths of all mapped files whose name begins with `prefix`, as the dynamic linker knows them.
std::vector<std::filesystem::path> mapped_files(std::string_view prefix);

// Whether the mapping that holds `address` is one of the file that is open as `descriptor`; nothing
// when the kernel does not tell. A page of the descriptor is mapped beside it and the kernel's
// names of both are compared: on overlay and btrfs file systems stat and /proc/self/maps name
// devices differently.
std::optional<bool> is_mapping_of(const void* address, int descriptor);

}  // namespace opmux
