// SPDX-License-Identifier: Apache-2.0
//
// Whether a mapping drops an argument of the operator in silence.
#include <algorithm>

#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using schema::Argument;
using schema::Schema;
using yaml::in_quotes;

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

// As a whole, or item by item without a gap.
bool is_passed(const Alternative& alternative, int argument) {
  std::vector<std::int64_t> items;
  for (const CallSource& source : alternative.call) {
    if (source.argument() != argument) continue;
    const auto* item = std::get_if<ListItem>(&source.source);
    if (item == nullptr) return true;
    items.push_back(item->index);
  }
  std::int64_t longest = 0;
  for (const Condition& condition : alternative.when) {
    if (condition.argument != argument || condition.kind != ConditionKind::kListSize) continue;
    for (const std::int64_t size : condition.integers) longest = std::max(longest, size);
  }
  for (std::int64_t at = 0; at < longest; ++at)
    if (std::find(items.begin(), items.end(), at) == items.end()) return false;
  return !items.empty();
}

}  // namespace

void check_every_argument(const Node& node, const Schema& schema, const Alternative& alternative,
                          Errors& errors) {
  for (std::size_t i = 0; i < schema.arguments.size(); ++i) {
    const Argument& argument = schema.arguments[i];
    const int index = static_cast<int>(i);
    const bool passed = is_passed(alternative, index);
    const bool copied =
        std::any_of(alternative.results.begin(), alternative.results.end(),
                    [&](const ResultTarget& result) { return result.argument == index; });
    if (passed || copied) continue;
    // The size of a list whose items are passed says nothing of those that are not.
    const bool in_parts =
        std::any_of(alternative.call.begin(), alternative.call.end(),
                    [&](const CallSource& source) { return source.argument() == index; });
    const bool restricted =
        !in_parts && std::any_of(alternative.when.begin(), alternative.when.end(),
                                 [&](const Condition& condition) {
                                   return condition.argument == index &&
                                          restricts_value(condition.kind);
                                 });
    if (opmux::schema::is_written(argument)) {
      if (has_condition(alternative, index, ConditionKind::kNone) ||
          has_condition(alternative, index, ConditionKind::kTensorEmpty))
        continue;
      errors.add(rules::kManifestMapping, node.position,
                 in_quotes(argument.name) +
                     ", which the operator writes, in `call` or as target of `copy_to`",
                 "neither",
                 "Write it, or add `when: {" + argument.name + ": none}` if it is optional.");
    } else if (!restricted) {
      errors.add(rules::kManifestMapping, node.position,
                 in_quotes(argument.name) + " in `call`, or a condition in `when` on its value",
                 "neither: the argument would be dropped in silence",
                 opmux::schema::is_tensor(argument.type)
                     ? "Pass it, or say when it does not matter: none or empty."
                     : "Pass it, or name the values that the provider serves without it.");
    }
  }
}

}  // namespace opmux::reading
