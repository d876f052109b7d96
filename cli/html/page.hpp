// SPDX-License-Identifier: Apache-2.0
//
// A report as one page that needs nothing besides: no script, no font, no picture, nothing from
// elsewhere. Thread safety: a pure function.
#pragma once

#include <string>

#include "opmux/report.hpp"

namespace opmux::cli {

std::string html_page(const Report& report);

}  // namespace opmux::cli
