// SPDX-License-Identifier: Apache-2.0
//
// `call:` of an alternative, held against the operator's and the provider's schema.
#include <algorithm>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using schema::Argument;
using schema::Schema;
using schema::Type;
using schema::TypeKind;
using yaml::describe;
using yaml::in_quotes;
using yaml::Kind;
using yaml::MapReader;

constexpr std::int64_t kMostDimensions = 64;
constexpr std::int64_t kMostItems = 1024;

// Whether a value of the operator's type can stand where the provider wants its own; both without
// `?`.
bool fits(const Type& from, const Type& to) {
  if (is_integer(from) && is_integer(to)) return true;
  if (to.kind == TypeKind::kScalar)
    return is_integer(from) || from.kind == TypeKind::kFloat || from.kind == TypeKind::kBool ||
           from.kind == TypeKind::kScalar;
  if (from.kind != to.kind) return false;
  if (from.kind != TypeKind::kList) return true;
  // A list of unknown size may turn out to have the wrong one, which the provider then says.
  if (from.list_size && to.list_size && from.list_size != to.list_size) return false;
  const Type& from_element = from.elements.at(0);
  const Type& to_element = to.elements.at(0);
  if (schema::is_optional(from_element) && !schema::is_optional(to_element)) return false;
  return fits(plain_type(from_element), plain_type(to_element));
}

class MappingReader {
 public:
  MappingReader(const Node& alternative_node, const Schema& schema, Alternative& alternative,
                Errors& errors)
      : node_(alternative_node), schema_(schema), alternative_(alternative), errors_(errors) {
    if (const auto* dispatcher = std::get_if<DispatcherContract>(&alternative.contract))
      provider_ = &dispatcher->schema;
  }

  void read(const Node* call, const Node* result) {
    const std::size_t errors_before = errors_.size();
    alternative_.module_maps = call == nullptr && provider_ == nullptr;
    if (alternative_.module_maps && result != nullptr) {
      fault(*result, "`result` beside `call` only",
            "no `call`: the plugin module maps the arguments and results");
      return;
    }
    if (call != nullptr)
      read_call(*call);
    else if (provider_ != nullptr && !provider_->arguments.empty())
      errors_.add(rules::kYamlMissingKey, node_.position, "the key `call` beside `schema`",
                  "no such key");
    read_results(result != nullptr ? *result : node_, result, schema_, provider_, alternative_,
                 errors_);
    // A direct symbol without `call` leaves the whole mapping to the plugin module.
    if (errors_.size() == errors_before && !alternative_.module_maps)
      check_every_argument(node_, schema_, alternative_, errors_);
  }

 private:
  void fault(const Node& node, std::string expected, std::string found, std::string hint = {}) {
    errors_.add(rules::kManifestMapping, node.position, std::move(expected), std::move(found),
                std::move(hint));
  }

  // In place: g++ 12 takes a moved temporary of this nested variant for uninitialised.
  decltype(CallSource::source)& add_source() { return alternative_.call.emplace_back().source; }

  int read_argument(const Node& node, const std::string& what) {
    return read_argument_name(node, what, schema_, errors_);
  }
  bool has_condition(int argument, ConditionKind kind) const {
    return reading::has_condition(alternative_, argument, kind);
  }

  std::string provider_name(std::size_t index) const {
    return "argument " + std::to_string(index + 1) + " " +
           in_quotes(provider_->arguments[index].name) + " of " +
           in_quotes(provider_->qualified_name());
  }

  void read_call(const Node& call) {
    if (call.kind != Kind::kSequence) {
      errors_.add(
          rules::kYamlWrongForm, call.position,
          "`call`: a list of argument names, {read_only: ARGUMENT} and constants {value: ...}",
          describe(call));
      return;
    }
    const std::size_t wanted = provider_ != nullptr ? provider_->arguments.size() : 0;
    if (provider_ != nullptr && call.items.size() > wanted) {
      fault(call,
            "`call` with " + std::to_string(wanted) + " values, as " +
                in_quotes(provider_->qualified_name()) + " has arguments",
            std::to_string(call.items.size()) + " values");
      return;
    }
    for (std::size_t i = 0; i < call.items.size(); ++i) read_item(call.items[i], i);
    for (std::size_t i = call.items.size(); i < wanted; ++i) add_default(call, i);
  }

