// SPDX-License-Identifier: Apache-2.0
//
// `when:` of an alternative: where its binding serves a call.
#include <algorithm>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using yaml::in_quotes;
using yaml::Kind;

// `extra`: keys that may stand beside arguments.
void read_argument(const yaml::Entry& entry, const schema::Schema& schema,
                   const std::vector<std::string>& extra, std::vector<Condition>& conditions,
                   Errors& errors) {
  const int index = find_argument(schema, entry.key);
  if (index >= 0) {
    read_argument_conditions(entry.value, schema, index, conditions, errors);
    return;
  }
  if (errors.full()) return;
  std::vector<std::string> known = argument_names(schema);
  known.insert(known.end(), extra.begin(), extra.end());
  errors.add(rules::kManifestReference, entry.position,
             (extra.empty() ? std::string() : join(extra, ", ") + " or ") + "an argument of " +
                 in_quotes(schema.qualified_name()) + ": " + join(argument_names(schema), ", "),
             in_quotes(entry.key), yaml::nearest_hint(entry.key, known));
}

// A list of maps of conditions, of which one must hold as a whole.
void read_group(const Node& node, const schema::Schema& schema, Alternative& alternative,
                Errors& errors) {
  if (node.kind != Kind::kSequence || node.items.size() < 2) {
    errors.add(rules::kYamlWrongForm, node.position,
               "`any_of`: a list of at least two maps of conditions, or a list of such lists",
               yaml::describe(node));
    return;
  }
  Condition any;
  any.kind = ConditionKind::kAnyOf;
  std::vector<std::string> texts;
  for (const Node& item : node.items) {
    if (!yaml::is_map(item, "a part of `any_of`", errors)) return;
    std::vector<Condition> branch;
    for (const yaml::Entry& entry : item.entries) read_argument(entry, schema, {}, branch, errors);
    if (branch.empty()) {
      if (item.entries.empty())
        errors.add(rules::kYamlWrongForm, item.position, "conditions in each part of `any_of`",
                   "an empty map");
      return;  // else what is wrong was told
    }
    std::vector<std::string> parts;
    for (const Condition& condition : branch) parts.push_back(condition.text);
    texts.push_back(join(parts, " and "));
    any.branches.push_back(std::move(branch));
  }
  any.argument = any.branches.front().front().argument;
  any.text = "either " + join(texts, ", or ");
  alternative.when.push_back(std::move(any));
}

// One group, or a list of groups that must all hold.
void read_any_of(const Node& node, const schema::Schema& schema, Alternative& alternative,
                 Errors& errors) {
  const bool groups = node.kind == Kind::kSequence && !node.items.empty() &&
                      std::all_of(node.items.begin(), node.items.end(),
                                  [](const Node& item) { return item.kind == Kind::kSequence; });
  if (!groups) {
    read_group(node, schema, alternative, errors);
    return;
  }
  for (const Node& group : node.items) read_group(group, schema, alternative, errors);
}

}  // namespace

void read_when(const Node& node, const schema::Schema& schema, Alternative& alternative,
               Errors& errors) {
  if (!yaml::is_map(node, "`when`", errors)) return;
  for (const yaml::Entry& entry : node.entries) {
    if (entry.key == "device") {
      const auto device = yaml::read_text(entry.value, "`device`", errors);
      if (!device) continue;
      if (*device == "cpu" || *device == "cuda")
        alternative.device = *device;
      else
        errors.add(rules::kManifestCondition, entry.value.position, "`device`: cpu or cuda",
                   in_quotes(*device), yaml::nearest_hint(*device, {"cpu", "cuda"}));
    } else if (entry.key == "compute_capability") {
      alternative.compute_capability = read_range(entry.value, "`compute_capability`", errors);
    } else if (entry.key == "any_of") {
      read_any_of(entry.value, schema, alternative, errors);
    } else {
      read_argument(entry, schema, {"device", "compute_capability", "any_of"}, alternative.when,
                    errors);
    }
  }
}

}  // namespace opmux::reading
