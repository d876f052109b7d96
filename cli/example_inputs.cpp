// SPDX-License-Identifier: Apache-2.0
#include "cli/example_inputs.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <optional>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/compare/floats.hpp"

namespace opmux::cli {
namespace {

constexpr std::uint64_t kByteCap = std::uint64_t{4} << 30U;
constexpr std::int64_t kDimCap = std::int64_t{1} << 40U;
constexpr const char* kSizeInWords = "a whole number from 0 to 2^40";

// splitmix64: the same numbers wherever this runs, which the standard's distributions do not
// promise.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31U);
  }
  // In [0, 1).
  double uniform() { return std::ldexp(static_cast<double>(bits() >> 11U), -53); }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  std::uint64_t below(std::uint64_t bound) { return bits() % bound; }

 private:
  std::uint64_t state_;
};

Rejection wrong_shape(std::string subject, std::string expected, std::string found,
                      std::string hint = {}) {
  return reject(rules::kManifestExample, std::move(subject), std::move(expected), std::move(found),
                std::move(hint));
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > kDimCap)
    return std::nullopt;
  return value;
}

std::vector<std::string> names_of(const Dims& dims) {
  std::vector<std::string> names;
  for (const auto& [name, value] : dims) names.push_back(name);
  return names;
}

Result<Dims> named_sizes(const std::string& text, Dims dims) {
  const std::vector<std::string> names = names_of(dims);
  std::vector<std::string> seen;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos)
      return wrong_shape(part, "NAME=VALUE, as in the parts before", "no `=`");
    const std::string name{trim(std::string_view{part}.substr(0, equals))};
    const std::string number{trim(std::string_view{part}.substr(equals + 1))};
    const auto dim = std::find_if(dims.begin(), dims.end(),
                                  [&](const auto& each) { return each.first == name; });
    if (dim == dims.end()) {
      const std::string near = nearest(name, names);
      return wrong_shape(name, "one of the dims " + join(names, ", "), "`" + name + "`",
                         near.empty() ? "" : "Did you mean `" + near + "`?");
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return wrong_shape(name, "each dim once", "`" + name + "` twice");
    seen.push_back(name);
    const auto value = whole_number(number);
    if (!value)
      return wrong_shape(part, kSizeInWords, number.empty() ? "nothing" : "`" + number + "`");
    dim->second = *value;
  }
  return dims;
}

