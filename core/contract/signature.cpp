// SPDX-License-Identifier: Apache-2.0
#include "core/contract/signature.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/base/text.hpp"

namespace opmux {
namespace {

// Parameters beyond these are compared by their number only: the comparison of two lists takes the
// product of their lengths.
constexpr std::size_t kMostCompared = 256;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Copies once: a hostile library's names can be megabytes long.
void replace_all(std::string& text, std::string_view what, std::string_view with) {
  std::size_t begin = 0;
  std::size_t at = text.find(what);
  if (at == std::string::npos) return;
  std::string replaced;
  for (; at != std::string::npos; at = text.find(what, begin)) {
    replaced.append(text, begin, at - begin).append(with);
    begin = at + what.size();
  }
  text = replaced.append(text, begin);
}

std::string without_const(const std::string& type) {
  constexpr std::string_view kConst = "const";
  std::string rest;
  std::size_t begin = 0;
  for (std::size_t at = type.find(kConst); at != std::string::npos;
       at = type.find(kConst, at + kConst.size())) {
    const std::size_t end = at + kConst.size();
    const bool inside_word =
        (at > 0 && is_word(type[at - 1])) || (end < type.size() && is_word(type[end]));
    if (inside_word) continue;
    rest.append(type, begin, at - begin);
    begin = end;
  }
  return plain_spelling(rest.append(type, begin));
}

// `const T&` and `T` as `T`.
std::string value_type(const std::string& type) {
  std::string value = without_const(type);
  if (value.ends_with('&') && !value.ends_with("&&")) value.pop_back();
  return value;
}

// Where the parameters begin: the parenthesis that the last one at the end closes.
std::size_t parameters_begin(std::string_view text, std::size_t close) {
  int depth = 0;
  for (std::size_t at = close + 1; at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

std::vector<std::string> split_parameters(std::string_view text) {
  std::vector<std::string> parameters;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) {
      parameters.push_back(plain_spelling(text.substr(begin, at - begin)));
      begin = at + 1;
    }
  }
  if (!trim(text).empty()) parameters.push_back(plain_spelling(text.substr(begin)));
  return parameters;
}

constexpr std::array kIntegers{std::string_view("char"),
                               std::string_view("signed char"),
                               std::string_view("unsigned char"),
                               std::string_view("short"),
                               std::string_view("unsigned short"),
                               std::string_view("int"),
                               std::string_view("unsigned int"),
                               std::string_view("long"),
                               std::string_view("unsigned long"),
                               std::string_view("long long"),
                               std::string_view("unsigned long long")};

bool is_integer(std::string_view type) {
  return std::find(kIntegers.begin(), kIntegers.end(), type) != kIntegers.end();
}

bool is_real(std::string_view type) { return type == "float" || type == "double"; }

constexpr std::string_view kNewString =
    "std::__cxx11::basic_string<char,std::char_traits<char>,std::allocator<char>>";
constexpr std::string_view kOldString =
    "std::basic_string<char,std::char_traits<char>,std::allocator<char>>";

// std::string spelled short, and still apart by its ABI.
std::string with_short_string(std::string type) {
  replace_all(type, kNewString, "std::__cxx11::string");
  replace_all(type, kOldString, "std::string");
  return type;
}

// std::string spelled alike, whatever its ABI.
std::string with_one_string(std::string type) {
  type = with_short_string(std::move(type));
  replace_all(type, "std::__cxx11::", "std::");
  return type;
}

// Why two types that are not equal are not, or nothing when no pattern says it.
std::string reason(const std::string& expected, const std::string& found) {
  const bool expected_new = expected.find("std::__cxx11::") != std::string::npos;
  const bool found_new = found.find("std::__cxx11::") != std::string::npos;
  if (expected_new != found_new && with_one_string(expected) == with_one_string(found)) {
    return found_new ? "std::string of the new ABI against the old one"
                     : "std::string of the old ABI against the new one";
  }
  const auto with_std_optional = [](std::string type) {
    replace_all(type, "c10::optional<", "std::optional<");
    return type;
  };
  if (with_std_optional(expected) == with_std_optional(found)) {
    return found.find("c10::optional<") != std::string::npos
               ? "c10::optional against std::optional"
               : "std::optional against c10::optional";
  }
  if (without_const(expected) == without_const(found)) return "const differs";
  if (is_integer(expected) && is_integer(found)) return "another integer type";
  if (is_real(expected) && is_real(found)) return "another precision";
  const std::string expected_value = value_type(expected);
  const std::string found_value = value_type(found);
  if (expected_value == found_value) return "by value against by reference";
  if (with_std_optional(found_value) == "std::optional<" + expected_value + ">" ||
      with_std_optional(expected_value) == "std::optional<" + found_value + ">") {
    return "optional against not optional";
  }
  return {};
}

// Differences beyond these are counted: a hostile name can have thousands.
constexpr std::size_t kMostTold = 8;

std::string told(std::vector<std::string> differences) {
  const std::size_t count = differences.size();
  differences.resize(std::min(count, kMostTold));
  if (count > kMostTold)
    differences.push_back("and " + std::to_string(count - kMostTold) + " more differences");
  return join(differences, "; ");
}

std::string quoted(const std::string& text) { return "`" + text + "`"; }

// Which parameters of each list belong to a longest common subsequence.
struct Alignment {
  std::vector<bool> in_expected, in_found;
};
Alignment align(const std::vector<std::string>& expected, const std::vector<std::string>& found) {
  const std::size_t rows = expected.size();
  const std::size_t columns = found.size();
  std::vector<std::vector<std::size_t>> length(rows + 1, std::vector<std::size_t>(columns + 1, 0));
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      length[i][j] = expected[i] == found[j] ? length[i + 1][j + 1] + 1
                                             : std::max(length[i + 1][j], length[i][j + 1]);
    }
  }
  Alignment alignment{std::vector<bool>(rows), std::vector<bool>(columns)};
  for (std::size_t i = 0, j = 0; i < rows && j < columns;) {
    if (expected[i] == found[j]) {
      alignment.in_expected[i++] = alignment.in_found[j++] = true;
    } else if (length[i + 1][j] >= length[i][j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return alignment;
}

// How many parameters differ; of lists of different length, how many lack a partner.
std::size_t distance(const Signature& a, const Signature& b) {
  const std::size_t most = std::max(a.parameters.size(), b.parameters.size());
  if (most > kMostCompared) return most;
  if (a.parameters.size() == b.parameters.size()) {
    std::size_t count = a.qualifiers == b.qualifiers ? 0 : 1;
    for (std::size_t i = 0; i < most; ++i) count += a.parameters[i] == b.parameters[i] ? 0 : 1;
    return count;
  }
  const Alignment alignment = align(a.parameters, b.parameters);
  const auto alone = [](const std::vector<bool>& matched) {
    return static_cast<std::size_t>(std::count(matched.begin(), matched.end(), false));
  };
  return alone(alignment.in_expected) + alone(alignment.in_found);
}

std::string count_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " parameter" : " parameters");
}

void add_unpaired(const std::vector<std::string>& parameters, const std::vector<bool>& matched,
                  const std::string& verb, std::vector<std::string>& differences) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (matched[i]) continue;
    differences.push_back("parameter " + std::to_string(i + 1) + " " + quoted(parameters[i]) + " " +
                          verb);
  }
}

}  // namespace

