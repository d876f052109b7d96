// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.hpp"
#include "core/schema/schema.hpp"

namespace opmux::schema {
namespace {

bool same_type(const Type& left, const Type& right) {
  if (left.kind != right.kind || left.list_size != right.list_size ||
      left.elements.size() != right.elements.size())
    return false;
  for (std::size_t i = 0; i < left.elements.size(); ++i)
    if (!same_type(left.elements[i], right.elements[i])) return false;
  return true;
}

// ---- defaults ----

// The number that torch keeps, and prints, for a default written as a name.
std::optional<std::int64_t> code_of_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::int64_t> kCodes[] = {
      {"uint8", 0},
      {"int8", 1},
      {"int16", 2},
      {"int32", 3},
      {"int64", 4},
      {"long", 4},
      {"float16", 5},
      {"float32", 6},
      {"float", 6},
      {"float64", 7},
      {"complex32", 8},
      {"complex64", 9},
      {"complex", 9},
      {"complex128", 10},
      {"bool", 11},
      {"bfloat16", 15},
      {"float8_e5m2", 23},
      {"float8_e4m3fn", 24},
      {"float8_e5m2fnuz", 25},
      {"float8_e4m3fnuz", 26},
      {"strided", 0},
      {"contiguous_format", 0},
      {"Mean", 1},
  };
  for (const auto& [known, code] : kCodes)
    if (known == name) return code;
  return std::nullopt;
}

std::optional<std::int64_t> integer_of(const DefaultValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) return *integer;
  if (const auto* named = std::get_if<NamedValue>(&value.value)) return code_of_name(named->name);
  return std::nullopt;
}

std::optional<double> real_of(const DefaultValue& value) {
  if (const auto* real = std::get_if<double>(&value.value)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&value.value))
    return static_cast<double>(*integer);
  return std::nullopt;
}

bool same_value(const DefaultValue& left, const DefaultValue& right) {
  if (const auto* names = std::get_if<NamedValue>(&left.value))
    if (const auto* other = std::get_if<NamedValue>(&right.value))
      if (names->name == other->name) return true;
  if (const auto l = integer_of(left), r = integer_of(right); l && r) return *l == *r;
  if (const auto l = real_of(left), r = real_of(right); l && r)
    return *l == *r || (std::isnan(*l) && std::isnan(*r));
  if (left.value.index() != right.value.index()) return false;
  if (const auto* list = std::get_if<DefaultList>(&left.value)) {
    const auto& other = std::get<DefaultList>(right.value);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), same_value);
  }
  if (const auto* text = std::get_if<std::string>(&left.value))
    return *text == std::get<std::string>(right.value);
  if (const auto* truth = std::get_if<bool>(&left.value))
    return *truth == std::get<bool>(right.value);
  return std::holds_alternative<NoneValue>(left.value);
}

// One value for a list of a fixed size stands for that many, as torch reads it. The cap keeps an
// absurd size in the text from becoming memory.
DefaultValue spread(const Type& type, const DefaultValue& value) {
  constexpr std::int64_t kMaximumSpread = 64;
  const Type& list =
      type.kind == TypeKind::kOptional && !type.elements.empty() ? type.elements[0] : type;
  const bool is_scalar = !std::holds_alternative<DefaultList>(value.value) &&
                         !std::holds_alternative<NoneValue>(value.value);
  if (list.kind != TypeKind::kList || !list.list_size || *list.list_size > kMaximumSpread ||
      !is_scalar)
    return value;
  DefaultValue spread_value;
  spread_value.value = DefaultList(static_cast<std::size_t>(*list.list_size), value);
  return spread_value;
}

bool same_default(const Argument& left, const Argument& right) {
  if (!left.default_value || !right.default_value)
    return !left.default_value && !right.default_value;
  return same_value(spread(left.type, *left.default_value),
                    spread(right.type, *right.default_value));
}

std::string describe_default(const Argument& argument) {
  return argument.default_value ? "default " + to_string(*argument.default_value) : "no default";
}

// ---- aliases ----

std::set<std::string> labels_of(const Argument& argument) {
  std::set<std::string> labels;
  if (argument.alias) {
    labels.insert(argument.alias->labels.begin(), argument.alias->labels.end());
    labels.insert(argument.alias->after.begin(), argument.alias->after.end());
  }
  return labels;
}

// The indices of the arguments whose memory a return may share, and whether it may share any.
struct Aliased {
  std::vector<std::size_t> arguments;
  bool anything = false;

  bool operator==(const Aliased&) const = default;
};

Aliased aliased_by(const Schema& schema, const Argument& value) {
  const std::set<std::string> labels = labels_of(value);
  Aliased aliased;
  aliased.anything = labels.count("*") != 0;
  for (std::size_t i = 0; i < schema.arguments.size(); ++i)
    for (const std::string& label : labels_of(schema.arguments[i]))
      if (label != "*" && labels.count(label) != 0) {
        aliased.arguments.push_back(i);
        break;
      }
  return aliased;
}

std::string describe(const Schema& schema, const Aliased& aliased) {
  if (aliased.anything) return "an alias of anything";
  if (aliased.arguments.empty()) return "a new value";
  std::vector<std::string> names;
  for (const std::size_t i : aliased.arguments)
    names.push_back("argument " + std::to_string(i + 1) + " `" + schema.arguments[i].name + "`");
  return "an alias of " + join(names, " and ");
}

// ---- arguments ----

