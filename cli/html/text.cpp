// SPDX-License-Identifier: Apache-2.0
#include "cli/html/text.hpp"

#include "cli/output.hpp"

namespace opmux::cli {
namespace {

std::string escaped(std::string_view text, bool breakable) {
  std::string html;
  for (const char c : printable_lines(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
    if (breakable && (c == '/' || c == '_')) html += "<wbr>";
  }
  return html;
}

}  // namespace

std::string html_text(std::string_view text) { return escaped(text, false); }
std::string html_breakable(std::string_view text) { return escaped(text, true); }

}  // namespace opmux::cli
