// SPDX-License-Identifier: Apache-2.0
#include "core/base/environment.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace opmux {
namespace {

// -1: as the kernel says.
std::atomic<int> pretended{-1};

std::vector<std::pair<std::string, std::string>> all_with_prefix(const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  if (environ == nullptr) return found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.substr(0, equals).starts_with(prefix)) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool is_elevated() {
  const int answer = pretended.load();
  return answer >= 0 ? answer != 0 : getauxval(AT_SECURE) != 0;
}

void pretend_elevated(std::optional<bool> elevated) {
  pretended.store(elevated ? static_cast<int>(*elevated) : -1);
}

std::optional<std::string> environment_variable(const char* name) {
  if (is_elevated()) return std::nullopt;
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string{value};
}

std::vector<std::pair<std::string, std::string>> environment_variables_with_prefix(
    const std::string& prefix) {
  if (is_elevated()) return {};
  return all_with_prefix(prefix);
}

std::vector<std::string> ignored_variables(const std::string& prefix) {
  std::vector<std::string> names;
  if (!is_elevated()) return names;
  for (const auto& [name, value] : all_with_prefix(prefix)) names.push_back(name);
  return names;
}

}  // namespace opmux