Result<Dims> sizes_in_order(const std::string& text, Dims dims) {
  const std::vector<std::string> parts =
      split(text, text.find('x') != std::string::npos ? 'x' : ',');
  if (parts.size() > dims.size())
    return wrong_shape(
        text,
        "at most " + std::to_string(dims.size()) + " sizes, for " + join(names_of(dims), ", "),
        std::to_string(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = whole_number(trim(parts[i]));
    if (!value)
      return wrong_shape(parts[i], kSizeInWords,
                         parts[i].empty() ? "nothing" : "`" + parts[i] + "`");
    dims[i].second = *value;
  }
  return dims;
}

class Maker {
 public:
  Maker(const Dims& dims, DType dtype, std::uint64_t seed)
      : dims_(dims), dtype_(dtype), generator_(seed) {}

  Result<ExampleArgument> make(const ExampleValue& value, const schema::Argument& argument) {
    if (const auto* tensor = std::get_if<ExampleTensor>(&value))
      return make_tensor(*tensor, argument);
    if (const auto* expression = std::get_if<ExampleExpression>(&value)) {
      Result<std::int64_t> number = evaluate_expression(expression->text, dims_);
      if (!number.ok()) return named(std::move(number).rejection(), argument);
      return ExampleArgument{*number};
    }
    return std::visit(
        [](const auto& literal) -> Result<ExampleArgument> { return ExampleArgument{literal}; },
        std::get<Literal>(value));
  }

 private:
  static Rejection named(Rejection rejection, const schema::Argument& argument) {
    rejection.subject = "argument `" + argument.name + "`: " + rejection.subject;
    return rejection;
  }

  Result<ExampleArgument> make_tensor(const ExampleTensor& wanted,
                                      const schema::Argument& argument) {
    HostTensor tensor;
    const std::optional<DType> dtype = wanted.dtype == "$dtype" ? dtype_ : dtype_of(wanted.dtype);
    if (!dtype)
      return wrong_shape("argument `" + argument.name + "`", "a known dtype", wanted.dtype);
    tensor.dtype = *dtype;
    std::uint64_t bytes = size_of(*dtype);
    for (const std::string& expression : wanted.shape) {
      Result<std::int64_t> size = evaluate_expression(expression, dims_);
      if (!size.ok()) return named(std::move(size).rejection(), argument);
      if (*size < 0)
        return wrong_shape("argument `" + argument.name + "`", "sizes that are not negative",
                           expression + " = " + std::to_string(*size));
      tensor.shape.push_back(*size);
      if (*size != 0 && bytes > kByteCap / static_cast<std::uint64_t>(*size))
        return too_large(argument);
      bytes *= static_cast<std::uint64_t>(*size);
    }
    total_ += bytes;
    if (total_ > kByteCap) return too_large(argument);
    tensor.bytes.resize(bytes);
    if (auto wrong = fill(tensor, wanted)) return named(*std::move(wrong), argument);
    return ExampleArgument{std::move(tensor)};
  }

  static Rejection too_large(const schema::Argument& argument) {
    return wrong_shape("argument `" + argument.name + "`", "tensors of 4 GiB in all at most",
                       "more", "Use smaller sizes.");
  }

  Check fill(HostTensor& tensor, const ExampleTensor& wanted) {
    const std::size_t count = tensor.count();
    if (wanted.fill == FillKind::kBits) {
      for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
        tensor.bytes[i] = static_cast<std::byte>(generator_.bits() & 0xFFU);
      return std::nullopt;
    }
    if (wanted.fill == FillKind::kPermutation) {
      std::vector<std::size_t> order(count);
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[generator_.below(i)]);
      for (std::size_t i = 0; i < count; ++i) put(tensor, i, static_cast<double>(order[i]));
      return std::nullopt;
    }
    double high = wanted.high;
    if (wanted.fill == FillKind::kIntegers && !wanted.high_expression.empty()) {
      Result<std::int64_t> bound = evaluate_expression(wanted.high_expression, dims_);
      if (!bound.ok()) return std::move(bound).rejection();
      high = static_cast<double>(*bound) - 1.0;
      if (count > 0 && high < wanted.low)
        return wrong_shape("`high`", "above `low`",
                           wanted.high_expression + " = " + std::to_string(*bound));
    }
    for (std::size_t i = 0; i < count; ++i) put(tensor, i, element(wanted, high, i));
    return std::nullopt;
  }

  double element(const ExampleTensor& wanted, double high, std::size_t index) {
    switch (wanted.fill) {
      case FillKind::kOnes:
        return 1.0;
      case FillKind::kNormal:
        return wanted.low + high * generator_.normal();
      case FillKind::kUniform:
        return wanted.low + (high - wanted.low) * generator_.uniform();
      case FillKind::kIntegers:
        return wanted.low + std::floor((high - wanted.low + 1.0) * generator_.uniform());
      case FillKind::kRange:
        return static_cast<double>(index);
      case FillKind::kConstant:
        return wanted.low;
      default:
        return 0.0;
    }
  }

  static void put(HostTensor& tensor, std::size_t index, double value) {
    store(value, tensor.bytes.data() + index * size_of(tensor.dtype), tensor.dtype);
  }

  const Dims& dims_;
  DType dtype_;
  Generator generator_;
  std::uint64_t total_ = 0;
};

}  // namespace

std::size_t HostTensor::count() const { return bytes.size() / size_of(dtype); }

double HostTensor::at(std::size_t index) const {
  return load(bytes.data() + index * size_of(dtype), dtype);
}

Result<Dims> parse_shape(const std::string& text, const Dims& defaults) {
  if (text.find('=') != std::string::npos) return named_sizes(text, defaults);
  return sizes_in_order(text, defaults);
}

Result<ExampleCall> make_example(const OperatorDeclaration& declaration, const Dims& dims,
                                 DType dtype, std::uint64_t seed) {
  Maker maker(dims, dtype, seed);
  ExampleCall call;
  const std::vector<ExampleValue>& values = declaration.example->arguments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const schema::Argument& argument = declaration.schema.arguments.at(i);
    Result<ExampleArgument> made = maker.make(values[i], argument);
    if (!made.ok()) return std::move(made).rejection();
    call.arguments.push_back(*std::move(made));
  }
  return call;
}

}  // namespace opmux::cli
