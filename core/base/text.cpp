// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace opmux {
namespace {

// Longer words are no misspellings, and would cost quadratic time.
constexpr std::size_t kLongestWord = 256;

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_previous(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Matches the set that begins at pattern[position] == '[' against `byte` and moves `position` past
// it; a set without an end stands for the bracket itself.
bool match_set(std::string_view pattern, std::size_t& position, char byte) {
  std::size_t i = position + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (const std::size_t first = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i != first) {
      position = i + 1;
      return found != negated && byte != '/';
    }
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found = found || (pattern[i] <= byte && byte <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == byte;
    }
  }
  ++position;
  return byte == '[';
}

// The length of the well-formed UTF-8 sequence at the start of `text` and its code point; 0 when
// there is none (a stray byte, an overlong form, a surrogate, a value past U+10FFFF).
std::size_t decode(std::string_view text, std::uint32_t& code) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  std::size_t length = 0;
  std::uint32_t smallest = 0;
  if ((first & 0xE0) == 0xC0) {
    length = 2, smallest = 0x80, code = first & 0x1FU;
  } else if ((first & 0xF0) == 0xE0) {
    length = 3, smallest = 0x800, code = first & 0x0FU;
  } else if ((first & 0xF8) == 0xF0) {
    length = 4, smallest = 0x10000, code = first & 0x07U;
  }
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < smallest || surrogate || code > 0x10FFFF ? 0 : length;
}

// Controls, line separators, and the marks that change a line's direction.
bool disturbs_a_terminal(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

// Matches the pattern's element at `p`, which is no star, against the character at `t`; on success
// both move past what they matched.
bool match_one(std::string_view pattern, std::size_t& p, std::string_view text, std::size_t& t) {
  if (p == pattern.size() || t == text.size()) return false;
  if (pattern[p] == '[') {
    std::size_t after = p;
    if (!match_set(pattern, after, text[t])) return false;
    p = after;
    ++t;
    return true;
  }
  if (pattern[p] == '?') {
    if (text[t] == '/') return false;
    ++p;
    do {
      ++t;
    } while (t < text.size() && is_continuation(text[t]));
    return true;
  }
  if (pattern[p] != text[t]) return false;
  ++p;
  ++t;
  return true;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() > kLongestWord) return {};
  const std::size_t allowed = std::max<std::size_t>(2, word.size() / 3);
  std::size_t best = allowed + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > word.size() + allowed || word.size() > candidate.size() + allowed)
      continue;
    const std::size_t distance = edit_distance(word, candidate);
    // Two short words are always near; without one character in common they are not alike.
    if (distance >= best || distance >= std::max(word.size(), candidate.size())) continue;
    best = distance;
    found = candidate;
  }
  return found;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  // Going back to the last star alone is enough: nothing but a literal '/' matches '/', so that an
  // earlier star can take no part of the text that the last one could not. Time is at most
  // pattern times text.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_end = 0;
  while (t < text.size() || p < pattern.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = t;
      continue;
    }
    if (match_one(pattern, p, text, t)) continue;
    if (star == std::string_view::npos || star_end >= text.size() || text[star_end] == '/')
      return false;
    p = star + 1;
    t = ++star_end;
  }
  return true;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = decode(text, code);
    if (length != 0 && !disturbs_a_terminal(code)) {
      shown += text.substr(0, length);
    } else {
      for (const char byte : text.substr(0, std::max<std::size_t>(length, 1))) {
        const auto value = static_cast<unsigned char>(byte);
        shown += "\\x";
        shown += kDigits[value >> 4];
        shown += kDigits[value & 15];
      }
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

}  // namespace opmux
