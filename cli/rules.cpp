// SPDX-License-Identifier: Apache-2.0
#include "core/base/rules.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

// docs/rules.md is this text.
std::string rules_as_markdown() {
  std::string text =
      "# Rules\n\n"
      "Every rejection carries the id of the rule that was broken. Ids are stable: one is never "
      "used for another\nmeaning. This file is what `opmux rules --markdown` prints.\n";
  std::string_view stage;
  for (const Rule& rule : all_rules()) {
    if (rule.stage() != stage) {
      stage = rule.stage();
      text += "\n## " + std::string{stage} +
              "\n\n| rule | what must hold | what to do when it does not |\n|---|---|---|\n";
    }
    text += "| `" + std::string{rule.id} + "` | " + rule.meaning + " | " + rule.remedy + " |\n";
  }
  return text;
}

nlohmann::ordered_json as_json(const Rule& rule) {
  return {
      {"id", rule.id}, {"stage", rule.stage()}, {"meaning", rule.meaning}, {"remedy", rule.remedy}};
}

}  // namespace

int rules(const std::string& id, bool markdown, bool json) {
  std::vector<Rule> chosen;
  std::vector<std::string> ids;
  for (const Rule& rule : all_rules()) {
    ids.emplace_back(rule.id);
    if (id.empty() || id == rule.id || id == rule.stage()) chosen.push_back(rule);
  }
  if (chosen.empty())
    return usage_error(
        "no rule is named `" + printable(id) + "`. " + did_you_mean(nearest(id, ids)),
        "Type `opmux rules` to see all.");

  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Rule& rule : chosen) list.push_back(as_json(rule));
    print(nlohmann::ordered_json{{"rules", std::move(list)}}.dump(2));
    return kFine;
  }
  if (markdown) {
    std::string text = rules_as_markdown();
    text.pop_back();
    print(text);
    return kFine;
  }
  for (const Rule& rule : chosen) {
    print(styled(Style::kBold, rule.id));
    print("  " + wrapped(rule.meaning, 2));
    print("  " + wrapped(std::string{"Otherwise: "} + rule.remedy, 2));
  }
  return kFine;
}

}  // namespace opmux::cli
