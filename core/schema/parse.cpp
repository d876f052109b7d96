// SPDX-License-Identifier: Apache-2.0
//
// A recursive descent over the text itself. Every function returns false after the first fault,
// which is kept in `fault_`; nesting is counted, so that no input can exhaust the stack.
#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/schema/schema.hpp"
#include "core/schema/type_names.hpp"

namespace opmux::schema {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void add_label(std::vector<std::string>& labels, std::string label) {
  if (std::find(labels.begin(), labels.end(), label) == labels.end())
    labels.push_back(std::move(label));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Schema> run() {
    Schema schema;
    if (text_.size() > kMaximumLength)
      fail_at(0, "at most " + std::to_string(kMaximumLength) + " bytes",
              std::to_string(text_.size()) + " bytes");
    else if (operator_name(schema) && arguments(schema) && returns(schema)) {
      skip_blanks();
      if (position_ != text_.size()) fail("the end of the schema");
    }
    if (fault_) return std::move(*fault_);
    return schema;
  }

 private:
  // ---- characters ----

  void skip_blanks() {
    while (position_ < text_.size() && is_blank(text_[position_])) ++position_;
  }
  char current() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  bool starts_with(std::string_view word) const {
    return text_.substr(position_, word.size()) == word;
  }

  // Skips blanks, then takes `word` when it stands there.
  bool take(std::string_view word) {
    skip_blanks();
    if (!starts_with(word)) return false;
    position_ += word.size();
    return true;
  }
  bool expect(std::string_view word, const char* what) { return take(word) || fail(what); }

  std::string_view take_identifier() {
    skip_blanks();
    const std::size_t begin = position_;
    if (is_letter(current()))
      while (is_letter(current()) || is_digit(current())) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  // ---- faults ----

  // What stands at the current place: a word, one character, or the end.
  std::string here() const {
    if (position_ >= text_.size()) return "the end";
    constexpr std::size_t kShown = 32;
    std::size_t end = position_;
    while (end < text_.size() && end - position_ < kShown &&
           (is_letter(text_[end]) || is_digit(text_[end])))
      ++end;
    if (end == position_) ++end;
    return "`" + printable(text_.substr(position_, end - position_)) + "`";
  }
  bool fail(std::string expected) {
    skip_blanks();
    return fail_at(position_, std::move(expected), here());
  }
  bool fail_at(std::size_t position, std::string expected, std::string found) {
    if (!fault_)
      fault_ = reject(rules::kManifestSchema, "column " + std::to_string(position + 1),
                      std::move(expected), std::move(found));
    return false;
  }

  // ---- grammar ----

  bool operator_name(Schema& schema) {
    std::string_view word = take_identifier();
    if (word.empty()) return fail("an operator's name");
    while (starts_with("::")) {
      position_ += 2;
      if (!schema.name_space.empty()) schema.name_space += "::";
      schema.name_space += word;
      word = take_identifier();
      if (word.empty()) return fail("an operator's name after `::`");
    }
    schema.name = word;
    if (current() == '.') {
      ++position_;
      word = take_identifier();
      if (word.empty()) return fail("an overload's name after `.`");
      schema.overload = word;
    }
    return true;
  }

  bool arguments(Schema& schema) {
    if (!expect("(", "`(`")) return false;
    if (take(")")) return true;
    bool keyword_only = false;
    while (true) {
      if (take("...")) {
        schema.is_variadic = true;
        return expect(")", "`)` after `...`");
      }
      if (!keyword_only && take("*")) {
        keyword_only = true;
      } else {
        if (schema.arguments.size() == kMaximumArguments)
          return fail("at most " + std::to_string(kMaximumArguments) + " arguments");
        Argument argument;
        argument.keyword_only = keyword_only;
        if (!type_and_mark(argument)) return false;
        argument.name = take_identifier();
        if (argument.name.empty()) return fail("an argument's name");
        if (take("=")) {
          argument.default_value.emplace();
          if (!default_value(*argument.default_value, base_kind(argument.type), 0)) return false;
        }
        schema.arguments.push_back(std::move(argument));
      }
      if (take(")")) return true;
      if (!expect(",", "`,` or `)`")) return false;
    }
  }

  bool returns(Schema& schema) {
    if (!expect("->", "`->`")) return false;
    if (take("...")) {
      schema.has_variadic_returns = true;
      return true;
    }
    if (!take("(")) return one_return(schema);
    if (take(")")) return true;
    while (true) {
      if (take("...")) {
        schema.has_variadic_returns = true;
        return expect(")", "`)` after `...`");
      }
      if (!one_return(schema)) return false;
      if (take(")")) return true;
      if (!expect(",", "`,` or `)`")) return false;
    }
  }

  bool one_return(Schema& schema) {
    if (schema.returns.size() == kMaximumArguments)
      return fail("at most " + std::to_string(kMaximumArguments) + " returns");
    Argument value;
    if (!type_and_mark(value)) return false;
    value.name = take_identifier();
    schema.returns.push_back(std::move(value));
    return true;
  }

  bool type_and_mark(Argument& argument) {
    AliasInfo alias;
    if (!type(argument.type, alias, 0)) return false;
    if (alias.is_write || !alias.labels.empty() || !alias.after.empty())
      argument.alias = std::move(alias);
    return true;
  }

  // Marks of elements and containers are gathered in one `alias`: a written element is a written
  // argument.
  bool type(Type& type, AliasInfo& alias, int depth) {
    if (depth >= kMaximumDepth) return fail_depth();
    if (take("(")) {
      type.kind = TypeKind::kTuple;
      do {
        Type element;
        if (!this->type(element, alias, depth + 1)) return false;
        type.elements.push_back(std::move(element));
      } while (take(","));
      if (!expect(")", "`,` or `)` in a tuple")) return false;
    } else {
      skip_blanks();
      const std::size_t begin = position_;
      const std::string_view word = take_identifier();
      const auto* known = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                       [&](const auto& entry) { return entry.second == word; });
      if (known == std::end(kTypeNames)) {
        position_ = begin;
        return fail("a type");
      }
      type.kind = known->first;
    }
    return alias_mark(alias) && type_suffixes(type, alias, depth);
  }

