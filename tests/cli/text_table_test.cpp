// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.hpp"

#include <gtest/gtest.h>

namespace opmux::cli {
namespace {

TEST(TextTable, ColumnsLineUpAndTheLastIsNotPadded) {
  TextTable table({"NAME", "N", "WHERE"});
  table.add({"a", "1", "x"});
  table.add({"longer", "200", "y"});
  EXPECT_EQ(table.to_string(),
            "NAME    N    WHERE\n"
            "a       1    x\n"
            "longer  200  y");
}

TEST(TextTable, WidthsCountCharacters) {
  TextTable table({"A", "B"});
  table.add({"\xC3\xA9\xC3\xA9", "x"});
  table.add({"abc", "y"});
  EXPECT_EQ(table.to_string(), "A    B\n\xC3\xA9\xC3\xA9   x\nabc  y");
}

TEST(TextTable, ControlCharactersAreEscaped) {
  TextTable table({"A"});
  table.add({"\033[31m"});
  EXPECT_EQ(table.to_string(), "A\n\\x1b[31m");
}

TEST(Wrapped, BreaksAtSpacesWithAnIndent) {
  EXPECT_EQ(wrapped("aaa bbb ccc", 2, 9), "aaa bbb\n  ccc");
  EXPECT_EQ(wrapped("one", 2, 9), "one");
}

}  // namespace
}  // namespace opmux::cli