std::string count(std::size_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

const char* describe_written(const Argument& argument) {
  return is_written(argument) ? "written (!)" : "read-only";
}

class Comparison {
 public:
  Comparison(const Schema& expected, const Schema& found) : expected_(expected), found_(found) {}

  std::string run() {
    if (expected_.qualified_name() != found_.qualified_name())
      add("name", expected_.qualified_name(), found_.qualified_name());
    if (expected_.arguments.size() == found_.arguments.size()) {
      for (std::size_t i = 0; i < expected_.arguments.size(); ++i) compare_argument(i, i);
    } else {
      differences_.push_back("expected " + count(expected_.arguments.size(), "argument") +
                             ", found " + std::to_string(found_.arguments.size()));
      compare_by_name();
    }
    if (expected_.is_variadic != found_.is_variadic)
      add("arguments", expected_.is_variadic ? "`...` at the end" : "no `...`",
          found_.is_variadic ? "`...`" : "none");
    compare_returns();
    return join(differences_, "; ");
  }

 private:
  void add(const std::string& where, const std::string& expected, const std::string& found) {
    differences_.push_back(where + ": expected " + expected + ", found " + found);
  }

  static std::string place(std::size_t index, const Argument& argument) {
    return "argument " + std::to_string(index + 1) + " `" + argument.name + "`";
  }

  void compare_argument(std::size_t expected_index, std::size_t found_index) {
    const Argument& expected = expected_.arguments[expected_index];
    const Argument& found = found_.arguments[found_index];
    const std::string where = place(expected_index, expected);
    if (expected.name != found.name)
      add(where, "name `" + expected.name + "`", "`" + found.name + "`");
    compare_type_and_mark(where, expected, found);
    if (expected.keyword_only != found.keyword_only)
      add(where, expected.keyword_only ? "keyword-only" : "positional",
          found.keyword_only ? "keyword-only" : "positional");
    if (!same_default(expected, found))
      add(where, describe_default(expected), describe_default(found));
  }

  void compare_type_and_mark(const std::string& where, const Argument& expected,
                             const Argument& found) {
    if (!same_type(expected.type, found.type))
      add(where, to_string(expected.type), to_string(found.type));
    if (is_written(expected) != is_written(found))
      add(where, describe_written(expected), describe_written(found));
  }

  // With different counts the names tell which argument is missing or surplus: the longest common
  // subsequence of names is compared pair by pair, the rest is named.
  void compare_by_name() {
    const auto& left = expected_.arguments;
    const auto& right = found_.arguments;
    const std::size_t width = right.size() + 1;
    std::vector<std::uint32_t> common((left.size() + 1) * width, 0);
    for (std::size_t i = left.size(); i-- > 0;)
      for (std::size_t j = right.size(); j-- > 0;)
        common[i * width + j] =
            left[i].name == right[j].name
                ? common[(i + 1) * width + j + 1] + 1
                : std::max(common[(i + 1) * width + j], common[i * width + j + 1]);

    std::size_t i = 0;
    std::size_t j = 0;
    while (i < left.size() || j < right.size()) {
      if (i < left.size() && j < right.size() && left[i].name == right[j].name) {
        compare_argument(i++, j++);
      } else if (j == right.size() ||
                 (i < left.size() && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
        differences_.push_back(place(i, left[i]) + " is missing");
        ++i;
      } else {
        differences_.push_back(place(j, right[j]) + " is surplus");
        ++j;
      }
    }
  }

  void compare_returns() {
    if (expected_.has_variadic_returns != found_.has_variadic_returns)
      add("returns", expected_.has_variadic_returns ? "`...` at the end" : "no `...`",
          found_.has_variadic_returns ? "`...`" : "none");
    if (expected_.returns.size() != found_.returns.size()) {
      differences_.push_back("expected " + count(expected_.returns.size(), "return") + ", found " +
                             std::to_string(found_.returns.size()));
      return;
    }
    for (std::size_t i = 0; i < expected_.returns.size(); ++i) {
      const Argument& expected = expected_.returns[i];
      const Argument& found = found_.returns[i];
      std::string where = "return " + std::to_string(i + 1);
      if (!expected.name.empty()) where += " `" + expected.name + "`";
      if (is_given(expected.name) && is_given(found.name) && expected.name != found.name)
        add(where, "name `" + expected.name + "`", "`" + found.name + "`");
      compare_type_and_mark(where, expected, found);
      const Aliased left = aliased_by(expected_, expected);
      const Aliased right = aliased_by(found_, found);
      if (left != right) add(where, describe(expected_, left), describe(found_, right));
    }
  }

  // torch calls the returns of a schema that it inferred from C++ `_0`, `_1`, ...
  static bool is_given(const std::string& name) {
    return !name.empty() &&
           (name[0] != '_' || name.find_first_not_of("0123456789", 1) != std::string::npos);
  }

  const Schema& expected_;
  const Schema& found_;
  std::vector<std::string> differences_;
};

}  // namespace

std::string difference(const Schema& expected, const Schema& found) {
  return Comparison(expected, found).run();
}

bool is_optional(const Type& type) { return type.kind == TypeKind::kOptional; }

bool is_tensor(const Type& type) {
  if (is_optional(type)) return !type.elements.empty() && is_tensor(type.elements[0]);
  return type.kind == TypeKind::kTensor;
}

bool is_written(const Argument& argument) { return argument.alias && argument.alias->is_write; }

}  // namespace opmux::schema
