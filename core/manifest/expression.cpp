// SPDX-License-Identifier: Apache-2.0
//
// Integer expressions over the dims of an example: integers, names, + - * / and parentheses.
#include <charconv>
#include <system_error>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux {
namespace {

using Dims = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::size_t kLongestExpression = 256;
constexpr int kDeepestExpression = 32;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Evaluator {
 public:
  Evaluator(std::string_view text, const Dims& dims) : text_(text), rest_(text), dims_(dims) {}

  Result<std::int64_t> run() {
    if (text_.size() > kLongestExpression) {
      fail("at most " + std::to_string(kLongestExpression) + " characters",
           std::to_string(text_.size()));
      return *std::move(rejection_);
    }
    const std::int64_t value = sum();
    if (!rejection_ && !peek_end())
      fail("an operator + - * / or the end", "`" + printable(rest_) + "`");
    if (rejection_) return *std::move(rejection_);
    return value;
  }

 private:
  void fail(std::string expected, std::string found, std::string hint = {}) {
    if (rejection_) return;
    rejection_ = reject(rules::kManifestExample,
                        "expression `" + printable(text_.substr(0, kLongestExpression)) + "`",
                        std::move(expected), std::move(found), std::move(hint));
  }

  void skip_blanks() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool peek_end() {
    skip_blanks();
    return rest_.empty();
  }
  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::int64_t checked(bool overflow, std::int64_t value) {
    if (overflow) fail("a value of 64 bits", "an overflow");
    return overflow ? 0 : value;
  }

  std::int64_t sum() {
    std::int64_t left = product();
    while (!rejection_) {
      std::int64_t value = 0;
      if (take('+')) {
        const bool overflow = __builtin_add_overflow(left, product(), &value);
        left = checked(overflow, value);
      } else if (take('-')) {
        const bool overflow = __builtin_sub_overflow(left, product(), &value);
        left = checked(overflow, value);
      } else {
        break;
      }
    }
    return left;
  }

  std::int64_t product() {
    std::int64_t left = factor();
    while (!rejection_) {
      std::int64_t value = 0;
      if (take('*')) {
        const bool overflow = __builtin_mul_overflow(left, factor(), &value);
        left = checked(overflow, value);
      } else if (take('/')) {
        left = quotient(left, factor());
      } else {
        break;
      }
    }
    return left;
  }

  std::int64_t quotient(std::int64_t left, std::int64_t right) {
    if (rejection_) return 0;
    if (right == 0) {
      fail("a divisor other than zero", "a division by zero");
      return 0;
    }
    if (right == -1) {
      std::int64_t value = 0;
      const bool overflow = __builtin_sub_overflow(std::int64_t{0}, left, &value);
      return checked(overflow, value);
    }
    if (left % right != 0) {
      fail("a division without remainder", std::to_string(left) + " / " + std::to_string(right));
      return 0;
    }
    return left / right;
  }

  std::int64_t factor() {
    if (rejection_) return 0;
    if (++depth_ > kDeepestExpression) {
      fail("at most " + std::to_string(kDeepestExpression) + " nested parentheses and signs",
           "more");
      return 0;
    }
    const std::int64_t value = atom();
    --depth_;
    return value;
  }

  std::int64_t atom() {
    if (take('-')) {
      std::int64_t value = 0;
      const bool overflow = __builtin_sub_overflow(std::int64_t{0}, factor(), &value);
      return checked(overflow, value);
    }
    if (take('(')) {
      const std::int64_t value = sum();
      if (!rejection_ && !take(')'))
        fail("a closing parenthesis", rest_.empty() ? "the end" : "`" + printable(rest_) + "`");
      return value;
    }
    skip_blanks();
    if (!rest_.empty() && is_digit(rest_.front())) return integer();
    if (!rest_.empty() && is_letter(rest_.front())) return name();
    fail("an integer, a dim or a parenthesis",
         rest_.empty() ? "the end" : "`" + printable(rest_) + "`");
    return 0;
  }

  std::int64_t integer() {
    std::int64_t value = 0;
    const char* begin = rest_.data();
    const auto [end, error] = std::from_chars(begin, begin + rest_.size(), value);
    rest_.remove_prefix(static_cast<std::size_t>(end - begin));
    return checked(error != std::errc{}, value);
  }

  std::int64_t name() {
    std::size_t length = 0;
    while (length < rest_.size() && (is_letter(rest_[length]) || is_digit(rest_[length]))) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    std::vector<std::string> known;
    for (const auto& [dim, value] : dims_) {
      if (dim == word) return value;
      known.push_back(dim);
    }
    const std::string near = nearest(word, known);
    fail(known.empty() ? "a dim, but the example has none" : "one of the dims " + join(known, ", "),
         "`" + printable(word) + "`",
         near.empty() ? std::string{} : "Did you mean `" + near + "`?");
    return 0;
  }

  std::string_view text_;
  std::string_view rest_;
  const Dims& dims_;
  int depth_ = 0;
  std::optional<Rejection> rejection_;
};

}  // namespace

Result<std::int64_t> evaluate_expression(const std::string& expression, const Dims& dims) {
  return Evaluator{expression, dims}.run();
}

}  // namespace opmux
