// SPDX-License-Identifier: Apache-2.0
//
// The only place that reads environment variables. A lint test refuses any other getenv.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opmux {

// Unset or empty variables, and every variable in a process with elevated privileges, read as
// absent.
std::optional<std::string> environment_variable(const char* name);

// All variables whose name begins with `prefix`, sorted by name; none in a process with elevated
// privileges.
std::vector<std::pair<std::string, std::string>> environment_variables_with_prefix(
    const std::string& prefix);

}  // namespace opmux
