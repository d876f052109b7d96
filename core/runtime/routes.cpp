// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/routes.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "opmux/plugin.h"

namespace opmux {
namespace {

// "native" in a route stands for both native providers; the call's device picks the one that has a
// kernel.
bool stands_for(const std::string& written, const std::string& provider) {
  return written == provider || (written == "native" && provider == "native_cuda");
}

std::string position(const std::string& file, const RouteRule& rule) {
  if (rule.line == 0) return file.empty() ? "route" : file;
  return file + ":" + std::to_string(rule.line) + ":" + std::to_string(rule.column);
}

}  // namespace

RoutePolicy::RoutePolicy(const ManifestSet& manifests, std::vector<RouteRule> rules)
    : manifests_(manifests), rules_(std::move(rules)) {}

const std::vector<std::string>* RoutePolicy::written_order(const std::string& operator_name,
                                                           std::string_view device) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (!glob_match(rule->pattern, operator_name)) continue;
    if (!rule->providers.empty()) return &rule->providers;
    const std::vector<std::string>& own =
        device == "cuda" ? rule->cuda_providers : rule->cpu_providers;
    if (!own.empty()) return &own;
  }
  return nullptr;
}

std::vector<std::size_t> RoutePolicy::order(const std::string& operator_name,
                                            std::string_view device) const {
  std::vector<std::size_t> order;
  const std::vector<std::string>* written = written_order(operator_name, device);
  if (written == nullptr) {
    order.resize(manifests_.providers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
  }
  for (const std::string& name : *written) {
    for (std::size_t index = 0; index < manifests_.providers.size(); ++index) {
      if (stands_for(name, manifests_.providers[index].provider) &&
          std::find(order.begin(), order.end(), index) == order.end()) {
        order.push_back(index);
      }
    }
  }
  return order;
}

std::vector<std::size_t> RoutePolicy::order(const std::string& operator_name) const {
  std::vector<std::size_t> both = order(operator_name, "cpu");
  for (const std::size_t provider : order(operator_name, "cuda")) {
    if (std::find(both.begin(), both.end(), provider) == both.end()) both.push_back(provider);
  }
  return both;
}

RouteSettings RoutePolicy::settings(const std::string& operator_name) const {
  RouteSettings settings;
  for (const RouteRule& rule : rules_) {
    if (!glob_match(rule.pattern, operator_name)) continue;
    if (rule.strict) settings.strict = rule.strict;
    settings.on_error = rule.on_error.value_or(settings.on_error);
    settings.require = rule.require.value_or(settings.require);
    settings.quarantine = rule.quarantine.value_or(settings.quarantine);
    settings.shadow = rule.shadow.value_or(settings.shadow);
  }
  return settings;
}

Check RoutePolicy::check_properties(const std::string& operator_name, const std::string& provider,
                                    std::string_view device, Properties properties) const {
  Properties required = settings(operator_name).require;
  // Nothing on the CPU is captured into a graph.
  if (device == "cpu") required &= ~Properties{OPMUX_PROPERTY_GRAPH_CAPTURE};
  const Properties missing = required & ~properties;
  if (missing == 0) return std::nullopt;
  const std::vector<std::string> declared = names_of(properties);
  return reject(
      rules::kRegistryProperty, operator_name + ": " + provider,
      "a binding that declares " + join(names_of(required), ", "),
      declared.empty() ? "it declares none" : "it declares " + join(declared, ", ") + " only");
}

namespace {

bool is_concerned(const Manifest& manifest, const std::string& operator_name) {
  return manifest.operators.empty() ||
         std::any_of(manifest.operators.begin(), manifest.operators.end(),
                     [&](const OperatorBinding& binding) {
                       return binding.operator_name == operator_name;
                     });
}

}  // namespace

std::vector<std::size_t> RoutePolicy::shadow_providers(const std::string& operator_name) const {
  std::vector<std::size_t> providers;
  const ShadowSettings shadow = settings(operator_name).shadow;
  if (shadow.sample == 0.0 || shadow.provider.empty()) return providers;
  for (std::size_t index = 0; index < manifests_.providers.size(); ++index) {
    if (stands_for(shadow.provider, manifests_.providers[index].provider))
      providers.push_back(index);
  }
  return providers;
}

std::vector<std::size_t> RoutePolicy::load_order() const {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> best(manifests_.providers.size(), kNever);
  for (const OperatorDeclaration& declaration : manifests_.declarations) {
    for (const char* device : {"cpu", "cuda"}) {
      std::vector<std::size_t> route = order(declaration.name, device);
      for (const std::size_t shadow : shadow_providers(declaration.name)) {
        if (std::find(route.begin(), route.end(), shadow) == route.end()) route.push_back(shadow);
      }
      // A provider's place in the route of an operator that it does not bind says nothing of it.
      for (std::size_t place = 0; place < route.size(); ++place) {
        if (is_concerned(manifests_.providers[route[place]], declaration.name))
          best[route[place]] = std::min(best[route[place]], place);
      }
    }
  }
  std::vector<std::size_t> providers;
  for (std::size_t index = 0; index < best.size(); ++index) {
    if (best[index] != kNever) providers.push_back(index);
  }
  std::stable_sort(providers.begin(), providers.end(),
                   [&](std::size_t a, std::size_t b) { return best[a] < best[b]; });
  return providers;
}

std::vector<bool> RoutePolicy::routed() const {
  std::vector<bool> routed(manifests_.providers.size(), false);
  for (const OperatorDeclaration& declaration : manifests_.declarations) {
    const auto add = [&](const std::vector<std::size_t>& providers) {
      for (const std::size_t index : providers) {
        if (is_concerned(manifests_.providers[index], declaration.name)) routed[index] = true;
      }
    };
    add(order(declaration.name));
    add(shadow_providers(declaration.name));
  }
  return routed;
}

std::vector<Rejection> RoutePolicy::unknown_names(const std::string& file) const {
  std::vector<std::string> providers{"native"};
  for (const Manifest& manifest : manifests_.providers) {
    if (std::find(providers.begin(), providers.end(), manifest.provider) == providers.end())
      providers.push_back(manifest.provider);
  }
  std::vector<std::string> operators;
  for (const OperatorDeclaration& declaration : manifests_.declarations)
    operators.push_back(declaration.name);

  std::vector<Rejection> rejections;
  for (const RouteRule& rule : rules_) {
    const bool matches =
        std::any_of(operators.begin(), operators.end(),
                    [&](const std::string& name) { return glob_match(rule.pattern, name); });
    if (!matches) {
      const std::string near = nearest(rule.pattern, operators);
      rejections.push_back(reject(rules::kConfigUnknownOperator, position(file, rule),
                                  "a pattern that matches a declared operator",
                                  "`" + printable(rule.pattern) + "`",
                                  near.empty() ? "" : "Did you mean `" + near + "`?"));
    }
    for (const std::string& name : named_providers(rule)) {
      const bool known =
          std::any_of(providers.begin(), providers.end(),
                      [&](const std::string& provider) { return stands_for(name, provider); });
      if (known) continue;
      const std::string near = nearest(name, providers);
      rejections.push_back(reject(rules::kConfigUnknownProvider, position(file, rule),
                                  "one of " + join(providers, ", "), "`" + printable(name) + "`",
                                  near.empty() ? "" : "Did you mean `" + near + "`?"));
    }
  }
  return rejections;
}

}  // namespace opmux
