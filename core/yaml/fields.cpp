// SPDX-License-Identifier: Apache-2.0
#include "core/yaml/fields.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "core/base/text.hpp"

namespace opmux::yaml {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// -?(0|[1-9][0-9]*), and what follows it
std::optional<std::size_t> integer_prefix(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == begin || (text[begin] == '0' && at - begin > 1)) return std::nullopt;
  return at;
}

bool is_number_form(std::string_view text) {
  const auto whole = integer_prefix(text);
  if (!whole) return false;
  text.remove_prefix(*whole);
  const auto digits = [&text] {
    const std::size_t before = text.size();
    while (!text.empty() && is_digit(text.front())) text.remove_prefix(1);
    return text.size() < before;
  };
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!digits()) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (!digits()) return false;
  }
  return text.empty();
}

std::string folded(std::string_view text) {
  std::string lower{trim(text)};
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

void wrong_form(const Node& node, std::string_view what, const std::string& form, Errors& errors,
                std::string hint = {}) {
  errors.add(rules::kYamlWrongForm, node.position, std::string{what} + ": " + form, describe(node),
             std::move(hint));
}

bool is_plain(const Node& node) { return node.kind == Kind::kScalar && !node.quoted; }

}  // namespace

void Errors::add(const Rule& rule, Position position, std::string expected, std::string found,
                 std::string hint) {
  add(reject(rule, subject(file_, position), std::move(expected), std::move(found),
             std::move(hint)));
}

void Errors::add(Rejection rejection) {
  ++found_;
  if (rejections_.size() < kCap) rejections_.push_back(std::move(rejection));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  if (text.size() > kLongest) return "`" + printable(text.substr(0, kLongest)) + "…`";
  return "`" + printable(text) + "`";
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing (null)";
    case Kind::kSequence:
      return node.items.empty() ? "an empty list" : "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  return node.quoted ? "the quoted text " + in_quotes(node.text) : in_quotes(node.text);
}

std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates)
    if (folded(candidate) == folded(word)) return "Did you mean " + in_quotes(candidate) + "?";
  const std::string near = nearest(word, candidates);
  return near.empty() ? std::string{} : "Did you mean " + in_quotes(near) + "?";
}

std::optional<bool> as_bool(const Node& node) {
  if (!is_plain(node)) return std::nullopt;
  if (node.text == "true") return true;
  if (node.text == "false") return false;
  return std::nullopt;
}

std::optional<std::int64_t> as_integer(const Node& node) {
  if (!is_plain(node) || integer_prefix(node.text) != node.text.size()) return std::nullopt;
  std::int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [stopped, error] = std::from_chars(node.text.data(), end, value);
  if (error != std::errc{} || stopped != end || node.text == "-0") return std::nullopt;
  return value;
}

