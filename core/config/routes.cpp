// SPDX-License-Identifier: Apache-2.0
//
// The map `routes`.
#include <algorithm>
#include <utility>

#include "core/config/reading.hpp"

namespace opmux::configuration {
namespace {

using yaml::in_quotes;
using yaml::MapReader;
using yaml::Node;

constexpr std::int64_t kMostFailures = 1000000;

class RuleReader {
 public:
  RuleReader(const yaml::Entry& entry, yaml::Errors& errors) : entry_(entry), errors_(errors) {
    rule_.pattern = entry.key;
    rule_.line = entry.position.line;
    rule_.column = entry.position.column;
    what_ = "route " + in_quotes(rule_.pattern);
  }

  RouteRule read() {
    if (rule_.pattern.empty())
      errors_.add(rules::kYamlWrongForm, entry_.position,
                  "a pattern over operator names, e.g. \"flash_attn_*\"", "an empty text");
    if (entry_.value.kind == yaml::Kind::kMap && !entry_.value.entries.empty())
      read_settings();
    else if (entry_.value.kind == yaml::Kind::kSequence && !entry_.value.items.empty())
      read_providers(entry_.value, rule_.providers);
    else
      wrong_form(entry_.value,
                 what_ + ": a list of providers in the order to try, or a map of settings");
    return std::move(rule_);
  }

 private:
  void wrong_form(const Node& node, std::string expected) {
    errors_.add(rules::kYamlWrongForm, node.position, std::move(expected), yaml::describe(node));
  }

  void read_settings() {
    const MapReader map{entry_.value,
                        what_,
                        {"order", "strict", "on_error", "require", "quarantine", "shadow"},
                        errors_};
    if (const Node* order = map.find("order")) read_order(*order);
    rule_.strict = map.boolean("strict");
    if (const Node* node = map.find("on_error")) {
      static const std::vector<std::string> words{"raise", "next"};
      if (const auto word = read_word(*node, "`on_error`", words, errors_))
        rule_.on_error = *word == "next" ? OnError::kNext : OnError::kRaise;
    }
    if (const Node* node = map.find("require")) {
      if (const auto names =
              yaml::read_words(*node, "`require`", "a property", property_names(), errors_))
        rule_.require = properties_of(*names);
    }
    if (const Node* node = map.find("quarantine")) read_quarantine(*node);
    if (const Node* node = map.find("shadow")) read_shadow(*node);
  }

  void read_order(const Node& node) {
    if (node.kind == yaml::Kind::kSequence && !node.items.empty())
      return read_providers(node, rule_.providers);
    if (node.kind != yaml::Kind::kMap || node.entries.empty())
      return wrong_form(node,
                        "`order`: a list of providers, or a map with a list for `cpu`, `cuda` or "
                        "both");
    const MapReader map{node, "`order`", {"cpu", "cuda"}, errors_};
    const auto read = [&](const char* device, std::vector<std::string>& providers) {
      const Node* list = map.find(device);
      if (list == nullptr) return;
      if (list->kind == yaml::Kind::kSequence && !list->items.empty())
        read_providers(*list, providers);
      else
        wrong_form(*list, in_quotes(device) + ": a list of providers in the order to try");
    };
    read("cpu", rule_.cpu_providers);
    read("cuda", rule_.cuda_providers);
  }

  void read_providers(const Node& list, std::vector<std::string>& providers) {
    for (const Node& node : list.items) {
      const auto name = yaml::read_text(node, what_, errors_);
      if (!name) continue;
      const bool again = std::find(providers.begin(), providers.end(), *name) != providers.end();
      if (name->empty() || again)
        errors_.add(rules::kYamlWrongForm, node.position, what_ + ": each provider once",
                    again ? in_quotes(*name) + " twice" : "an empty text");
      else
        providers.push_back(*name);
    }
  }

  // `none` turns off what an earlier rule turned on.
  void read_quarantine(const Node& node) {
    QuarantineSettings settings;
    if (!yaml::is_none(node)) {
      const MapReader map{node, "`quarantine`", {"failures", "retry"}, errors_};
      (void)map.require("failures");
      (void)map.require("retry");
      settings.failures =
          static_cast<std::uint32_t>(map.integer("failures", 1, kMostFailures).value_or(0));
      settings.retry = read_duration(map, "retry", errors_).value_or(settings.retry);
    }
    rule_.quarantine = settings;
  }

  void read_shadow(const Node& node) {
    ShadowSettings settings;
    if (!yaml::is_none(node)) {
      const MapReader map{node, "`shadow`", {"provider", "sample"}, errors_};
      const Node* provider = map.find("provider");
      settings.provider = map.text("provider").value_or("");
      if (provider != nullptr && provider->kind == yaml::Kind::kScalar && settings.provider.empty())
        wrong_form(*provider, "`provider`: the provider that serves the second time");
      (void)map.require("sample");
      const auto sample = map.number("sample");
      if (sample && (*sample <= 0.0 || *sample > 1.0))
        wrong_form(*map.find("sample"), "`sample`: the share of calls, more than 0 and at most 1");
      settings.sample = sample.value_or(0.0);
    }
    rule_.shadow = std::move(settings);
  }

  const yaml::Entry& entry_;
  yaml::Errors& errors_;
  RouteRule rule_;
  std::string what_;
};

}  // namespace

std::vector<RouteRule> read_route_rules(const Node& routes, yaml::Errors& errors) {
  std::vector<RouteRule> rules;
  if (!yaml::is_map(routes, "`routes`", errors)) return rules;
  for (const yaml::Entry& entry : routes.entries) rules.push_back(RuleReader{entry, errors}.read());
  return rules;
}

}  // namespace opmux::configuration

namespace opmux {

std::vector<std::string> named_providers(const RouteRule& rule) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const auto* list : {&rule.providers, &rule.cpu_providers, &rule.cuda_providers})
    for (const std::string& name : *list) add(name);
  if (rule.shadow) add(rule.shadow->provider);
  return names;
}

}  // namespace opmux
