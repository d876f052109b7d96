// SPDX-License-Identifier: Apache-2.0
//
// The files of a new plugin: text alone, no file system. Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opmux::cli {

// The one operator of opmux's own that the scaffold has a kernel for.
inline constexpr const char* kScaffoldOperator = "silu_and_mul";

struct ScaffoldFile {
  std::string name;  // relative to the plugin's folder
  std::string content;
};

// `plugin` and `operator_name` are identifiers. An operator other than kScaffoldOperator is a new
// one, which the plugin's manifest declares.
std::vector<ScaffoldFile> scaffold(std::string_view plugin, std::string_view operator_name);

}  // namespace opmux::cli
