// SPDX-License-Identifier: Apache-2.0
//
// Sets environment variables for the length of a test. Not thread-safe, as setenv is not.
#pragma once

#include <stdlib.h>

#include <map>
#include <optional>
#include <string>

namespace opmux::testing {

class EnvironmentGuard {
 public:
  EnvironmentGuard() = default;
  EnvironmentGuard(const EnvironmentGuard&) = delete;
  EnvironmentGuard& operator=(const EnvironmentGuard&) = delete;
  ~EnvironmentGuard() {
    for (const auto& [name, value] : before_) apply(name, value);
  }

  void set(const std::string& name, const std::string& value) {
    remember(name);
    apply(name, value);
  }
  void unset(const std::string& name) {
    remember(name);
    apply(name, std::nullopt);
  }

 private:
  void remember(const std::string& name) {
    const char* value = ::getenv(name.c_str());
    before_.try_emplace(name, value == nullptr ? std::nullopt : std::optional<std::string>{value});
  }
  static void apply(const std::string& name, const std::optional<std::string>& value) {
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }

  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace opmux::testing
