// SPDX-License-Identifier: Apache-2.0
#include "plugins/direct_symbol/signature.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

namespace opmux::direct_symbol {
namespace {

constexpr int kMaximumDepth = 16;

struct KindName {
  ValueKind kind;
  std::string_view name;  // canonical, as the reader below writes types
};

constexpr std::array kKinds = {
    KindName{ValueKind::kTensor, "at::Tensor"},
    KindName{ValueKind::kOptionalTensor, "std::optional<at::Tensor>"},
    KindName{ValueKind::kOptionalConstTensor, "std::optional<at::Tensor const>"},
    KindName{ValueKind::kBool, "bool"},
    KindName{ValueKind::kChar, "char"},
    KindName{ValueKind::kSignedChar, "signed char"},
    KindName{ValueKind::kUnsignedChar, "unsigned char"},
    KindName{ValueKind::kShort, "short"},
    KindName{ValueKind::kUnsignedShort, "unsigned short"},
    KindName{ValueKind::kInt, "int"},
    KindName{ValueKind::kUnsignedInt, "unsigned int"},
    KindName{ValueKind::kLong, "long"},
    KindName{ValueKind::kUnsignedLong, "unsigned long"},
    KindName{ValueKind::kLongLong, "long long"},
    KindName{ValueKind::kUnsignedLongLong, "unsigned long long"},
    KindName{ValueKind::kFloat, "float"},
    KindName{ValueKind::kDouble, "double"},
    KindName{ValueKind::kOptionalBool, "std::optional<bool>"},
    KindName{ValueKind::kOptionalInt, "std::optional<int>"},
    KindName{ValueKind::kOptionalLong, "std::optional<long>"},
    KindName{ValueKind::kOptionalDouble, "std::optional<double>"},
    KindName{ValueKind::kLongArray, "c10::ArrayRef<long>"},
    KindName{ValueKind::kLongVector, "std::vector<long>"},
    KindName{ValueKind::kString, "std::__cxx11::basic_string<char>"},
    KindName{ValueKind::kOptionalGenerator, "std::optional<at::Generator>"},
};

constexpr std::string_view kSupported =
    "by value or const&: at::Tensor, std::optional<at::Tensor>, bool, the integer types, float, "
    "double, std::optional of bool, int, long and double, c10::ArrayRef<long>, std::vector<long>, "
    "std::string of the new ABI, std::optional<at::Generator>; by &: at::Tensor, "
    "std::optional<at::Tensor>";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// A type in canonical form, its outermost const and reference apart.
struct Type {
  std::string name;
  bool is_const = false;
  bool is_reference = false;
};

// Reads types of names, template arguments, const and &, which is all that can be supported.
class TypeReader {
 public:
  explicit TypeReader(std::string_view text) : text_(text) {}

