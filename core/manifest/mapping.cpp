// SPDX-License-Identifier: Apache-2.0
//
// `call:` and `result:` of an alternative, held against the operator's and the provider's schema.
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

// Whether the condition says which values are taken, so that an argument under it may be left out
// of the call. Conditions on the form of a tensor say nothing of what it holds.
bool restricts_value(ConditionKind kind) {
  switch (kind) {
    case ConditionKind::kTensorEmpty:
    case ConditionKind::kNone:
    case ConditionKind::kIntIn:
    case ConditionKind::kIntRange:
    case ConditionKind::kFloatIn:
    case ConditionKind::kFloatRange:
    case ConditionKind::kBoolIs:
    case ConditionKind::kStringIn:
    case ConditionKind::kListSize:
      return true;
    default:
      return false;
  }
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
    if (call != nullptr)
      read_call(*call);
    else if (provider_ != nullptr && !provider_->arguments.empty())
      errors_.add(rules::kYamlMissingKey, node_.position, "the key `call` beside `schema`",
                  "no such key");
    read_results(result);
    // A direct symbol without `call` leaves the whole mapping to the plugin module.
    if (errors_.size() == errors_before && (call != nullptr || provider_ != nullptr))
      check_every_argument();
  }

 private:
  void fault(const Node& node, std::string expected, std::string found, std::string hint = {}) {
    errors_.add(rules::kManifestMapping, node.position, std::move(expected), std::move(found),
                std::move(hint));
  }

  // In place: g++ 12 takes a moved temporary of this nested variant for uninitialised.
  std::variant<int, Literal>& add_source() { return alternative_.call.emplace_back().source; }

  // The operator's argument that `node` names, -1 after an error.
  int read_argument(const Node& node, const std::string& what) {
    const auto name = yaml::read_text(node, what, errors_);
    if (!name) return -1;
    const int index = find_argument(schema_, *name);
    if (index < 0) {
      const bool constant = yaml::as_number(node) || yaml::as_bool(node);
      errors_.add(rules::kManifestReference, node.position,
                  what + ": an argument of " + in_quotes(schema_.qualified_name()) + ": " +
                      join(argument_names(schema_), ", "),
                  in_quotes(*name),
                  constant ? "Write a constant as {value: " + *name + "}."
                           : yaml::nearest_hint(*name, argument_names(schema_)));
    }
    return index;
  }

  bool has_condition(int argument, ConditionKind kind) const {
    return std::any_of(alternative_.when.begin(), alternative_.when.end(),
                       [&](const Condition& condition) {
                         return condition.argument == argument && condition.kind == kind;
                       });
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
    if (item.kind == Kind::kMap && item.find("read_only") != nullptr) {
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

  void read_results(const Node* result) {
    std::vector<const Node*> entries;
    if (result != nullptr) {
      if (result->kind == Kind::kSequence)
        for (const Node& item : result->items) entries.push_back(&item);
      else
        entries.push_back(result);
    }
    const Node& where = result != nullptr ? *result : node_;
    if (provider_ != nullptr && entries.size() != provider_->returns.size()) {
      fault(where,
            "`result` with " + std::to_string(provider_->returns.size()) + " entries, as many as " +
                in_quotes(provider_->qualified_name()) + " returns",
            entries.empty() ? "none" : std::to_string(entries.size()),
            provider_->returns.empty() ? "Remove `result`."
                                       : "Say {copy_to: ARGUMENT} or ignore for each.");
      return;
    }
    for (std::size_t i = 0; i < entries.size(); ++i) read_result(*entries[i], i);
  }

  void read_result(const Node& node, std::size_t index) {
    if (node.kind == Kind::kScalar && !node.quoted && node.text == "ignore") {
      alternative_.results.push_back(-1);
      return;
    }
    if (node.kind != Kind::kMap) {
      errors_.add(rules::kYamlWrongForm, node.position, "`result`: {copy_to: ARGUMENT} or ignore",
                  describe(node));
      return;
    }
    const MapReader map{node, "`result`", {"copy_to"}, errors_};
    const Node* target_node = map.require("copy_to");
    if (target_node == nullptr) return;
    const int target = read_argument(*target_node, "`copy_to`");
    if (target < 0) return;
    const Argument& argument = schema_.arguments[static_cast<std::size_t>(target)];
    if (!schema::is_written(argument) || !schema::is_tensor(argument.type)) {
      fault(*target_node, "`copy_to`: a tensor that the operator writes",
            in_quotes(argument.name) + " of type " + schema::to_string(argument.type) +
                (schema::is_written(argument) ? "" : ", which it only reads"));
      return;
    }
    if (provider_ != nullptr && !schema::is_tensor(provider_->returns[index].type)) {
      fault(*target_node,
            "ignore for result " + std::to_string(index + 1) + " of " +
                in_quotes(provider_->qualified_name()) + ", since only a Tensor can be copied",
            "copy_to for type " + schema::to_string(provider_->returns[index].type));
      return;
    }
    if (std::find(alternative_.results.begin(), alternative_.results.end(), target) !=
        alternative_.results.end()) {
      fault(*target_node, "each result copied into another argument",
            in_quotes(argument.name) + " twice");
      return;
    }
    alternative_.results.push_back(target);
  }

  // An operator's argument is passed on, written, or restricted to what the provider does without
  // it; anything else would be dropped in silence.
  void check_every_argument() {
    for (std::size_t i = 0; i < schema_.arguments.size(); ++i) {
      const Argument& argument = schema_.arguments[i];
      const int index = static_cast<int>(i);
      const bool passed = std::any_of(alternative_.call.begin(), alternative_.call.end(),
                                      [&](const CallSource& source) {
                                        const int* from = std::get_if<int>(&source.source);
                                        return from != nullptr && *from == index;
                                      });
      const bool copied = std::find(alternative_.results.begin(), alternative_.results.end(),
                                    index) != alternative_.results.end();
      if (passed || copied) continue;
      const bool restricted = std::any_of(
          alternative_.when.begin(), alternative_.when.end(), [&](const Condition& condition) {
            return condition.argument == index && restricts_value(condition.kind);
          });
      if (schema::is_written(argument)) {
        if (has_condition(index, ConditionKind::kNone) ||
            has_condition(index, ConditionKind::kTensorEmpty))
          continue;
        fault(node_,
              in_quotes(argument.name) +
                  ", which the operator writes, in `call` or as target of `copy_to`",
              "neither",
              "Write it, or add `when: {" + argument.name + ": none}` if it is optional.");
      } else if (!restricted) {
        fault(node_, in_quotes(argument.name) + " in `call`, or a condition in `when` on its value",
              "neither: the argument would be dropped in silence",
              schema::is_tensor(argument.type)
                  ? "Pass it, or say when it does not matter: none or empty."
                  : "Pass it, or name the values that the provider serves without it.");
      }
    }
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
