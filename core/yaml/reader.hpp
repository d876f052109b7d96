// SPDX-License-Identifier: Apache-2.0
//
// Strict reading of YAML into a plain tree. What opmux does not use is refused here, for every file
// alike: anchors, aliases, tags, directives, merge keys, second documents, duplicate keys, keys
// that are not text, tabs, control and bidirectional characters, invalid UTF-8. A byte-order mark
// at the start and CRLF line ends are accepted.
//
// Limits: 256 KiB, 16 levels. Both are enforced while reading, so a hostile file costs at most one
// pass over 256 KiB and a stack of 16 levels. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace opmux::yaml {

inline constexpr std::size_t kSizeCap = std::size_t{256} * 1024;
inline constexpr std::size_t kDepthCap = 16;

// 1-based; columns count characters, not bytes.
struct Position {
  int line = 1;
  int column = 1;
};

enum class Kind { kNull, kScalar, kSequence, kMap };

struct Entry;

struct Node {
  Kind kind = Kind::kNull;
  std::string text;     // of a scalar, escapes resolved; never typed here
  bool quoted = false;  // quoted or block scalars are text and never a number, bool or null
  Position position;    // of an empty value: the position of its key
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the order of the file

  // Null when this is no map or has no such key.
  const Node* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  Position position;
  Node value;
};

// The one document of `text`; `file` only names it in errors.
Result<Node> parse(std::string_view text, const std::filesystem::path& file);

// The bytes of a regular file within the size cap.
Result<std::string> read_text_file(const std::filesystem::path& file);

// Reads a regular file and parses it.
Result<Node> read(const std::filesystem::path& file);

// "file:line:column", control characters in the file's name escaped.
std::string subject(const std::filesystem::path& file, Position position);

}  // namespace opmux::yaml
