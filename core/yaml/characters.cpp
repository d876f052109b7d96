// SPDX-License-Identifier: Apache-2.0
#include "core/yaml/characters.hpp"

#include <cstdint>

namespace opmux::yaml {
namespace {

std::string escape(std::string_view bytes) {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += digits[byte >> 4U];
    text += digits[byte & 0xFU];
  }
  return text;
}

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // 0: not UTF-8
};

CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  std::size_t length = 0;
  std::uint32_t value = 0;
  std::uint32_t smallest = 0;
  if ((first & 0xE0U) == 0xC0U) {
    length = 2;
    value = first & 0x1FU;
    smallest = 0x80;
  } else if ((first & 0xF0U) == 0xE0U) {
    length = 3;
    value = first & 0x0FU;
    smallest = 0x800;
  } else if ((first & 0xF8U) == 0xF0U) {
    length = 4;
    value = first & 0x07U;
    smallest = 0x10000;
  } else {
    return {};
  }
  if (text.size() < length) return {};
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = (value << 6U) | (byte(i) & 0x3FU);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < smallest || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

const char* refuse(std::uint32_t value) {
  if (value == 0) return "a NUL byte";
  if (value == '\n' || value == '\t') return nullptr;
  if (value < 0x20 || (value >= 0x7F && value <= 0x9F)) return "a control character";
  if (value == 0x2028 || value == 0x2029) return "a line separator";
  if (value == 0xFEFF) return "a byte-order mark inside the text";
  if (value == 0x061C || value == 0x200E || value == 0x200F ||
      (value >= 0x202A && value <= 0x202E) || (value >= 0x2066 && value <= 0x2069))
    return "a bidirectional control character";
  return nullptr;
}

}  // namespace

std::optional<BadCharacter> find_bad_character(std::string_view text) {
  for (std::size_t offset = 0; offset < text.size();) {
    const std::string_view rest = text.substr(offset);
    const CodePoint point = decode(rest);
    if (point.length == 0) return BadCharacter{offset, escape(rest.substr(0, 1)), "invalid UTF-8"};
    if (const char* reason = refuse(point.value))
      return BadCharacter{offset, escape(rest.substr(0, point.length)), reason};
    offset += point.length;
  }
  return std::nullopt;
}

}  // namespace opmux::yaml