std::string plain_spelling(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ' ') {
      plain += text[at];
      continue;
    }
    const std::size_t next = text.find_first_not_of(' ', at);
    if (next == std::string_view::npos) break;
    const bool between_words = !plain.empty() && is_word(plain.back()) && is_word(text[next]);
    // "Tensor& const" keeps its space, "> >" and ", " lose it.
    const bool before_word =
        !plain.empty() && is_word(text[next]) &&
        (plain.back() == '>' || plain.back() == '&' || plain.back() == '*' || plain.back() == ')');
    if (between_words || before_word) plain += ' ';
    at = next - 1;
  }
  return plain;
}

std::string_view last_name(std::string_view qualified) {
  // Its brackets would be taken for those of template arguments.
  constexpr std::string_view kOperator = "operator";
  const std::size_t word = qualified.rfind(kOperator);
  if (word != std::string_view::npos && (word == 0 || qualified[word - 1] == ':') &&
      word + kOperator.size() < qualified.size() && !is_word(qualified[word + kOperator.size()])) {
    return qualified.substr(word);
  }
  int depth = 0;
  for (std::size_t at = qualified.size(); at-- > 0;) {
    if (qualified[at] == '>') ++depth;
    if (qualified[at] == '<') --depth;
    if (qualified[at] == ':' && depth == 0) return qualified.substr(at + 1);
  }
  return qualified;
}