  // Nothing when the text is more, or something else, than such a type.
  std::optional<Type> read() {
    std::optional<Type> type = read_type(0);
    skip_spaces();
    if (type && take("&")) {
      type->is_reference = true;
    }
    skip_spaces();
    return at_ == text_.size() ? type : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  bool take(std::string_view token) {
    if (text_.substr(at_).starts_with(token)) {
      at_ += token.size();
      return true;
    }
    return false;
  }

  std::string_view read_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // "a::b<c, d>::e", or words in a row such as "unsigned long"; const may stand on either side.
  std::optional<Type> read_type(int depth) {
    if (depth > kMaximumDepth) return std::nullopt;
    Type type;
    while (true) {
      skip_spaces();
      const std::string_view word = read_word();
      if (word.empty()) break;
      if (word == "const") {
        if (std::exchange(type.is_const, true)) return std::nullopt;
        continue;
      }
      if (!type.name.empty()) type.name += ' ';
      type.name += word;
      if (!read_rest_of_name(type.name, depth)) return std::nullopt;
    }
    if (type.name.empty()) return std::nullopt;
    return type;
  }

  // The template arguments and `::name` that follow a word.
  bool read_rest_of_name(std::string& name, int depth) {
    while (true) {
      skip_spaces();
      if (take("::")) {
        skip_spaces();
        const std::string_view word = read_word();
        if (word.empty()) return false;
        name += "::";
        name += word;
      } else if (take("<")) {
        if (!read_arguments(name, depth)) return false;
      } else {
        return true;
      }
    }
  }

  bool read_arguments(std::string& name, int depth) {
    std::vector<std::string> arguments;
    do {
      const std::optional<Type> argument = read_type(depth + 1);
      if (!argument) return false;
      arguments.push_back(argument->name + (argument->is_const ? " const" : ""));
      skip_spaces();
    } while (take(","));
    if (!take(">")) return false;
    drop_defaults(name, arguments);
    name += '<';
    for (std::size_t at = 0; at < arguments.size(); ++at) {
      name += (at == 0 ? "" : ", ") + arguments[at];
    }
    name += '>';
    return true;
  }

  static void drop_defaults(const std::string& name, std::vector<std::string>& arguments) {
    const auto drop = [&](const std::string& argument) {
      if (arguments.size() > 1 && arguments.back() == argument) arguments.pop_back();
    };
    if (name == "std::vector" || name == "std::__cxx11::basic_string") {
      drop("std::allocator<" + arguments.front() + ">");
    }
    if (name == "std::__cxx11::basic_string") {
      drop("std::char_traits<" + arguments.front() + ">");
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::optional<ValueKind> kind_of(const std::string& name) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const KindName& known) { return known.name == name; });
  return found == kKinds.end() ? std::nullopt : std::optional(found->kind);
}

std::string_view name_of(ValueKind kind) {
  return std::find_if(kKinds.begin(), kKinds.end(),
                      [&](const KindName& known) { return known.kind == kind; })
      ->name;
}

bool takes_reference(ValueKind kind) {
  return kind == ValueKind::kTensor || kind == ValueKind::kOptionalTensor ||
         kind == ValueKind::kOptionalConstTensor;
}

bool is_scalar(ValueKind kind) { return kind >= ValueKind::kBool && kind <= ValueKind::kDouble; }

std::optional<Parameter> parameter_of(std::string_view text) {
  const std::optional<Type> type = TypeReader(text).read();
  const auto kind = type ? kind_of(type->name) : std::nullopt;
  if (!kind) return std::nullopt;
  if (!type->is_reference) {
    // A const on a value is no part of a symbol; it stands only where somebody wrote it.
    return Parameter{*kind, Passing::kValue};
  }
  if (type->is_const) return Parameter{*kind, Passing::kConstReference};
  if (!takes_reference(*kind)) return std::nullopt;
  return Parameter{*kind, Passing::kReference};
}

// A more telling reason than the list of what is supported, where the type is a near miss.
std::string_view reason_for(std::string_view type) {
  const std::string_view bare = trimmed(type.substr(0, type.find_last_not_of("& ") + 1));
  if (bare.starts_with("std::string") || bare.starts_with("std::basic_string<char")) {
    return "the std::string of the old ABI, which no torch of this module takes; ";
  }
  if (bare.starts_with("c10::optional<")) {
    return "c10::optional, which torch has no more; ";
  }
  if (bare == "...") return "a variadic function cannot be called by its symbol alone; ";
  return {};
}

// The position of the parenthesis that opens the group which the last character closes.
std::optional<std::size_t> opening_of_last_group(std::string_view text) {
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at;
  }
  return std::nullopt;
}

// At commas outside of any bracket. Nothing when the brackets do not match.
std::optional<std::vector<std::string_view>> split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::string closing;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<') closing += '>';
    if (c == '(') closing += ')';
    if (c == '[') closing += ']';
    if (c == '>' || c == ')' || c == ']') {
      if (closing.empty() || closing.back() != c) return std::nullopt;
      closing.pop_back();
    }
    if (c == ',' && closing.empty()) {
      parts.push_back(trimmed(text.substr(begin, at - begin)));
      begin = at + 1;
    }
  }
  if (!closing.empty()) return std::nullopt;
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

bool refuse(std::string& why, std::string text) {
  why = std::move(text);
  return false;
}

}  // namespace

