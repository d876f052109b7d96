// SPDX-License-Identifier: Apache-2.0
//
// Columns that line up.
#pragma once

#include <string>
#include <vector>

#include "cli/output.hpp"

namespace opmux::cli {

struct Cell {
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(std::string cell_text, Style cell_style = Style::kPlain)
      : text(std::move(cell_text)), style(cell_style) {}
  Cell(const char* cell_text) : text(cell_text) {}  // NOLINT(google-explicit-constructor)

  std::string text;
  Style style = Style::kPlain;
};

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings);

  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }

  // Lines without the last line end. Widths count characters, not bytes; control characters are
  // escaped. The last column is not padded.
  std::string to_string() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace opmux::cli
