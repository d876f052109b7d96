// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "core/schema/schema.hpp"
#include "core/schema/type_names.hpp"

namespace opmux::schema {
namespace {

std::string print_labels(const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) {
    if (!text.empty()) text += '|';
    text += label;
  }
  return text;
}

std::string print_mark(const AliasInfo& alias) {
  // A set that held only torch's own numbers before the call has no label of its own.
  if (alias.labels.empty() && alias.after.empty()) return alias.is_write ? "!" : "";
  std::string text = "(" + (alias.labels.empty() ? "$0" : print_labels(alias.labels));
  if (alias.is_write) text += '!';
  if (!alias.after.empty()) text += " -> " + print_labels(alias.after);
  return text + ")";
}

// The mark stands behind the innermost type, before `[]` and `?`.
std::string print_type(const Type& type, const std::string& mark) {
  switch (type.kind) {
    case TypeKind::kList: {
      const std::string element = type.elements.empty() ? "" : print_type(type.elements[0], mark);
      return element + "[" + (type.list_size ? std::to_string(*type.list_size) : "") + "]";
    }
    case TypeKind::kOptional:
      return (type.elements.empty() ? "" : print_type(type.elements[0], mark)) + "?";
    case TypeKind::kTuple: {
      std::string text = "(";
      for (const Type& element : type.elements) {
        if (text.size() > 1) text += ", ";
        text += print_type(element, "");
      }
      return text + ")" + mark;
    }
    default:
      for (const auto& [kind, name] : kTypeNames)
        if (kind == type.kind) return std::string(name) + mark;
      return mark;
  }
}

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  // Stays a real number when read again.
  if (text.find_first_of(".e") == std::string::npos) text += '.';
  return text;
}

std::string print_string(const std::string& value) {
  constexpr std::string_view kPlain = "\\\"\a\b\f\n\r\t\v";
  constexpr std::string_view kEscapes = "\\\"abfnrtv";
  std::string text = "\"";
  for (const char c : value) {
    const auto escape = kPlain.find(c);
    const auto code = static_cast<unsigned char>(c);
    if (escape != std::string_view::npos) {
      text += '\\';
      text += kEscapes[escape];
    } else if (code < 0x20 || code >= 0x7f) {
      text += '\\';
      for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + ((code >> shift) & 7));
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string print_argument(const Argument& argument) {
  std::string text =
      print_type(argument.type, argument.alias ? print_mark(*argument.alias) : std::string());
  if (!argument.name.empty()) text += " " + argument.name;
  if (argument.default_value) text += "=" + to_string(*argument.default_value);
  return text;
}

struct DefaultPrinter {
  std::string operator()(const NoneValue&) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return print_real(value); }
  std::string operator()(const std::string& value) const { return print_string(value); }
  std::string operator()(const NamedValue& value) const { return value.name; }
  std::string operator()(const DefaultList& value) const {
    std::string text = "[";
    for (const DefaultValue& element : value) {
      if (text.size() > 1) text += ", ";
      text += to_string(element);
    }
    return text + "]";
  }
};

}  // namespace

std::string Schema::qualified_name() const {
  std::string text = name_space.empty() ? name : name_space + "::" + name;
  if (!overload.empty()) text += "." + overload;
  return text;
}

std::string to_string(const Type& type) { return print_type(type, ""); }

std::string to_string(const DefaultValue& value) {
  return std::visit(DefaultPrinter{}, value.value);
}

std::string to_string(const Schema& schema) {
  std::string text = schema.qualified_name() + "(";
  bool first = true;
  const auto separate = [&] {
    if (!first) text += ", ";
    first = false;
  };
  bool keyword_only = false;
  for (const Argument& argument : schema.arguments) {
    separate();
    if (argument.keyword_only && !keyword_only) text += "*, ";
    keyword_only = keyword_only || argument.keyword_only;
    text += print_argument(argument);
  }
  if (schema.is_variadic) {
    separate();
    text += "...";
  }
  text += ") -> ";

  std::string returns;
  for (const Argument& value : schema.returns) {
    if (!returns.empty()) returns += ", ";
    returns += print_argument(value);
  }
  if (schema.has_variadic_returns) returns += returns.empty() ? "..." : ", ...";
  const bool alone = schema.returns.size() == 1 && !schema.has_variadic_returns;
  if (alone && returns.front() != '(') return text + returns;
  return text + "(" + returns + ")";
}

}  // namespace opmux::schema
