// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/command.hpp"
#include "core/base/environment.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

const char* code_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\033[1m";
    case Style::kGood:
      return "\033[32m";
    case Style::kBad:
      return "\033[31m";
    case Style::kWarning:
      return "\033[33m";
    case Style::kFaint:
      return "\033[2m";
  }
  return "";
}

constexpr std::size_t kNarrowest = 40;
constexpr std::size_t kWidest = 100;

std::FILE* own_output = nullptr;

void write(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
}

}  // namespace

std::FILE* output() { return own_output == nullptr ? stdout : own_output; }

void keep_output_apart() {
  std::fflush(stdout);
  const int copy = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (copy < 0) return;
  own_output = ::fdopen(copy, "w");
  if (own_output != nullptr) static_cast<void>(::dup2(STDERR_FILENO, STDOUT_FILENO));
}

bool use_colour() {
  static const bool use = ::isatty(fileno(output())) == 1 && !environment_variable("NO_COLOR") &&
                          environment_variable("TERM").value_or("dumb") != "dumb";
  return use;
}

std::string styled(Style style, std::string_view text) {
  if (style == Style::kPlain || text.empty() || !use_colour()) return std::string{text};
  return std::string{code_of(style)} + std::string{text} + "\033[0m";
}

void print(std::string_view line) {
  write(output(), line);
  write(output(), "\n");
}

std::string printable_lines(std::string_view text) {
  std::string lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines += printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string printable_line(std::string_view text) {
  std::string line;
  for (const std::string& part : split(text, '\n')) {
    const std::string_view shown = trim(part);
    if (shown.empty()) continue;
    if (!line.empty()) line += line.ends_with(':') || line.ends_with(';') ? " " : "; ";
    line += printable(shown);
  }
  return line;
}

void print_error(std::string_view text) {
  std::fflush(output());
  write(stderr, "opmux: ");
  write(stderr, text);
  write(stderr, "\n");
}

int usage_error(std::string_view what, std::string_view type_this) {
  // What ends in did_you_mean() has nothing after its last space where no word is near.
  while (what.ends_with(' ')) what.remove_suffix(1);
  print_error(what);
  if (!type_this.empty()) {
    write(stderr, type_this);
    write(stderr, "\n");
  }
  return kUsage;
}

std::string did_you_mean(std::string_view nearest_word) {
  if (nearest_word.empty()) return {};
  return "Did you mean `" + std::string{nearest_word} + "`?";
}

std::size_t page_width() {
  static const std::size_t width = [=] {
    winsize size{};
    if (::isatty(fileno(output())) != 1 || ::ioctl(fileno(output()), TIOCGWINSZ, &size) != 0 ||
        size.ws_col == 0)
      return kWidest;
    return std::clamp<std::size_t>(size.ws_col, kNarrowest, kWidest);
  }();
  return width;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find(' ', at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(at, end - at);
    if (!word.empty()) {
      const bool is_first = column == indent;
      if (!is_first && column + 1 + word.size() > width) {
        lines += '\n';
        lines.append(indent, ' ');
        column = indent;
      } else if (!is_first) {
        lines += ' ';
        ++column;
      }
      lines += word;
      column += word.size();
    }
    at = end + 1;
  }
  return lines;
}

std::string wrapped_lines(std::string_view text, std::size_t indent, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n'))
    lines.push_back(wrapped(printable(line), indent, width));
  return join(lines, "\n" + std::string(indent, ' '));
}

std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string{noun} + (count == 1 ? "" : "s");
}

}  // namespace opmux::cli