  bool type_suffixes(Type& type, AliasInfo& alias, int depth) {
    while (true) {
      if (take("[")) {
        if (++depth >= kMaximumDepth) return fail_depth();
        std::optional<std::int64_t> size;
        skip_blanks();
        if (is_digit(current())) {
          size.emplace();
          if (!list_size(*size)) return false;
        }
        if (!expect("]", "`]`")) return false;
        wrap(type, TypeKind::kList);
        type.list_size = size;
        if (!alias_mark(alias)) return false;
      } else if (type.kind != TypeKind::kOptional && take("?")) {
        if (++depth >= kMaximumDepth) return fail_depth();
        wrap(type, TypeKind::kOptional);
      } else {
        return true;
      }
    }
  }

  static void wrap(Type& type, TypeKind kind) {
    Type outer;
    outer.kind = kind;
    outer.elements.push_back(std::move(type));
    type = std::move(outer);
  }

  bool fail_depth() {
    return fail("at most " + std::to_string(kMaximumDepth) + " levels of nesting");
  }

  bool list_size(std::int64_t& size) {
    const std::size_t begin = position_;
    const auto [end, error] =
        std::from_chars(text_.data() + position_, text_.data() + text_.size(), size);
    if (error != std::errc())
      return fail_at(begin, "a list size of at most 64 bits", "a larger one");
    position_ = static_cast<std::size_t>(end - text_.data());
    return true;
  }

  // `!`, `(a)`, `(a!)`, `(a|b)`, `(*)`, `(a! -> a|b)`, or as printed by torch `($0! -> )`.
  bool alias_mark(AliasInfo& alias) {
    if (take("!")) {
      alias.is_write = true;
      return true;
    }
    if (!take("(")) return true;
    if (!alias_set(alias.labels)) return false;
    if (take("!")) alias.is_write = true;
    if (take("->")) {
      skip_blanks();
      if (current() != ')' && !alias_set(alias.after)) return false;
    }
    return expect(")", "`)` of an alias mark");
  }

  bool alias_set(std::vector<std::string>& labels) {
    do {
      if (take("*")) {
        add_label(labels, "*");
      } else if (take("$")) {
        // torch's own number of a bare `!`; it groups nothing.
        if (!is_digit(current())) return fail("a number after `$`");
        while (is_digit(current())) ++position_;
      } else {
        const std::string_view label = take_identifier();
        if (label.empty()) return fail("an alias label");
        add_label(labels, std::string(label));
      }
    } while (take("|"));
    return true;
  }

  // ---- defaults ----

  static TypeKind base_kind(const Type& type) {
    const Type* base = &type;
    while ((base->kind == TypeKind::kList || base->kind == TypeKind::kOptional) &&
           !base->elements.empty())
      base = &base->elements.front();
    return base->kind;
  }

