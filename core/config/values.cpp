// SPDX-License-Identifier: Apache-2.0
//
// Values that the file and the variables share.
#include <algorithm>

#include "core/base/text.hpp"
#include "core/config/reading.hpp"

namespace opmux::configuration {

const std::vector<std::string>& log_levels() {
  static const std::vector<std::string> names{"trace", "debug", "info", "warn", "error", "off"};
  return names;
}

std::optional<std::int64_t> parse_count(std::string_view text, std::int64_t high) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text.front() == '0'))
    return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  if (value > high) return std::nullopt;
  return value;
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::int64_t kLongest = 3600000;
  std::int64_t unit = 0;
  if (text.ends_with("ms")) {
    unit = 1;
    text.remove_suffix(2);
  } else if (text.ends_with('s') || text.ends_with('m')) {
    unit = text.back() == 's' ? 1000 : 60000;
    text.remove_suffix(1);
  } else {
    return std::nullopt;
  }
  const auto count = parse_count(text, kLongest / unit);
  if (!count || *count == 0) return std::nullopt;
  return std::chrono::milliseconds{*count * unit};
}

std::optional<std::chrono::milliseconds> read_duration(const yaml::MapReader& map, const char* key,
                                                       yaml::Errors& errors) {
  const auto text = map.text(key);
  if (!text) return std::nullopt;
  const auto duration = parse_duration(*text);
  if (!duration)
    errors.add(rules::kYamlWrongForm, map.find(key)->position,
               yaml::in_quotes(key) + ": " + kDurationForm, yaml::describe(*map.find(key)));
  return duration;
}

std::optional<std::string> read_word(const yaml::Node& node, const std::string& what,
                                     const std::vector<std::string>& words, yaml::Errors& errors) {
  auto word = yaml::read_text(node, what, errors);
  if (!word || std::find(words.begin(), words.end(), *word) != words.end()) return word;
  errors.add(rules::kYamlWrongForm, node.position, what + ": one of " + join(words, ", "),
             yaml::describe(node), yaml::nearest_hint(*word, words));
  return std::nullopt;
}

std::optional<Trust> parse_trust(std::string_view word) {
  if (word == "lax") return Trust::kLax;
  if (word == "strict") return Trust::kStrict;
  return std::nullopt;
}

}  // namespace opmux::configuration