Signature parse_signature(std::string_view demangled) {
  Signature signature;
  std::string text(demangled);
  replace_all(text, "[abi:cxx11]", "");
  const std::string_view view = trim(text);
  const std::size_t close = view.rfind(')');
  const std::size_t open = close == std::string_view::npos ? close : parameters_begin(view, close);
  if (open == std::string_view::npos) {
    signature.name = plain_spelling(view);
    return signature;
  }
  signature.is_function = true;
  signature.name = plain_spelling(trim(view.substr(0, open)));
  signature.qualifiers = plain_spelling(trim(view.substr(close + 1)));
  signature.parameters = split_parameters(view.substr(open + 1, close - open - 1));
  return signature;
}

std::string signature_difference(const Signature& expected, const Signature& found) {
  std::vector<std::string> differences;
  if (expected.name != found.name) {
    differences.push_back(last_name(expected.name) == last_name(found.name)
                              ? "it is in another namespace, " + quoted(found.name)
                              : "its name is " + quoted(found.name));
  }
  if (expected.is_function != found.is_function) {
    differences.push_back(found.is_function ? "it is a C++ function"
                                            : "it is a C symbol, which tells no parameters");
    return told(std::move(differences));
  }
  const std::size_t most = std::max(expected.parameters.size(), found.parameters.size());
  if (expected.parameters.size() == found.parameters.size()) {
    for (std::size_t i = 0; i < most; ++i) {
      const std::string& want = expected.parameters[i];
      const std::string& have = found.parameters[i];
      if (want == have) continue;
      const std::string why = reason(want, have);
      differences.push_back("parameter " + std::to_string(i + 1) + " is " +
                            quoted(with_short_string(have)) + " in place of " +
                            quoted(with_short_string(want)) + (why.empty() ? "" : ", " + why));
    }
  } else {
    differences.push_back("it has " + count_text(found.parameters.size()) + " in place of " +
                          std::to_string(expected.parameters.size()));
    if (most <= kMostCompared) {
      const Alignment alignment = align(expected.parameters, found.parameters);
      add_unpaired(found.parameters, alignment.in_found, "is added", differences);
      add_unpaired(expected.parameters, alignment.in_expected, "is missing", differences);
    }
  }
  if (expected.qualifiers != found.qualifiers) {
    differences.push_back("it is qualified " + quoted(found.qualifiers) + " in place of " +
                          quoted(expected.qualifiers));
  }
  return told(std::move(differences));
}

std::string nearest_signature(const Signature& expected, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  auto best_rank = std::pair<int, std::size_t>{2, 0};
  std::vector<std::string> names;
  for (const std::string& candidate : candidates) {
    const Signature signature = parse_signature(candidate);
    const bool same_name = signature.name == expected.name;
    if (!same_name && last_name(signature.name) != last_name(expected.name)) {
      names.push_back(signature.name);
      continue;
    }
    const std::pair<int, std::size_t> rank{same_name ? 0 : 1, distance(expected, signature)};
    if (best == nullptr || rank < best_rank) {
      best = &candidate;
      best_rank = rank;
    }
  }
  if (best != nullptr) return *best;
  const std::string near = nearest(expected.name, names);
  if (near.empty()) return {};
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const Signature signature = parse_signature(candidate);
    if (signature.name != near) continue;
    if (const std::size_t apart = distance(expected, signature); apart < best_distance) {
      best_distance = apart;
      best = &candidate;
    }
  }
  return best == nullptr ? std::string() : *best;
}

}  // namespace opmux
