// SPDX-License-Identifier: Apache-2.0
//
// A running program's report as lines of text. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "opmux/report.hpp"

namespace opmux::cli {

struct ViewOptions {
  std::size_t width = 100;  // 0: no limit
  std::size_t height = 0;   // lines to fill at most; 0: no limit
  bool all = false;         // operators that nobody calls, too, and the whole history
};

// What was seen before; rates are of the time between.
struct EarlierReport {
  const Report* first = nullptr;   // that the view began with
  const Report* before = nullptr;  // the one before this, null: no rates
  double seconds = 0.0;            // since then
};

// Lines of at most `width` columns, without line ends. Text that is longer goes on in the next
// line; paths that stand by themselves are shortened.
std::vector<std::string> view(const Report& report, const EarlierReport& earlier,
                              const ViewOptions& options);

// "0", "9.5", "123", "12.3k", "4.56M"
std::string rate_in_words(double per_second);

// The lines of at most `width` columns that `line` takes, broken at spaces where it can be; all but
// the first begin with `indent` spaces. The codes of styles take no columns and hold on.
std::vector<std::string> folded(std::string_view line, std::size_t width, std::size_t indent);

// At most `width` columns of a path: what stands behind the last slash is kept longest, with the
// position that may follow it.
std::string shortened(const std::string& path, std::size_t width);

// The codes of styles take none.
std::size_t columns_of(std::string_view text);

// How to leave, in one line; the longest form that fits.
std::string footer(bool takes_keys, std::size_t width);

}  // namespace opmux::cli