std::optional<double> as_number(const Node& node) {
  if (!is_plain(node) || !is_number_form(node.text)) return std::nullopt;
  double value = 0.0;
  const char* end = node.text.data() + node.text.size();
  const auto [stopped, error] = std::from_chars(node.text.data(), end, value);
  if (error != std::errc{} || stopped != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_none(const Node& node) {
  return node.kind == Kind::kNull || (is_plain(node) && node.text == "none");
}

std::optional<std::string> read_text(const Node& node, std::string_view what, Errors& errors) {
  if (node.kind == Kind::kScalar) return node.text;
  wrong_form(node, what, "text", errors,
             node.kind == Kind::kNull ? "Write the text, in quotes if it is a word such as null."
                                      : std::string{});
  return std::nullopt;
}

std::optional<bool> read_bool(const Node& node, std::string_view what, Errors& errors) {
  const auto value = as_bool(node);
  if (!value) wrong_form(node, what, "true or false, without quotes", errors);
  return value;
}

std::optional<std::int64_t> read_integer(const Node& node, std::string_view what, Errors& errors,
                                         std::int64_t low, std::int64_t high) {
  const auto value = as_integer(node);
  if (value && *value >= low && *value <= high) return value;
  std::string form = "an integer in decimal digits, without quotes, leading zeros or exponent";
  const bool bounded_below = low != std::numeric_limits<std::int64_t>::min();
  const bool bounded_above = high != std::numeric_limits<std::int64_t>::max();
  if (bounded_below && bounded_above)
    form += ", from " + std::to_string(low) + " to " + std::to_string(high);
  else if (bounded_below)
    form += ", at least " + std::to_string(low);
  else if (bounded_above)
    form += ", at most " + std::to_string(high);
  wrong_form(node, what, form, errors);
  return std::nullopt;
}

std::optional<double> read_number(const Node& node, std::string_view what, Errors& errors) {
  const auto value = as_number(node);
  if (!value) wrong_form(node, what, "a number such as 2, 0.5 or 1e-6, without quotes", errors);
  return value;
}

std::optional<std::vector<std::string>> read_texts(const Node& node, std::string_view what,
                                                   Errors& errors) {
  std::vector<std::string> values;
  if (node.kind == Kind::kScalar) {
    values.push_back(node.text);
    return values;
  }
  if (node.kind != Kind::kSequence || node.items.empty()) {
    wrong_form(node, what, "a text or a list of texts", errors);
    return std::nullopt;
  }
  bool good = true;
  for (const Node& item : node.items) {
    auto value = read_text(item, what, errors);
    if (value)
      values.push_back(*std::move(value));
    else
      good = false;
  }
  if (!good) return std::nullopt;
  return values;
}

std::optional<std::vector<std::string>> read_words(const Node& node, std::string_view what,
                                                   std::string_view one,
                                                   const std::vector<std::string>& known,
                                                   Errors& errors) {
  if (node.kind != Kind::kSequence) {
    wrong_form(node, what, "a list of " + join(known, ", "), errors);
    return std::nullopt;
  }
  const std::size_t errors_before = errors.size();
  std::vector<std::string> words;
  for (const Node& item : node.items) {
    const auto word = read_text(item, what, errors);
    if (!word) continue;
    if (std::find(known.begin(), known.end(), *word) == known.end())
      wrong_form(item, what, std::string{one} + ", one of " + join(known, ", "), errors,
                 nearest_hint(*word, known));
    else if (std::find(words.begin(), words.end(), *word) != words.end())
      errors.add(rules::kYamlWrongForm, item.position,
                 std::string{what} + ": each of " + join(known, ", ") + " at most once",
                 in_quotes(*word) + " twice");
    else
      words.push_back(*word);
  }
  if (errors.size() != errors_before) return std::nullopt;
  return words;
}

bool is_map(const Node& node, std::string_view what, Errors& errors) {
  if (node.kind == Kind::kMap) return true;
  wrong_form(node, what, "a map", errors);
  return false;
}

MapReader::MapReader(const Node& node, std::string what, std::initializer_list<const char*> known,
                     Errors& errors)
    : MapReader(node, std::move(what), errors) {
  if (!yaml::is_map(node, what_, errors_)) return;
  const std::vector<std::string> keys{known.begin(), known.end()};
  for (const Entry& entry : node.entries) {
    if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
    errors_.add(rules::kYamlUnknownKey, entry.position,
                "a key of " + what_ + ": " + join(keys, ", "), in_quotes(entry.key),
                nearest_hint(entry.key, keys));
  }
}

MapReader::MapReader(const Node& node, std::string what, Errors& errors)
    : node_(node), what_(std::move(what)), errors_(errors) {}

const Node* MapReader::find(std::string_view key) const { return node_.find(key); }

const Node* MapReader::require(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr && is_map())
    errors_.add(rules::kYamlMissingKey, node_.position,
                "the key " + in_quotes(key) + " in " + what_, "no such key");
  return value;
}

std::optional<std::string> MapReader::text(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_text(*value, in_quotes(key), errors_);
}

std::optional<std::string> MapReader::required_text(std::string_view key) const {
  const Node* value = require(key);
  if (value == nullptr) return std::nullopt;
  return read_text(*value, in_quotes(key), errors_);
}

std::optional<bool> MapReader::boolean(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_bool(*value, in_quotes(key), errors_);
}

std::optional<std::int64_t> MapReader::integer(std::string_view key, std::int64_t low,
                                               std::int64_t high) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_integer(*value, in_quotes(key), errors_, low, high);
}

std::optional<double> MapReader::number(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_number(*value, in_quotes(key), errors_);
}

std::optional<std::vector<std::string>> MapReader::texts(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_texts(*value, in_quotes(key), errors_);
}

}  // namespace opmux::yaml
