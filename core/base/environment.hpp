// SPDX-License-Identifier: Apache-2.0
//
// The only place that reads environment variables. A lint test refuses any other getenv.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opmux {

// Whether this process runs with privileges that its user does not have (set-user-id, file
// capabilities and the like: the kernel's AT_SECURE), so that what the user says must not count.
bool is_elevated();
// For tests: what is_elevated answers; nothing for the truth.
void pretend_elevated(std::optional<bool> elevated);

// Unset or empty variables, and every variable in a process with elevated privileges, read as
// absent.
std::optional<std::string> environment_variable(const char* name);

// All variables whose name begins with `prefix`, sorted by name; none in a process with elevated
// privileges.
std::vector<std::pair<std::string, std::string>> environment_variables_with_prefix(
    const std::string& prefix);

// Names of variables that are set and begin with `prefix`, which an elevated process ignores;
// none in others.
std::vector<std::string> ignored_variables(const std::string& prefix);

}  // namespace opmux
