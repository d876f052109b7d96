// SPDX-License-Identifier: Apache-2.0
#include "core/base/environment.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace opmux {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string{value};
}

std::vector<std::pair<std::string, std::string>> environment_variables_with_prefix(
    const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  // The condition under which secure_getenv returns nothing.
  if (getauxval(AT_SECURE) != 0 || environ == nullptr) return found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.substr(0, equals).starts_with(prefix)) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace opmux