bool parse_signature(std::string_view text, Signature& result, std::string& why) {
  result = {};
  text = trimmed(text);
  if (text.size() > kMaximumLength) {
    return refuse(
        why, "the symbol's name is longer than " + std::to_string(kMaximumLength) + " characters");
  }
  const auto opening =
      text.ends_with(')') ? opening_of_last_group(text) : std::optional<std::size_t>();
  const std::string_view name = opening ? trimmed(text.substr(0, *opening)) : std::string_view();
  if (name.empty()) {
    return refuse(why, "`" + std::string(text) +
                           "`: expected a function's demangled name, name(types), with nothing "
                           "after its parameters");
  }
  const std::string_view inside = trimmed(text.substr(*opening + 1, text.size() - *opening - 2));
  result.name = name;
  if (inside.empty()) return true;
  const auto parts = split(inside);
  if (!parts) {
    return refuse(why, "`" + std::string(text) + "`: the parameters' brackets do not match");
  }
  if (parts->size() > kMaximumParameters) {
    return refuse(why, "expected at most " + std::to_string(kMaximumParameters) +
                           " parameters, found " + std::to_string(parts->size()));
  }
  for (std::size_t at = 0; at < parts->size(); ++at) {
    const auto parameter = parameter_of((*parts)[at]);
    if (!parameter) {
      return refuse(why, "parameter " + std::to_string(at) + " `" + std::string((*parts)[at]) +
                             "`: " + std::string(reason_for((*parts)[at])) + "supported are, " +
                             std::string(kSupported));
    }
    result.parameters.push_back(*parameter);
  }
  return true;
}

bool parse_return(std::string_view text, Return& result, std::string& why) {
  result = {};
  const std::optional<Type> type =
      text.size() > kMaximumLength ? std::nullopt : TypeReader(text).read();
  if (type && !type->is_reference) {
    if (type->name == "void" && !type->is_const) return true;
    const auto kind = kind_of(type->name);
    if (kind == ValueKind::kTensor) {
      result.kind = ReturnKind::kTensor;
      return true;
    }
    if (kind && is_scalar(*kind)) {
      result.kind = ReturnKind::kScalar;
      result.scalar = *kind;
      return true;
    }
    if (type->name == "std::vector<at::Tensor>") {
      result.kind = ReturnKind::kTensorList;
      return true;
    }
    std::string tuple = "std::tuple<at::Tensor";
    for (std::size_t tensors = 2; tensors <= 4; ++tensors) {
      tuple += ", at::Tensor";
      if (type->name == tuple + ">") {
        result.kind = ReturnKind::kTensorTuple;
        result.tensors = tensors;
        return true;
      }
    }
  }
  return refuse(why, "returns `" + std::string(text.substr(0, 200)) +
                         "`: supported are void, at::Tensor, std::vector<at::Tensor>, std::tuple "
                         "of 2 to 4 at::Tensor, bool, the integer types, float and double");
}

std::string to_string(const Parameter& parameter) {
  std::string text(name_of(parameter.kind));
  if (parameter.passing == Passing::kConstReference) text += " const";
  if (parameter.passing != Passing::kValue) text += '&';
  return text;
}

std::string to_string(const Signature& signature) {
  std::string text = signature.name + '(';
  for (std::size_t at = 0; at < signature.parameters.size(); ++at) {
    text += (at == 0 ? "" : ", ") + to_string(signature.parameters[at]);
  }
  return text + ')';
}

}  // namespace opmux::direct_symbol
