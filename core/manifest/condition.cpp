// SPDX-License-Identifier: Apache-2.0
//
// `when:` of an alternative: the device and the conditions on arguments.
#include <algorithm>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using schema::TypeKind;
using yaml::describe;
using yaml::in_quotes;
using yaml::Kind;

constexpr std::int64_t kLargestAlignment = 4096;

const std::vector<std::string>& condition_keys() {
  static const std::vector<std::string> keys{
      "dtype", "same_dtype", "rank", "contiguous", "last_dim_contiguous", "row_alignment",
      "dim",   "min",        "max",  "size",       "multiple_of",         "in"};
  return keys;
}

bool is_word(const Node& node, std::string_view word) {
  return node.kind == Kind::kScalar && !node.quoted && node.text == word;
}

// "4" or "one of 4, 8", as the manifest writes the values.
std::string values_text(const std::vector<std::string>& values) {
  return (values.size() == 1 ? "" : "one of ") + join(values, ", ");
}

std::string range_text(const std::optional<std::string>& low,
                       const std::optional<std::string>& high) {
  if (low && high) return "from " + *low + " to " + *high;
  return low ? "at least " + *low : "at most " + *high;
}

// The conditions of one argument.
class ArgumentConditions {
 public:
  ArgumentConditions(const schema::Schema& schema, int index, std::vector<Condition>& conditions,
                     Errors& errors)
      : schema_(schema),
        index_(index),
        argument_(schema.arguments[static_cast<std::size_t>(index)]),
        type_(plain_type(argument_.type)),
        conditions_(conditions),
        errors_(errors) {}

  void read(const Node& node) {
    if (read_word(node)) return;
    if (node.kind == Kind::kSequence) {
      // `given` may stand before the other conditions of an optional argument.
      const bool given = !node.items.empty() && schema::is_optional(argument_.type) &&
                         is_word(node.items.front(), "given");
      if (given) {
        read_word(node.items.front());
        Node rest = node;
        rest.items.erase(rest.items.begin());
        if (rest.items.size() == 1 && rest.items.front().kind != Kind::kScalar) {
          read_form(rest.items.front());
          return;
        }
        read_form(rest);
        return;
      }
    }
    read_form(node);
  }

 private:
  void fault(const Node& node, std::string expected, std::string found, std::string hint = {}) {
    errors_.add(rules::kManifestCondition, node.position,
                "argument " + in_quotes(argument_.name) + " of type " +
                    schema::to_string(argument_.type) + ": " + std::move(expected),
                std::move(found), std::move(hint));
  }

  Condition& add(ConditionKind kind, const std::string& text) {
    Condition condition;
    condition.kind = kind;
    condition.argument = index_;
    condition.text = argument_.name + ": " + text;
    conditions_.push_back(std::move(condition));
    return conditions_.back();
  }

  // empty, not_empty, none, given
  bool read_word(const Node& node) {
    const bool optional = schema::is_optional(argument_.type);
    // For text that may not be absent, `none` is a value like any other.
    if (type_.kind == TypeKind::kString && !optional) return false;
    if (is_word(node, "none") || is_word(node, "given")) {
      if (!optional)
        fault(node, "a condition other than none and given, since it is always given",
              in_quotes(node.text));
      else if (node.text == "none")
        add(ConditionKind::kNone, "not given");
      else
        add(ConditionKind::kGiven, "given");
      return true;
    }
    if (type_.kind != TypeKind::kTensor) return false;
    if (is_word(node, "empty")) {
      add(ConditionKind::kTensorEmpty, "empty");
      return true;
    }
    if (is_word(node, "not_empty")) {
      add(ConditionKind::kTensorNotEmpty, "not empty");
      return true;
    }
    return false;
  }

  // Both values say that the provider serves either way, whether it is told or not.
  void read_bools(const Node& node) {
    const bool both = node.kind == Kind::kSequence && node.items.size() == 2 &&
                      yaml::as_bool(node.items[0]) && yaml::as_bool(node.items[1]) &&
                      *yaml::as_bool(node.items[0]) != *yaml::as_bool(node.items[1]);
    if (both)
      add(ConditionKind::kBoolIs, "true or false").integers = {0, 1};
    else if (const auto value = yaml::as_bool(node))
      add(ConditionKind::kBoolIs, node.text).integers = {*value ? 1 : 0};
    else
      fault(node, "true, false or [true, false]", describe(node));
  }

