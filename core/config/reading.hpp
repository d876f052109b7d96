// SPDX-License-Identifier: Apache-2.0
//
// How the parts of the configuration's reader work together; internal to core/config.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/config/config.hpp"
#include "core/yaml/fields.hpp"

namespace opmux::configuration {

inline constexpr int kMostThreads = 4096;
inline constexpr const char* kDurationForm =
    "a duration such as 500ms, 10s or 2m, at most 1h in all";
inline constexpr const char* kTrustForm = "lax or strict";
inline constexpr const char* kLogForm = "one of trace, debug, info, warn, error, off";

const std::vector<std::string>& log_levels();

// ---- values (values.cpp) ----

// Decimal digits without a leading zero, at most `high`.
std::optional<std::int64_t> parse_count(std::string_view text, std::int64_t high);
// A whole number and its unit.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
std::optional<Trust> parse_trust(std::string_view word);
// Nothing when the key is absent, or after an error.
std::optional<std::chrono::milliseconds> read_duration(const yaml::MapReader& map, const char* key,
                                                       yaml::Errors& errors);
// One word of a closed set; `what` names the key.
std::optional<std::string> read_word(const yaml::Node& node, const std::string& what,
                                     const std::vector<std::string>& words, yaml::Errors& errors);

// ---- parts ----

// routes.cpp: the map `routes`, in the order of the file.
std::vector<RouteRule> read_route_rules(const yaml::Node& routes, yaml::Errors& errors);

// variables.cpp
Check check_variable_names();
Check apply_variables(Config& config);
// A path of a variable counts from the folder that the process was started in.
std::optional<std::filesystem::path> variable_path(const std::string& text);
Rejection bad_variable(const char* name, std::string expected, const std::string& found,
                       std::string hint = {});

}  // namespace opmux::configuration
