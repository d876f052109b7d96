// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using schema::TypeKind;
using yaml::describe;
using yaml::in_quotes;
using yaml::Kind;

// Spellings that people use elsewhere, for the hint.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kDtypeAliases{{
    {"f32", "float32"},
    {"fp32", "float32"},
    {"float", "float32"},
    {"f16", "float16"},
    {"fp16", "float16"},
    {"half", "float16"},
    {"bf16", "bfloat16"},
    {"f64", "float64"},
    {"fp64", "float64"},
    {"double", "float64"},
    {"int", "int32"},
    {"long", "int64"},
    {"i32", "int32"},
    {"i64", "int64"},
    {"fp8", "float8_e4m3fn"},
    {"fp8_e4m3", "float8_e4m3fn"},
}};

std::optional<Literal> read_int_list(const Node& node, const schema::Type& type) {
  if (node.kind != Kind::kSequence) return std::nullopt;
  if (type.list_size && *type.list_size != static_cast<std::int64_t>(node.items.size()))
    return std::nullopt;
  std::vector<std::int64_t> values;
  for (const Node& item : node.items) {
    const auto value = yaml::as_integer(item);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return Literal{std::move(values)};
}

std::optional<Literal> literal_of(const Node& node, const schema::Type& type) {
  switch (type.kind) {
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      if (const auto value = yaml::as_integer(node)) return Literal{*value};
      return std::nullopt;
    case TypeKind::kFloat:
      if (const auto value = yaml::as_number(node)) return Literal{*value};
      return std::nullopt;
    case TypeKind::kBool:
      if (const auto value = yaml::as_bool(node)) return Literal{*value};
      return std::nullopt;
    case TypeKind::kScalar:
      if (const auto value = yaml::as_bool(node)) return Literal{*value};
      if (const auto value = yaml::as_integer(node)) return Literal{*value};
      if (const auto value = yaml::as_number(node)) return Literal{*value};
      return std::nullopt;
    case TypeKind::kString:
      if (node.kind == Kind::kScalar) return Literal{node.text};
      return std::nullopt;
    case TypeKind::kList:
      if (is_integer(type.elements.at(0))) return read_int_list(node, type);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string form_of(const schema::Type& type) {
  switch (type.kind) {
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      return "an integer in decimal digits";
    case TypeKind::kFloat:
      return "a number such as 1e-6";
    case TypeKind::kBool:
      return "true or false";
    case TypeKind::kScalar:
      return "a number, true or false";
    case TypeKind::kString:
      return "text";
    case TypeKind::kList:
      if (is_integer(type.elements.at(0)))
        return "a list of " + (type.list_size ? std::to_string(*type.list_size) + " " : "") +
               "integers";
      break;
    default:
      break;
  }
  return "no constant, since none can be written for this type";
}

}  // namespace

SourceLocation location(const Errors& errors, yaml::Position position) {
  return {errors.file(), position.line, position.column};
}

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::optional<VersionRange> read_range(const Node& node, std::string_view what, Errors& errors) {
  const auto text = yaml::read_text(node, what, errors);
  if (!text) return std::nullopt;
  Result<VersionRange> range = VersionRange::parse(*text);
  if (range.ok()) return *std::move(range);
  const Rejection& reason = range.rejection();
  errors.add(rules::kYamlWrongForm, node.position, std::string{what} + ": " + reason.expected,
             reason.found, reason.hint);
  return std::nullopt;
}

std::optional<schema::Schema> read_schema(const Node& node, Errors& errors) {
  const auto text = yaml::read_text(node, "`schema`", errors);
  if (!text) return std::nullopt;
  Result<schema::Schema> parsed = schema::parse(*text);
  if (parsed.ok()) return *std::move(parsed);
  const Rejection& reason = parsed.rejection();
  errors.add(rules::kManifestSchema, node.position,
             "at " + reason.subject + " of the schema: " + reason.expected, reason.found,
             reason.hint);
  return std::nullopt;
}

const std::vector<std::string>& canonical_dtypes() {
  static const std::vector<std::string> names{"float32", "float16", "bfloat16",      "float64",
                                              "int8",    "int16",   "int32",         "int64",
                                              "uint8",   "bool",    "float8_e4m3fn", "float8_e5m2"};
  return names;
}

std::optional<std::string> read_dtype(const Node& node, std::string_view what, bool variable,
                                      Errors& errors) {
  auto text = yaml::read_text(node, what, errors);
  if (!text) return std::nullopt;
  const std::vector<std::string>& names = canonical_dtypes();
  if (std::find(names.begin(), names.end(), *text) != names.end()) return text;
  if (variable && *text == "$dtype") return text;
  std::string hint = yaml::nearest_hint(*text, names);
  for (const auto& [alias, name] : kDtypeAliases)
    if (alias == *text) hint = "Did you mean " + in_quotes(name) + "?";
  errors.add(rules::kYamlWrongForm, node.position,
             std::string{what} + ": one of " + join(names, ", ") + (variable ? ", $dtype" : ""),
             in_quotes(*text), std::move(hint));
  return std::nullopt;
}

std::optional<Properties> read_properties(const Node& node, Errors& errors) {
  const auto names = yaml::read_words(node, "`properties`", "a property", property_names(), errors);
  if (!names) return std::nullopt;
  return properties_of(*names);
}

const schema::Type& plain_type(const schema::Type& type) {
  return type.kind == TypeKind::kOptional ? type.elements.at(0) : type;
}

bool is_integer(const schema::Type& type) {
  return type.kind == TypeKind::kInt || type.kind == TypeKind::kSymInt;
}

std::optional<Literal> read_literal(const Node& node, const schema::Type& type,
                                    std::string_view what, const Rule& rule, Errors& errors) {
  const bool optional = schema::is_optional(type);
  const schema::Type& plain = plain_type(type);
  // A quoted "none" stays text.
  if (optional && yaml::is_none(node)) return Literal{NoneLiteral{}};
  if (auto literal = literal_of(node, plain)) return literal;
  errors.add(rule, node.position,
             std::string{what} + " of type " + schema::to_string(type) + ": " + form_of(plain) +
                 (optional ? ", or none" : ""),
             describe(node));
  return std::nullopt;
}

std::optional<Literal> default_literal(const schema::Argument& argument) {
  if (!argument.default_value) return std::nullopt;
  const schema::Type& type = plain_type(argument.type);
  const auto& value = argument.default_value->value;
  const auto integer_of = [](const schema::DefaultValue& item) -> std::optional<std::int64_t> {
    if (const auto* integer = std::get_if<std::int64_t>(&item.value)) return *integer;
    return std::nullopt;
  };
  if (std::holds_alternative<schema::NoneValue>(value)) return Literal{NoneLiteral{}};
  if (const auto* boolean = std::get_if<bool>(&value)) return Literal{*boolean};
  if (const auto* real = std::get_if<double>(&value)) return Literal{*real};
  if (const auto* text = std::get_if<std::string>(&value)) return Literal{*text};
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    if (type.kind == TypeKind::kFloat) return Literal{static_cast<double>(*integer)};
    if (type.kind == TypeKind::kBool) return Literal{*integer != 0};
    // `int[2] stride=1` stands for [1, 1].
    if (type.kind == TypeKind::kList && type.list_size && *type.list_size >= 0 &&
        *type.list_size <= 64)
      return Literal{
          std::vector<std::int64_t>(static_cast<std::size_t>(*type.list_size), *integer)};
    if (type.kind == TypeKind::kList) return std::nullopt;
    return Literal{*integer};
  }
  if (const auto* list = std::get_if<schema::DefaultList>(&value)) {
    if (type.kind != TypeKind::kList || !is_integer(type.elements.at(0))) return std::nullopt;
    std::vector<std::int64_t> integers;
    for (const schema::DefaultValue& item : *list) {
      const auto integer = integer_of(item);
      if (!integer) return std::nullopt;
      integers.push_back(*integer);
    }
    return Literal{std::move(integers)};
  }
  return std::nullopt;
}

int find_argument(const schema::Schema& schema, std::string_view name) {
  for (std::size_t i = 0; i < schema.arguments.size(); ++i)
    if (schema.arguments[i].name == name) return static_cast<int>(i);
  return -1;
}

std::vector<std::string> argument_names(const schema::Schema& schema) {
  std::vector<std::string> names;
  for (const schema::Argument& argument : schema.arguments) names.push_back(argument.name);
  return names;
}

int read_argument_name(const Node& node, const std::string& what, const schema::Schema& schema,
                       Errors& errors) {
  const auto name = yaml::read_text(node, what, errors);
  if (!name) return -1;
  const int index = find_argument(schema, *name);
  if (index < 0) {
    const bool constant = yaml::as_number(node) || yaml::as_bool(node);
    errors.add(rules::kManifestReference, node.position,
               what + ": an argument of " + in_quotes(schema.qualified_name()) + ": " +
                   join(argument_names(schema), ", "),
               in_quotes(*name),
               constant ? "Write a constant as {value: " + *name + "}."
                        : yaml::nearest_hint(*name, argument_names(schema)));
  }
  return index;
}

bool has_condition(const Alternative& alternative, int argument, ConditionKind kind) {
  return std::any_of(alternative.when.begin(), alternative.when.end(),
                     [&](const Condition& condition) {
                       return condition.argument == argument && condition.kind == kind;
                     });
}

}  // namespace opmux::reading