  void read_item(const Node& item, std::size_t index) {
    if (item.kind == Kind::kMap && item.find("item") != nullptr) {
      read_list_item(item, index);
      return;
    }
    if (item.kind == Kind::kMap && item.find("argument") != nullptr) {
      read_default(item, index);
      return;
    }
    if (item.kind == Kind::kMap && item.find("read_only") != nullptr) {
      if (provider_ == nullptr) {
        fault(item, "an argument's name: a symbol marks nothing as written", "read_only");
        return;
      }
      // Some providers mark as written what they only read; the manifest's author vouches for it.
      const MapReader map{item, "an argument in `call`", {"read_only"}, errors_};
      pass_argument(*item.find("read_only"), index, true);
      return;
    }
    if (item.kind == Kind::kMap) {
      const MapReader map{item, "a constant in `call`", {"value"}, errors_};
      if (const Node* value = map.require("value")) read_constant(*value, index);
      return;
    }
    pass_argument(item, index, false);
  }

  void pass_argument(const Node& node, std::size_t index, bool only_reads) {
    const int argument = read_argument(node, "`call`");
    if (argument < 0) return;
    if (provider_ != nullptr && !check_fit(node, argument, index, only_reads)) return;
    add_source().emplace<int>(argument);
  }

  // {item: [LIST, INDEX]}
  void read_list_item(const Node& item, std::size_t index) {
    const MapReader map{item, "an item of a list in `call`", {"item"}, errors_};
    const Node& pair = *item.find("item");
    if (pair.kind != Kind::kSequence || pair.items.size() != 2) {
      errors_.add(rules::kYamlWrongForm, pair.position,
                  "`item`: [ARGUMENT, INDEX], e.g. [window_size, 0]", describe(pair));
      return;
    }
    const int argument = read_argument(pair.items[0], "`item`");
    const auto at =
        yaml::read_integer(pair.items[1], "the index of `item`", errors_, 0, kMostItems);
    if (argument < 0 || !at) return;
    const Argument& list = schema_.arguments[static_cast<std::size_t>(argument)];
    const Type& type = plain_type(list.type);
    if (type.kind != TypeKind::kList || !is_integer(type.elements.at(0))) {
      fault(pair.items[0], "`item`: an argument that is a list of integers",
            in_quotes(list.name) + " of type " + schema::to_string(list.type));
      return;
    }
    if (!has_size_above(argument, *at)) {
      fault(pair, "a list that has item " + std::to_string(*at) + ": a condition on its size",
            "none that says so",
            "Add `when: {" + list.name + ": {size: " + std::to_string(*at + 1) + "}}`.");
      return;
    }
    if (provider_ != nullptr &&
        !check_derived(item, "an item of a list of integers", type.elements.at(0), index))
      return;
    add_source().emplace<ListItem>(ListItem{argument, *at});
  }

  // Every list that the conditions let through has this item. Items of a list that may be absent
  // need it given.
  bool has_size_above(int argument, std::int64_t index) const {
    const Argument& list = schema_.arguments[static_cast<std::size_t>(argument)];
    if (schema::is_optional(list.type) && !has_condition(argument, ConditionKind::kGiven))
      return false;
    return std::any_of(
        alternative_.when.begin(), alternative_.when.end(), [&](const Condition& condition) {
          return condition.argument == argument && condition.kind == ConditionKind::kListSize &&
                 std::all_of(condition.integers.begin(), condition.integers.end(),
                             [&](std::int64_t size) { return size > index; });
        });
  }

  // {argument: NUMBER, default: {inverse_sqrt: [TENSOR, DIMENSION]}}
  void read_default(const Node& item, std::size_t index) {
    const MapReader map{item, "an argument in `call`", {"argument", "default"}, errors_};
    const Node* value = map.require("default");
    if (value == nullptr) return;
    if (value->kind != Kind::kMap || value->find("inverse_sqrt") == nullptr) {
      errors_.add(rules::kYamlWrongForm, value->position,
                  "`default`: {inverse_sqrt: [TENSOR, DIMENSION]}, 1 / sqrt of that size",
                  describe(*value));
      return;
    }
    const MapReader function{*value, "`default`", {"inverse_sqrt"}, errors_};
    const Node& pair = *value->find("inverse_sqrt");
    if (pair.kind != Kind::kSequence || pair.items.size() != 2) {
      errors_.add(rules::kYamlWrongForm, pair.position,
                  "`inverse_sqrt`: [TENSOR, DIMENSION], e.g. [q, -1]", describe(pair));
      return;
    }
    const int argument = read_argument(*item.find("argument"), "`argument`");
    const int tensor = read_argument(pair.items[0], "`inverse_sqrt`");
    const auto dim = yaml::read_integer(pair.items[1], "the dimension of `inverse_sqrt`", errors_,
                                        -kMostDimensions, kMostDimensions - 1);
    if (argument < 0 || tensor < 0 || !dim) return;
    const Argument& number = schema_.arguments[static_cast<std::size_t>(argument)];
    if (plain_type(number.type).kind != TypeKind::kFloat || !schema::is_optional(number.type)) {
      fault(*item.find("argument"), "`argument`: a float that may be absent (`float?`)",
            in_quotes(number.name) + " of type " + schema::to_string(number.type));
      return;
    }
    const Argument& sized = schema_.arguments[static_cast<std::size_t>(tensor)];
    if (sized.type.kind != TypeKind::kTensor) {
      fault(pair, "`inverse_sqrt`: a Tensor that is always given",
            in_quotes(sized.name) + " of type " + schema::to_string(sized.type));
      return;
    }
    if (provider_ != nullptr && !check_derived(item, "a float", plain_type(number.type), index))
      return;
    add_source().emplace<InverseSqrtDefault>(
        InverseSqrtDefault{argument, tensor, static_cast<int>(*dim)});
  }

