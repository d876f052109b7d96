// SPDX-License-Identifier: Apache-2.0
//
// Text for people. Colour only where output() is a terminal, NO_COLOR is not set and TERM is not
// dumb.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace opmux::cli {

enum class Style { kPlain, kBold, kGood, kBad, kWarning, kFaint };

bool use_colour();
std::string styled(Style style, std::string_view text);

// Where this program's output goes: stdout, until keep_output_apart().
std::FILE* output();
// From now on output() is what stdout was, and what libraries print to stdout goes to stderr: a
// provider that greets must not break --json. To be called once, before other threads run.
void keep_output_apart();

// A line on output().
void print(std::string_view line);
// `text` safe to print, line by line.
std::string printable_lines(std::string_view text);
// `text` safe to print where one line is wanted: what follows a line end stands behind "; ".
std::string printable_line(std::string_view text);
// "opmux: " and the text on stderr.
void print_error(std::string_view text);
// A usage error: what is wrong, then what to type. Returns kUsage.
int usage_error(std::string_view what, std::string_view type_this);

// "Did you mean `word`?", or nothing to say.
std::string did_you_mean(std::string_view nearest_word);

// Columns of the terminal that output() is, 40 at least; 100 at most, and where it is none.
std::size_t page_width();

// `text` broken at spaces to lines of at most `width` columns, each after the first indented.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = page_width());

// The same of foreign text: safe to print, its own line ends kept.
std::string wrapped_lines(std::string_view text, std::size_t indent,
                          std::size_t width = page_width());

// "1 binding", "3 bindings"
std::string counted(std::size_t count, std::string_view noun);

}  // namespace opmux::cli
