// SPDX-License-Identifier: Apache-2.0
//
// Files as the rest of the core needs them: read with a cap, written whole or not at all, and named
// by identity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace opmux {

// Reads a regular file of at most `cap` bytes through one descriptor opened O_NONBLOCK | O_CLOEXEC
// and checked with fstat, so that a pipe or device cannot block and a growing file cannot exceed
// the cap. `unreadable` and `too_large` are the rules quoted on failure.
struct Rule;
Result<std::string> read_regular_file(const std::filesystem::path& path, std::size_t cap,
                                      const Rule& unreadable, const Rule& too_large);

// Writes to a temporary file in the same folder, syncs it and renames it over `path`, a link itself
// and not what it leads to; on failure nothing is left. A device or a pipe, also behind a link, is
// not replaced. Returns an empty text, or what failed.
std::string write_file_atomically(const std::filesystem::path& path, std::string_view content);

// What must stay the same for a file to be "the same file" without reading it.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

// The same but for changed_ns, which also moves when the file gets another mode or one more link.
// Who sets mtime back on purpose is not seen.
bool is_same_but_for_status(const FileIdentity& a, const FileIdentity& b);

// False when the file cannot be examined.
bool file_identity(const std::filesystem::path& path, FileIdentity& identity);
// Of an open file.
bool file_identity(int descriptor, FileIdentity& identity);
// "device:inode:size:mtime:ctime"
std::string to_string(const FileIdentity& identity);

// $XDG_CACHE_HOME/opmux or ~/.cache/opmux; empty when there is no home.
std::filesystem::path user_cache_folder();
// $XDG_CONFIG_HOME/opmux or ~/.config/opmux; empty when there is no home.
std::filesystem::path user_config_folder();

}  // namespace opmux