  bool check_derived(const Node& item, const std::string& what, const Type& type,
                     std::size_t index) {
    const Argument& wanted = provider_->arguments[index];
    if (fits(type, plain_type(wanted.type))) return true;
    fault(item, provider_name(index) + ": " + schema::to_string(wanted.type), what);
    return false;
  }

  void read_constant(const Node& node, std::size_t index) {
    if (provider_ != nullptr) {
      const Argument& wanted = provider_->arguments[index];
      if (auto literal = read_literal(node, wanted.type, "the constant for " + provider_name(index),
                                      rules::kManifestMapping, errors_))
        add_source().emplace<Literal>(*std::move(literal));
      return;
    }
    // Without a schema the constant's own form says what it is.
    std::optional<Literal> literal;
    if (yaml::is_none(node))
      literal = NoneLiteral{};
    else if (const auto boolean = yaml::as_bool(node))
      literal = *boolean;
    else if (const auto integer = yaml::as_integer(node))
      literal = *integer;
    else if (const auto number = yaml::as_number(node))
      literal = *number;
    else if (node.kind == Kind::kScalar)
      literal = node.text;
    else if (node.kind == Kind::kSequence)
      literal = read_integer_list(node);
    if (literal)
      add_source().emplace<Literal>(*std::move(literal));
    else
      fault(node, "a constant: none, true, false, a number, text or a list of integers",
            describe(node));
  }

  static std::optional<Literal> read_integer_list(const Node& node) {
    std::vector<std::int64_t> values;
    for (const Node& item : node.items) {
      const auto value = yaml::as_integer(item);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return Literal{std::move(values)};
  }

  bool check_fit(const Node& item, int argument, std::size_t index, bool only_reads) {
    const Argument& given = schema_.arguments[static_cast<std::size_t>(argument)];
    const Argument& wanted = provider_->arguments[index];
    if (!fits(plain_type(given.type), plain_type(wanted.type))) {
      fault(item, provider_name(index) + ": " + schema::to_string(wanted.type),
            in_quotes(given.name) + " of type " + schema::to_string(given.type));
      return false;
    }
    if (schema::is_optional(given.type) && !schema::is_optional(wanted.type) &&
        !has_condition(argument, ConditionKind::kGiven)) {
      fault(
          item,
          provider_name(index) + ": " + schema::to_string(wanted.type) + ", which is always given",
          in_quotes(given.name) + " of type " + schema::to_string(given.type),
          "Add `when: {" + given.name + ": given}`.");
      return false;
    }
    // A mark on a number says nothing: its value is passed, not its place.
    if (!only_reads && schema::is_tensor(wanted.type) && schema::is_written(wanted) &&
        !schema::is_written(given)) {
      fault(
          item,
          "an argument that the operator writes for " + provider_name(index) + ", which is written",
          in_quotes(given.name) + ", which the operator only reads",
          "If the provider's mark is wrong, write {read_only: " + given.name + "}.");
      return false;
    }
    return true;
  }

  void add_default(const Node& call, std::size_t index) {
    const Argument& wanted = provider_->arguments[index];
    if (!wanted.default_value) {
      fault(call,
            "a value for " + provider_name(index) + " of type " + schema::to_string(wanted.type),
            "the end of `call`");
      return;
    }
    auto literal = default_literal(wanted);
    if (literal) {
      add_source().emplace<Literal>(*std::move(literal));
      return;
    }
    fault(call,
          "a value for " + provider_name(index) + ", whose default cannot be written as a constant",
          "the default " + schema::to_string(*wanted.default_value));
  }

  const Node& node_;
  const Schema& schema_;
  const Schema* provider_ = nullptr;
  Alternative& alternative_;
  Errors& errors_;
};

}  // namespace

void read_mapping(const Node& alternative_node, const Node* call, const Node* result,
                  const schema::Schema& schema, Alternative& alternative, Errors& errors) {
  MappingReader{alternative_node, schema, alternative, errors}.read(call, result);
}

}  // namespace opmux::reading
