// SPDX-License-Identifier: Apache-2.0
//
// Throws std::bad_alloc when memory runs out, nothing else.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/files.hpp"

namespace opmux {

// Lower-case hexadecimal SHA-256.
std::string sha256(std::string_view bytes);
// Of a file's content, read in blocks; nothing when it cannot be read.
std::optional<std::string> sha256_file(const std::filesystem::path& path);

// The content of one open file and which file that was, so that the path's later meaning can be
// told from it.
struct HashedFile {
  std::string sha256;
  FileIdentity identity;
};
// Nothing when the file cannot be read, or was written to meanwhile.
std::optional<HashedFile> hash_file(const std::filesystem::path& path);

}  // namespace opmux
