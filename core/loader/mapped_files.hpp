// SPDX-License-Identifier: Apache-2.0
//
// What the dynamic linker has mapped. Inside core/loader only.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace opmux {

// Paths of all mapped files whose name begins with `prefix`, as the dynamic linker knows them.
std::vector<std::filesystem::path> mapped_files(std::string_view prefix);

}  // namespace opmux