  void read_form(const Node& node) {
    switch (type_.kind) {
      case TypeKind::kTensor:
        read_tensor(node);
        return;
      case TypeKind::kInt:
      case TypeKind::kSymInt:
        read_integers(node);
        return;
      case TypeKind::kFloat:
      case TypeKind::kScalar:
        read_reals(node);
        return;
      case TypeKind::kBool:
        read_bools(node);
        return;
      case TypeKind::kString:
        if (auto names = text_values(node))
          add(ConditionKind::kStringIn, values_text(*names)).names = *names;
        return;
      case TypeKind::kList:
        read_list(node);
        return;
      default:
        fault(node,
              schema::is_optional(argument_.type) ? "none or given"
                                                  : "no condition, since none is known",
              describe(node));
    }
  }

  // Whether every key is one of `known`; what other types have is named as such.
  bool check_keys(const Node& node, const std::vector<std::string>& known) {
    if (node.entries.empty()) {
      fault(node, "at least one of " + join(known, ", "), "an empty map");
      return false;
    }
    bool good = true;
    for (const yaml::Entry& entry : node.entries) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
      good = false;
      const std::vector<std::string>& all = condition_keys();
      const bool elsewhere = std::find(all.begin(), all.end(), entry.key) != all.end();
      errors_.add(
          elsewhere ? rules::kManifestCondition : rules::kYamlUnknownKey, entry.position,
          "a condition for type " + schema::to_string(argument_.type) + ": " + join(known, ", "),
          in_quotes(entry.key) + (elsewhere ? ", which tests another type" : ""),
          elsewhere ? std::string{} : yaml::nearest_hint(entry.key, known));
    }
    return good;
  }

  std::optional<std::vector<std::int64_t>> integer_values(const Node& node,
                                                          std::vector<std::string>& texts) {
    std::vector<std::int64_t> values;
    const auto read = [&](const Node& item) {
      const auto value = yaml::as_integer(item);
      if (!value) {
        fault(item, "an integer in decimal digits", describe(item));
        return false;
      }
      values.push_back(*value);
      texts.push_back(item.text);
      return true;
    };
    if (node.kind != Kind::kSequence) {
      if (!read(node)) return std::nullopt;
      return values;
    }
    if (node.items.empty()) {
      fault(node, "at least one value", "an empty list");
      return std::nullopt;
    }
    bool good = true;
    for (const Node& item : node.items) good = read(item) && good;
    if (!good) return std::nullopt;
    return values;
  }

  std::optional<std::vector<std::string>> text_values(const Node& node) {
    std::vector<std::string> values;
    const auto is_text = [](const Node& item) { return item.kind == Kind::kScalar; };
    if (is_text(node)) return std::vector<std::string>{node.text};
    if (node.kind == Kind::kSequence && !node.items.empty() &&
        std::all_of(node.items.begin(), node.items.end(), is_text)) {
      for (const Node& item : node.items) values.push_back(item.text);
      return values;
    }
    fault(node, "a text or a list of texts", describe(node));
    return std::nullopt;
  }

  // min and max of a map
  void read_integer_range(const Node& node, ConditionKind kind, const std::string& prefix,
                          int dim) {
    std::optional<std::string> low_text;
    std::optional<std::string> high_text;
    Condition range;
    const auto read = [&](const char* key, std::int64_t& bound, std::optional<std::string>& text) {
      const Node* value = node.find(key);
      if (value == nullptr) return;
      if (const auto integer = yaml::as_integer(*value)) {
        bound = *integer;
        text = value->text;
      } else {
        fault(*value, in_quotes(key) + ": an integer in decimal digits", describe(*value));
      }
    };
    read("min", range.low, low_text);
    read("max", range.high, high_text);
    if (!low_text && !high_text) return;
    if (range.low > range.high) {
      fault(node, "`min` not above `max`", *low_text + " and " + *high_text);
      return;
    }
    Condition& condition = add(kind, prefix + range_text(low_text, high_text));
    condition.low = range.low;
    condition.high = range.high;
    condition.dim = dim;
  }

  void read_multiple(const Node& node, ConditionKind kind, const std::string& prefix, int dim) {
    const Node* value = node.find("multiple_of");
    if (value == nullptr) return;
    const auto divisor = yaml::as_integer(*value);
    if (!divisor || *divisor < 1) {
      fault(*value, "`multiple_of`: an integer of at least 1", describe(*value));
      return;
    }
    Condition& condition = add(kind, prefix + "a multiple of " + value->text);
    condition.integers = {*divisor};
    condition.dim = dim;
  }

  void read_integers(const Node& node) {
    if (node.kind == Kind::kMap) {
      if (!check_keys(node, {"min", "max", "multiple_of"})) return;
      read_integer_range(node, ConditionKind::kIntRange, "", 0);
      read_multiple(node, ConditionKind::kIntMultipleOf, "", 0);
      return;
    }
    std::vector<std::string> texts;
    if (const auto values = integer_values(node, texts))
      add(ConditionKind::kIntIn, values_text(texts)).integers = *values;
  }

  void read_reals(const Node& node) {
    if (node.kind == Kind::kMap) {
      read_real_range(node);
      return;
    }
    std::vector<double> values;
    std::vector<std::string> texts;
    const auto read = [&](const Node& item) {
      const auto value = yaml::as_number(item);
      if (!value) {
        fault(item, "a number such as 1e-6", describe(item));
        return false;
      }
      values.push_back(*value);
      texts.push_back(item.text);
      return true;
    };
    if (node.kind == Kind::kSequence) {
      if (node.items.empty()) {
        fault(node, "at least one value", "an empty list");
        return;
      }
      bool good = true;
      for (const Node& item : node.items) good = read(item) && good;
      if (!good) return;
    } else if (!read(node)) {
      return;
    }
    add(ConditionKind::kFloatIn, values_text(texts)).reals = values;
  }

  void read_real_range(const Node& node) {
    if (!check_keys(node, {"min", "max"})) return;
    std::optional<std::string> low_text;
    std::optional<std::string> high_text;
    Condition range;
    const auto read = [&](const char* key, double& bound, std::optional<std::string>& text) {
      const Node* value = node.find(key);
      if (value == nullptr) return;
      if (const auto number = yaml::as_number(*value)) {
        bound = *number;
        text = value->text;
      } else {
        fault(*value, in_quotes(key) + ": a number such as 1e-6", describe(*value));
      }
    };
    read("min", range.real_low, low_text);
    read("max", range.real_high, high_text);
    if (!low_text && !high_text) return;
    if (range.real_low > range.real_high) {
      fault(node, "`min` not above `max`", *low_text + " and " + *high_text);
      return;
    }
    Condition& condition = add(ConditionKind::kFloatRange, range_text(low_text, high_text));
    condition.real_low = range.real_low;
    condition.real_high = range.real_high;
  }

  void read_list(const Node& node) {
    if (node.kind != Kind::kMap) {
      fault(node, "a map with `size`", describe(node));
      return;
    }
    if (!check_keys(node, {"size"})) return;
    std::vector<std::string> texts;
    if (const auto sizes = sizes_of(*node.find("size"), "`size`", texts))
      add(ConditionKind::kListSize, "size " + values_text(texts)).integers = *sizes;
  }

  std::optional<std::vector<std::int64_t>> sizes_of(const Node& node, const std::string& what,
                                                    std::vector<std::string>& texts) {
    auto sizes = integer_values(node, texts);
    if (!sizes) return std::nullopt;
    if (std::any_of(sizes->begin(), sizes->end(), [](std::int64_t size) { return size < 0; })) {
      fault(node, what + ": values that are not negative", values_text(texts));
      return std::nullopt;
    }
    return sizes;
  }

  void read_tensor(const Node& node) {
    if (node.kind == Kind::kSequence && !node.items.empty()) {
      for (const Node& item : node.items)
        if (!read_word(item)) read_tensor_map(item);
      return;
    }
    read_tensor_map(node);
  }

  void read_tensor_map(const Node& node) {
    if (node.kind != Kind::kMap) {
      std::vector<std::string> words{"empty", "not_empty"};
      if (schema::is_optional(argument_.type)) words.insert(words.end(), {"none", "given"});
      fault(node, join(words, ", ") + ", or a map of conditions", describe(node),
            yaml::nearest_hint(node.text, words));
      return;
    }
    if (!check_keys(node, {"dtype", "same_dtype", "rank", "contiguous", "last_dim_contiguous",
                           "row_alignment", "dim"}))
      return;
    if (const Node* dtype = node.find("dtype")) read_dtypes(*dtype);
    if (const Node* other = node.find("same_dtype")) read_same_dtype(*other);
    if (const Node* rank = node.find("rank")) {
      std::vector<std::string> texts;
      if (const auto ranks = sizes_of(*rank, "`rank`", texts))
        add(ConditionKind::kRank, "rank " + values_text(texts)).integers = *ranks;
    }
    read_flag(node, "contiguous", ConditionKind::kContiguous, "contiguous");
    read_flag(node, "last_dim_contiguous", ConditionKind::kLastDimContiguous,
              "last dimension contiguous");
    if (const Node* bytes = node.find("row_alignment")) {
      const auto alignment =
          yaml::read_integer(*bytes, "`row_alignment`, in bytes", errors_, 1, kLargestAlignment);
      if (alignment)
        add(ConditionKind::kRowAlignment,
            "rows at multiples of " + std::to_string(*alignment) + " bytes")
            .integers = {*alignment};
    }
    if (const Node* dims = node.find("dim")) read_dims(*dims);
  }

  void read_dtypes(const Node& node) {
    std::vector<std::string> names;
    bool good = true;
    const auto read = [&](const Node& item) {
      if (const auto name = read_dtype(item, "`dtype`", false, errors_))
        names.push_back(*name);
      else
        good = false;
    };
    if (node.kind == Kind::kSequence && !node.items.empty())
      for (const Node& item : node.items) read(item);
    else
      read(node);
    if (good) add(ConditionKind::kDtype, "dtype " + values_text(names)).names = names;
  }

  void read_same_dtype(const Node& node) {
    const auto name = yaml::read_text(node, "`same_dtype`", errors_);
    if (!name) return;
    const int other = find_argument(schema_, *name);
    if (other < 0 || other == index_) {
      errors_.add(rules::kManifestReference, node.position,
                  "`same_dtype`: another argument of " + in_quotes(schema_.qualified_name()) +
                      ": " + join(argument_names(schema_), ", "),
                  in_quotes(*name), yaml::nearest_hint(*name, argument_names(schema_)));
      return;
    }
    if (!schema::is_tensor(schema_.arguments[static_cast<std::size_t>(other)].type)) {
      fault(node, "`same_dtype`: an argument that is a tensor", in_quotes(*name));
      return;
    }
    add(ConditionKind::kSameDtype, "same dtype as " + *name).other = other;
  }

  void read_flag(const Node& node, const char* key, ConditionKind kind, const char* text) {
    const Node* value = node.find(key);
    if (value == nullptr) return;
    if (yaml::as_bool(*value) == true)
      add(kind, text);
    else
      fault(*value, in_quotes(key) + ": true", describe(*value),
            "Leave the key out when it does not matter.");
  }

  void read_dims(const Node& node) {
    if (node.kind != Kind::kMap || node.entries.empty()) {
      fault(node, "`dim`: a map from dimension to conditions, e.g. {-1: {multiple_of: 8}}",
            describe(node));
      return;
    }
    constexpr std::int64_t kMostDimensions = 64;
    for (const yaml::Entry& entry : node.entries) {
      Node key;
      key.kind = Kind::kScalar;
      key.text = entry.key;
      key.position = entry.position;
      const auto dim = yaml::as_integer(key);
      if (!dim || *dim < -kMostDimensions || *dim >= kMostDimensions) {
        fault(key, "`dim`: a dimension's number, negative from the end", in_quotes(entry.key));
        continue;
      }
      if (entry.value.kind != Kind::kMap) {
        fault(entry.value, "dimension " + entry.key + ": a map with multiple_of, min, max or in",
              describe(entry.value));
        continue;
      }
      if (check_keys(entry.value, {"multiple_of", "min", "max", "in"}))
        read_dim(entry.value, static_cast<int>(*dim));
    }
  }

  void read_dim(const Node& node, int dim) {
    const std::string prefix = "dimension " + std::to_string(dim) + " ";
    read_multiple(node, ConditionKind::kDimMultipleOf, prefix, dim);
    read_integer_range(node, ConditionKind::kDimRange, prefix, dim);
    const Node* in = node.find("in");
    if (in == nullptr) return;
    std::vector<std::string> texts;
    if (const auto sizes = sizes_of(*in, "`in`", texts)) {
      Condition& condition = add(ConditionKind::kDimIn, prefix + values_text(texts));
      condition.integers = *sizes;
      condition.dim = dim;
    }
  }

  const schema::Schema& schema_;
  int index_;
  const schema::Argument& argument_;
  const schema::Type& type_;
  std::vector<Condition>& conditions_;
  Errors& errors_;
};

}  // namespace

void read_argument_conditions(const Node& node, const schema::Schema& schema, int argument,
                              std::vector<Condition>& conditions, Errors& errors) {
  ArgumentConditions{schema, argument, conditions, errors}.read(node);
}

}  // namespace opmux::reading
