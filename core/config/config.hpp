// SPDX-License-Identifier: Apache-2.0
//
// opmux.yaml and the OPMUX_* variables; docs/config.md documents every key and variable.
// Precedence for one setting, highest first: command line (the caller's), environment variable,
// file, default. Thread safety: values; load_config reads the process environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/properties.hpp"
#include "core/base/result.hpp"
#include "opmux/trust.hpp"

namespace opmux {

// What becomes of a call when a provider reports an error before anything was launched.
enum class OnError { kRaise, kNext };

// A binding that failed `failures` times in a row is left out for `retry`.
struct QuarantineSettings {
  std::uint32_t failures = 0;  // 0: never
  std::chrono::milliseconds retry{0};

  bool operator==(const QuarantineSettings&) const = default;
};

// A share of the calls is served by a second binding, too, and compared.
struct ShadowSettings {
  double sample = 0.0;   // 0: never, 1: every call
  std::string provider;  // empty: the next one of the route

  bool operator==(const ShadowSettings&) const = default;
};

// One entry of `routes`. Each setting of an operator is that of the last matching rule that has it.
struct RouteRule {
  std::string pattern;  // shell pattern over operator names
  // In order, on every device; "native" stands for native and native_cuda. Empty: see below.
  std::vector<std::string> providers;
  int line = 0;
  int column = 0;
  // The order on one device; where all three are empty, the rule says nothing of the order.
  std::vector<std::string> cpu_providers = {};
  std::vector<std::string> cuda_providers = {};
  std::optional<bool> strict = std::nullopt;
  std::optional<OnError> on_error = std::nullopt;
  std::optional<Properties> require = std::nullopt;
  std::optional<QuarantineSettings> quarantine = std::nullopt;
  std::optional<ShadowSettings> shadow = std::nullopt;
};

// Every provider that the rule names, each once, in the order of its mention.
std::vector<std::string> named_providers(const RouteRule& rule);

// Foreground: the runtime is ready when it is open. Background: native serves at once, the others
// when they are loaded.
enum class Start { kForeground, kBackground };

struct Config {
  std::filesystem::path file;  // empty when there is none
  std::string origin;          // "--config", "OPMUX_CONFIG", "user", "system", "none"
  std::vector<std::filesystem::path> environments;
  std::vector<std::filesystem::path> manifests;
  std::vector<RouteRule> routes;
  bool strict = false;
  Start start = Start::kForeground;
  bool watch = false;  // this file and the folders of manifests
  std::chrono::milliseconds probe_deadline{10000};
  std::string log_level;                              // empty: default
  std::optional<std::filesystem::path> cache_folder;  // OPMUX_CACHE_DIR
  Trust trust = Trust::kLax;                          // the stricter of the file's and OPMUX_TRUST
  std::optional<std::filesystem::path> lock_file;     // OPMUX_LOCK
  int threads = 0;  // OPMUX_THREADS: native CPU threads, 0 for all cores
  // OPMUX_REPORT_SOCKET: where to offer the report, empty for the default place.
  std::optional<std::filesystem::path> report_socket = std::nullopt;
};

// Finds, reads and checks the configuration. `explicit_file` is --config's. Unknown OPMUX_*
// variables are errors.
Result<Config> load_config(const std::optional<std::filesystem::path>& explicit_file);

// For tests and fuzzing: the text of an opmux.yaml.
Result<Config> parse_config(const std::string& text, const std::filesystem::path& file);

}  // namespace opmux
