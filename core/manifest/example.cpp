// SPDX-License-Identifier: Apache-2.0
//
// `example:` of an operator declaration: inputs that make sense for it.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using yaml::describe;
using yaml::in_quotes;
using yaml::Kind;
using yaml::MapReader;

using Dims = std::vector<std::pair<std::string, std::int64_t>>;

// Beyond it, no example is meant.
constexpr std::int64_t kLargestDim = std::int64_t{1} << 40U;

const std::vector<std::string>& fill_names() {
  static const std::vector<std::string> names{
      "zeros", "ones", "normal", "uniform", "integers", "permutation", "range", "constant", "bits"};
  return names;
}

// Which keys beside shape, dtype and fill a fill takes.
bool takes(FillKind fill, std::string_view key) {
  switch (fill) {
    case FillKind::kNormal:
      return key == "mean" || key == "deviation";
    case FillKind::kUniform:
    case FillKind::kIntegers:
      return key == "low" || key == "high";
    case FillKind::kConstant:
      return key == "value";
    default:
      return false;
  }
}

class ExampleReader {
 public:
  ExampleReader(const schema::Schema& schema, const std::vector<std::string>& dtypes,
                Errors& errors)
      : schema_(schema), dtypes_(dtypes), errors_(errors) {}

  std::optional<Example> read(const Node& node) {
    const std::size_t errors_before = errors_.size();
    if (!yaml::is_map(node, "`example`", errors_)) return std::nullopt;
    if (const Node* dims = node.find("dims")) read_dims(*dims);
    check_keys(node);
    for (const schema::Argument& argument : schema_.arguments) {
      const Node* value = node.find(argument.name);
      auto read = value != nullptr ? read_value(*value, argument) : default_value(node, argument);
      if (read) example_.arguments.push_back(*std::move(read));
    }
    if (errors_.size() != errors_before) return std::nullopt;
    return std::move(example_);
  }

 private:
  void fault(const Node& node, std::string expected, std::string found, std::string hint = {}) {
    errors_.add(rules::kManifestExample, node.position, std::move(expected), std::move(found),
                std::move(hint));
  }

