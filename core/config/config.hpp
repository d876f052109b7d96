// SPDX-License-Identifier: Apache-2.0
//
// opmux.yaml and the OPMUX_* variables; docs/config.md documents every key and variable.
// Precedence for one setting, highest first: command line (the caller's), environment variable,
// file, default. Thread safety: values; load_config reads the process environment.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "opmux/trust.hpp"

namespace opmux {

struct RouteRule {
  std::string pattern;  // shell pattern over operator names; the last rule that matches wins
  std::vector<std::string> providers;  // in order; "native" stands for native and native_cuda
  int line = 0;
  int column = 0;
};

struct Config {
  std::filesystem::path file;  // empty when there is none
  std::string origin;          // "--config", "OPMUX_CONFIG", "user", "system", "none"
  std::vector<std::filesystem::path> environments;
  std::vector<std::filesystem::path> manifests;
  std::vector<RouteRule> routes;
  bool strict = false;
  std::chrono::milliseconds probe_deadline{10000};
  std::string log_level;                              // empty: default
  std::optional<std::filesystem::path> cache_folder;  // OPMUX_CACHE_DIR
  Trust trust = Trust::kLax;                          // the stricter of the file's and OPMUX_TRUST
  std::optional<std::filesystem::path> lock_file;     // OPMUX_LOCK
  int threads = 0;  // OPMUX_THREADS: native CPU threads, 0 for all cores
};

// Finds, reads and checks the configuration. `explicit_file` is --config's. Unknown OPMUX_*
// variables are errors.
Result<Config> load_config(const std::optional<std::filesystem::path>& explicit_file);

// For tests and fuzzing: the text of an opmux.yaml.
Result<Config> parse_config(const std::string& text, const std::filesystem::path& file);

}  // namespace opmux
