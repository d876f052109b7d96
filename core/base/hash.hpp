// SPDX-License-Identifier: Apache-2.0
//
// Throws std::bad_alloc when memory runs out, nothing else.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace opmux {

// Lower-case hexadecimal SHA-256.
std::string sha256(std::string_view bytes);
// Of a file's content, read in blocks; nothing when it cannot be read.
std::optional<std::string> sha256_file(const std::filesystem::path& path);

}  // namespace opmux