  void check_keys(const Node& node) {
    std::vector<std::string> known = argument_names(schema_);
    known.emplace_back("dims");
    for (const yaml::Entry& entry : node.entries) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
      if (errors_.full()) return;
      errors_.add(rules::kManifestReference, entry.position,
                  "`dims` or an argument of " + in_quotes(schema_.qualified_name()) + ": " +
                      join(argument_names(schema_), ", "),
                  in_quotes(entry.key), yaml::nearest_hint(entry.key, known));
    }
  }

  void read_dims(const Node& node) {
    if (!yaml::is_map(node, "`dims`", errors_)) return;
    for (const yaml::Entry& entry : node.entries) {
      if (!is_identifier(entry.key)) {
        errors_.add(rules::kManifestExample, entry.position,
                    "the name of a dim: letters, digits and _", in_quotes(entry.key));
        continue;
      }
      if (const auto value = yaml::read_integer(entry.value, "dim " + in_quotes(entry.key), errors_,
                                                0, kLargestDim))
        example_.dims.emplace_back(entry.key, *value);
    }
  }

  std::optional<ExampleValue> default_value(const Node& node, const schema::Argument& argument) {
    if (!argument.default_value) {
      fault(node,
            "a value for the argument " + in_quotes(argument.name) + " of type " +
                schema::to_string(argument.type),
            "none");
      return std::nullopt;
    }
    if (auto literal = default_literal(argument)) return ExampleValue{*std::move(literal)};
    fault(node, "an argument whose default is a constant",
          "the default " + schema::to_string(*argument.default_value) + " of " +
              in_quotes(argument.name));
    return std::nullopt;
  }

  std::optional<ExampleValue> read_value(const Node& node, const schema::Argument& argument) {
    const std::string what = "argument " + in_quotes(argument.name);
    if (schema::is_tensor(argument.type)) {
      if (schema::is_optional(argument.type) && yaml::is_none(node))
        return ExampleValue{Literal{NoneLiteral{}}};
      if (node.kind == Kind::kMap) return read_tensor(node, what);
      fault(node,
            what + " of type " + schema::to_string(argument.type) +
                ": a map with shape, dtype and fill" +
                (schema::is_optional(argument.type) ? ", or none" : ""),
            describe(node));
      return std::nullopt;
    }
    const bool may_be_expression = is_integer(plain_type(argument.type)) &&
                                   node.kind == Kind::kScalar && !yaml::as_integer(node) &&
                                   !yaml::is_none(node);
    if (may_be_expression) {
      if (!evaluate(node, what)) return std::nullopt;
      return ExampleValue{ExampleExpression{node.text}};
    }
    if (auto literal = read_literal(node, argument.type, what, rules::kManifestExample, errors_))
      return ExampleValue{*std::move(literal)};
    return std::nullopt;
  }

  std::optional<std::int64_t> evaluate(const Node& node, const std::string& what) {
    if (node.kind != Kind::kScalar) {
      fault(node, what + ": an integer or an expression over the dims, e.g. 2*hidden",
            describe(node));
      return std::nullopt;
    }
    Result<std::int64_t> value = evaluate_expression(node.text, example_.dims);
    if (value.ok()) return *value;
    const Rejection& reason = value.rejection();
    fault(node, what + ": " + reason.expected + " in the " + reason.subject, reason.found,
          reason.hint);
    return std::nullopt;
  }

  std::optional<ExampleValue> read_tensor(const Node& node, const std::string& what) {
    const std::size_t errors_before = errors_.size();
    const MapReader map{node,
                        what,
                        {"shape", "dtype", "fill", "low", "high", "value", "mean", "deviation"},
                        errors_};
    ExampleTensor tensor;
    if (const Node* shape = map.require("shape")) read_shape(*shape, tensor);
    if (const Node* dtype = map.require("dtype")) {
      tensor.dtype = read_dtype(*dtype, "`dtype`", true, errors_).value_or("");
      if (tensor.dtype == "$dtype" && dtypes_.empty())
        fault(*dtype, "`dtypes` in the declaration, which $dtype stands for", "no such key");
    }
    if (const Node* fill = map.find("fill")) {
      const std::vector<std::string>& names = fill_names();
      const auto found = std::find(names.begin(), names.end(), fill->text);
      if (fill->kind != Kind::kScalar || found == names.end())
        fault(*fill, "`fill`: one of " + join(names, ", "), describe(*fill),
              yaml::nearest_hint(fill->text, names));
      else
        tensor.fill = static_cast<FillKind>(found - names.begin());
    }
    check_fill(map, tensor);
    read_bounds(map, tensor);
    if (errors_.size() != errors_before) return std::nullopt;
    return ExampleValue{std::move(tensor)};
  }

  void read_shape(const Node& node, ExampleTensor& tensor) {
    if (node.kind != Kind::kSequence) {
      fault(node, "`shape`: a list of integers and expressions over the dims", describe(node));
      return;
    }
    for (const Node& item : node.items) {
      const auto size = evaluate(item, "`shape`");
      if (!size) continue;
      if (*size < 0) fault(item, "`shape`: sizes that are not negative", std::to_string(*size));
      tensor.shape.push_back(item.text);
    }
  }

  void check_fill(const MapReader& map, const ExampleTensor& tensor) {
    const std::string& fill = fill_names()[static_cast<std::size_t>(tensor.fill)];
    const bool is_float = tensor.dtype.empty() || tensor.dtype == "$dtype" ||
                          tensor.dtype.find("float") != std::string::npos;
    if (!is_float && (tensor.fill == FillKind::kNormal || tensor.fill == FillKind::kUniform))
      fault(map.node(),
            "a `fill` that fits " + tensor.dtype +
                ": zeros, ones, integers, permutation, range, constant or bits",
            in_quotes(fill) + (map.find("fill") == nullptr ? ", the default" : ""));
    for (const char* key : {"low", "high", "value", "mean", "deviation"})
      if (const Node* node = map.find(key); node != nullptr && !takes(tensor.fill, key))
        fault(*node, "only keys that " + in_quotes("fill: " + fill) + " takes", in_quotes(key));
  }

  void read_bounds(const MapReader& map, ExampleTensor& tensor) {
    switch (tensor.fill) {
      case FillKind::kNormal:
        tensor.low = map.number("mean").value_or(0.0);
        tensor.high = map.number("deviation").value_or(1.0);
        return;
      case FillKind::kUniform:
        tensor.low = map.number("low").value_or(0.0);
        tensor.high = map.number("high").value_or(1.0);
        if (tensor.low > tensor.high) fault(map.node(), "`low` not above `high`", "the reverse");
        return;
      case FillKind::kConstant:
        if (map.require("value") != nullptr) tensor.low = map.number("value").value_or(0.0);
        return;
      case FillKind::kIntegers:
        read_integer_bounds(map, tensor);
        return;
      default:
        return;
    }
  }

  void read_integer_bounds(const MapReader& map, ExampleTensor& tensor) {
    const std::int64_t low =
        map.integer("low", std::numeric_limits<std::int64_t>::min(), kLargestDim).value_or(0);
    const Node* high_node = map.require("high");
    if (high_node == nullptr) return;
    const auto high = evaluate(*high_node, "`high`");
    if (!high) return;
    if (*high <= low)
      fault(*high_node, "`high`, which is exclusive, above `low`, " + std::to_string(low),
            std::to_string(*high));
    tensor.low = static_cast<double>(low);
    tensor.high = static_cast<double>(*high) - 1.0;
    tensor.high_expression = high_node->text;
  }

  const schema::Schema& schema_;
  const std::vector<std::string>& dtypes_;
  Errors& errors_;
  Example example_;
};

}  // namespace

std::optional<Example> read_example(const Node& node, const schema::Schema& schema,
                                    const std::vector<std::string>& dtypes, Errors& errors) {
  return ExampleReader{schema, dtypes, errors}.read(node);
}

}  // namespace opmux::reading
