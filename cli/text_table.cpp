// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

// Characters of UTF-8 text: every byte but continuation bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void TextTable::add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = printable(cell.text);
  rows_.push_back(std::move(row));
}

std::string TextTable::to_string() const {
  std::vector<std::size_t> widths(headings_.size(), 0);
  for (std::size_t column = 0; column < headings_.size(); ++column) {
    widths[column] = width_of(headings_[column]);
    for (const std::vector<Cell>& row : rows_)
      if (column < row.size())
        widths[column] = std::max(widths[column], width_of(row[column].text));
  }

  std::string lines;
  const auto append = [&](const std::string& text, Style style, std::size_t column, bool is_last) {
    lines += styled(style, text);
    if (!is_last) lines.append(widths[column] - width_of(text) + 2, ' ');
  };
  for (std::size_t column = 0; column < headings_.size(); ++column)
    append(headings_[column], Style::kBold, column, column + 1 == headings_.size());
  for (const std::vector<Cell>& row : rows_) {
    lines += '\n';
    std::size_t count = std::min(row.size(), headings_.size());
    while (count > 0 && row[count - 1].text.empty()) --count;
    for (std::size_t column = 0; column < count; ++column)
      append(row[column].text, row[column].style, column, column + 1 == count);
  }
  return lines;
}

}  // namespace opmux::cli