  bool default_value(DefaultValue& value, TypeKind kind, int depth) {
    if (depth >= kMaximumDepth) return fail_depth();
    skip_blanks();
    const char c = current();
    if (c == '[') return default_list(value, kind, depth);
    if (c == '"' || c == '\'') return default_string(value);
    if (c == '-' || c == '+' || c == '.' || is_digit(c)) return default_number(value, kind);
    const std::string_view word = take_identifier();
    if (word.empty()) return fail("a default value");
    if (word == "None")
      value.value = NoneValue{};
    else if (word == "True" || word == "False")
      value.value = word == "True";
    else if (word == "inf")
      value.value = std::numeric_limits<double>::infinity();
    else if (word == "nan")
      value.value = std::numeric_limits<double>::quiet_NaN();
    else
      value.value = NamedValue{std::string(word)};
    return true;
  }

  bool default_list(DefaultValue& value, TypeKind kind, int depth) {
    DefaultList list;
    ++position_;
    if (!take("]")) {
      do {
        DefaultValue element;
        if (!default_value(element, kind, depth + 1)) return false;
        list.push_back(std::move(element));
      } while (take(","));
      if (!expect("]", "`,` or `]` in a list")) return false;
    }
    value.value = std::move(list);
    return true;
  }

  bool default_number(DefaultValue& value, TypeKind kind) {
    const std::size_t begin = position_;
    std::string number;
    if (current() == '-') number += '-';
    if (current() == '-' || current() == '+') ++position_;
    skip_blanks();
    if (take("inf")) {
      const double infinity = std::numeric_limits<double>::infinity();
      value.value = number.empty() ? infinity : -infinity;
      return true;
    }
    bool is_integer = true;
    const std::size_t digits = position_;
    while (true) {
      const char c = current();
      const bool sign_of_exponent = (c == '-' || c == '+') && position_ > digits &&
                                    (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E');
      if (c == '.' || c == 'e' || c == 'E' || sign_of_exponent)
        is_integer = false;
      else if (!is_digit(c))
        break;
      ++position_;
    }
    number += text_.substr(digits, position_ - digits);
    const char* const end = number.data() + number.size();
    if (is_integer) {
      std::int64_t integer = 0;
      const auto [rest, error] = std::from_chars(number.data(), end, integer);
      if (error == std::errc() && rest == end) {
        value.value = integer;
        return true;
      }
      if (error == std::errc::result_out_of_range && kind != TypeKind::kFloat &&
          kind != TypeKind::kScalar)
        return fail_at(begin, "an integer of at most 64 bits", "a larger one");
    }
    double real = 0.0;
    const auto [rest, error] = std::from_chars(number.data(), end, real);
    if (error == std::errc::result_out_of_range)
      return fail_at(begin, "a number that a double holds", "one out of its range");
    if (error != std::errc() || rest != end)
      return fail_at(begin, "a number", "`" + printable(number.substr(0, 32)) + "`");
    value.value = real;
    return true;
  }

  bool default_string(DefaultValue& value) {
    const std::size_t begin = position_;
    const char quote = text_[position_++];
    std::string content;
    while (position_ < text_.size() && text_[position_] != quote) {
      char c = text_[position_++];
      if (c == '\n') break;
      if (c == '\\' && !escape(c)) return false;
      content += c;
    }
    if (current() != quote) return fail_at(begin, "a string that ends", "no closing quote");
    ++position_;
    value.value = std::move(content);
    return true;
  }

  // The character after a backslash, as Python reads it.
  bool escape(char& c) {
    const std::size_t begin = position_;
    const char kind = current();
    if (kind >= '0' && kind <= '7') return escape_digits(c, begin, 3, 8);
    ++position_;
    switch (kind) {
      case '\\':
      case '\'':
      case '"':
        c = kind;
        return true;
      case 'a':
        c = '\a';
        return true;
      case 'b':
        c = '\b';
        return true;
      case 'f':
        c = '\f';
        return true;
      case 'n':
        c = '\n';
        return true;
      case 'r':
        c = '\r';
        return true;
      case 't':
        c = '\t';
        return true;
      case 'v':
        c = '\v';
        return true;
      case 'x':
        return escape_digits(c, begin + 1, 2, 16);
      default:
        position_ = std::min(begin, text_.size());
        return fail("an escape that Python knows");
    }
  }

  bool escape_digits(char& c, std::size_t begin, std::size_t length, int base) {
    unsigned code = 0;
    const std::string_view digits = text_.substr(std::min(begin, text_.size()), length);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    const std::size_t used = static_cast<std::size_t>(end - digits.data());
    if (error != std::errc() || code > 255 || (base == 16 && used != length))
      return fail_at(begin, "the code of a byte", "another");
    position_ = begin + used;
    c = static_cast<char>(code);
    return true;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::optional<Rejection> fault_;
};

}  // namespace

Result<Schema> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace opmux::schema
