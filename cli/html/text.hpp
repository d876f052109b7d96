// SPDX-License-Identifier: Apache-2.0
//
// Foreign text in a page: names, paths and what libraries print may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace opmux::cli {

// `text` as HTML, inside elements and quoted attributes alike: markup escaped, control,
// bidirectional and invalid bytes as \xNN.
std::string html_text(std::string_view text);

// The same with a place to break behind each / and _, so that long paths and names fit.
std::string html_breakable(std::string_view text);

}  // namespace opmux::cli
