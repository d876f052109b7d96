// SPDX-License-Identifier: Apache-2.0
//
// Small text functions that several stages need for their errors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opmux {

// The candidate with the smallest edit distance to `word`, empty when none is near enough to be a
// likely misspelling (more than a third of the word's length, at least 2).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// Whole-string match of a shell pattern: `*` any run without '/', `?` one character, `[...]` a set.
bool glob_match(std::string_view pattern, std::string_view text);

// One part more than there are separators; an empty text is one empty part.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
// Without the ASCII white space at both ends.
std::string_view trim(std::string_view text);

// Control, bidirectional and invalid UTF-8 bytes as \xNN, so that a hostile name cannot disturb a
// terminal or log.
std::string printable(std::string_view text);

}  // namespace opmux
