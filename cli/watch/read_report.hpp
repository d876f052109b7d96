// SPDX-License-Identifier: Apache-2.0
//
// The JSON form of a report, read back: what `opmux watch` shows of it.
#pragma once

#include <optional>
#include <string>

#include "opmux/report.hpp"

namespace opmux::cli {

struct ReadReport {
  std::optional<Report> report;
  std::string problem;  // in words, when there is none
};

// Fields that are missing or of another type are left as they are; those that it does not know are
// ignored. Another form than docs/report.md's is the problem.
ReadReport read_report(const std::string& text);

}  // namespace opmux::cli
