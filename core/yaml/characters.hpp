// SPDX-License-Identifier: Apache-2.0
//
// Which characters a file may hold.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace opmux::yaml {

struct BadCharacter {
  std::size_t offset = 0;
  std::string escaped;  // its bytes as \xNN
  std::string reason;   // "invalid UTF-8", "a control character", …
};

// The first byte sequence that is not UTF-8, or a control, bidirectional, line separator or
// byte-order mark character. Line feeds and tabs pass.
std::optional<BadCharacter> find_bad_character(std::string_view text);

}  // namespace opmux::yaml
