// SPDX-License-Identifier: Apache-2.0
//
// The OPMUX_* variables.
#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/environment.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/config/reading.hpp"

namespace opmux::configuration {
namespace {

namespace fs = std::filesystem;

using yaml::in_quotes;

const std::vector<std::string>& known_variables() {
  static const std::vector<std::string> names{
      "OPMUX_CONFIG",         "OPMUX_ENVIRONMENTS", "OPMUX_MANIFESTS",    "OPMUX_STRICT",
      "OPMUX_PROBE_DEADLINE", "OPMUX_LOG",          "OPMUX_CACHE_DIR",    "OPMUX_THREADS",
      "OPMUX_LOCK",           "OPMUX_TRUST",        "OPMUX_REPORT_SOCKET"};
  return names;
}

Check read_path_list(const char* name, std::vector<fs::path>& paths) {
  const auto value = environment_variable(name);
  if (!value) return std::nullopt;
  paths.clear();
  for (const std::string& part : split(*value, ':')) {
    const auto path = variable_path(part);
    if (!path)
      return bad_variable(name, "folders, separated by colons, none empty or beginning with ~",
                          *value);
    paths.push_back(*path);
  }
  return std::nullopt;
}

}  // namespace

Rejection bad_variable(const char* name, std::string expected, const std::string& found,
                       std::string hint) {
  return reject(rules::kConfigVariableForm, name, std::move(expected), in_quotes(found),
                std::move(hint));
}

std::optional<fs::path> variable_path(const std::string& text) {
  if (text.empty() || text.front() == '~') return std::nullopt;
  std::error_code error;
  const fs::path path = fs::absolute(text, error);
  if (error) return std::nullopt;
  return path.lexically_normal();
}

Check check_variable_names() {
  for (const auto& [name, value] : environment_variables_with_prefix("OPMUX_")) {
    const std::vector<std::string>& known = known_variables();
    if (value.empty()) log::info(name + " is set but empty: it counts as unset");
    if (value.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    return reject(rules::kConfigUnknownVariable, printable(name), "one of " + join(known, ", "),
                  in_quotes(name), yaml::nearest_hint(name, known));
  }
  return std::nullopt;
}

Check apply_variables(Config& config) {
  if (Check bad = read_path_list("OPMUX_ENVIRONMENTS", config.environments)) return bad;
  if (Check bad = read_path_list("OPMUX_MANIFESTS", config.manifests)) return bad;
  if (const auto value = environment_variable("OPMUX_STRICT")) {
    config.strict = *value == "1" || *value == "true";
    if (!config.strict && *value != "0" && *value != "false")
      return bad_variable("OPMUX_STRICT", "one of 0, 1, true, false", *value);
  }
  if (const auto value = environment_variable("OPMUX_PROBE_DEADLINE")) {
    const auto deadline = parse_duration(*value);
    if (!deadline) return bad_variable("OPMUX_PROBE_DEADLINE", kDurationForm, *value);
    config.probe_deadline = *deadline;
  }
  if (const auto value = environment_variable("OPMUX_LOG")) {
    log::Level level{};
    if (!log::parse_level(*value, level))
      return bad_variable("OPMUX_LOG", kLogForm, *value, yaml::nearest_hint(*value, log_levels()));
    config.log_level = *value;
  }
  if (const auto value = environment_variable("OPMUX_CACHE_DIR")) {
    config.cache_folder = variable_path(*value);
    if (!config.cache_folder)
      return bad_variable("OPMUX_CACHE_DIR", "a folder, not beginning with ~", *value);
  }
  if (const auto value = environment_variable("OPMUX_LOCK")) {
    config.lock_file = variable_path(*value);
    if (!config.lock_file)
      return bad_variable("OPMUX_LOCK", "a file, not beginning with ~", *value);
  }
  if (const auto value = environment_variable("OPMUX_TRUST")) {
    const auto trust = parse_trust(*value);
    if (!trust) return bad_variable("OPMUX_TRUST", kTrustForm, *value);
    config.trust = std::max(config.trust, *trust);  // the stricter of the two
  }
  if (const auto value = environment_variable("OPMUX_THREADS")) {
    const auto threads = parse_count(*value, kMostThreads);
    if (!threads)
      return bad_variable("OPMUX_THREADS", "an integer from 0 to " + std::to_string(kMostThreads),
                          *value);
    config.threads = static_cast<int>(*threads);
  }
  if (const auto value = environment_variable("OPMUX_REPORT_SOCKET"); value && *value != "0") {
    config.report_socket = *value == "1" ? fs::path() : variable_path(*value);
    if (!config.report_socket || (*value != "1" && value->find('/') == std::string::npos))
      return bad_variable("OPMUX_REPORT_SOCKET", "1, 0, or a path with a slash in it", *value);
  }
  return std::nullopt;
}

}  // namespace opmux::configuration
