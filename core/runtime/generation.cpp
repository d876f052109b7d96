// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/state.hpp"

namespace opmux {
namespace {

Rejection stub_only(const Verdict& verdict) {
  return reject(rules::kContractNoDriver, verdict.operator_name, "an NVIDIA driver (libcuda.so.1)",
                "a stub driver: validated, never callable");
}

Rejection report_only(const Verdict& verdict) {
  return reject(rules::kCallFallback, verdict.operator_name, "a provider that is loaded",
                "a runtime opened for the report only", "Open the runtime with Options::load.");
}

// Verdicts against an operator's name.
struct ByOperator {
  bool operator()(const Verdict& verdict, const std::string& name) const {
    return verdict.operator_name < name;
  }
  bool operator()(const std::string& name, const Verdict& verdict) const {
    return name < verdict.operator_name;
  }
};

// The verdicts of one operator, which stand together, sorted by operator.
class OperatorVerdicts {
 public:
  OperatorVerdicts(const Preparation& preparation, const std::string& name)
      : preparation_(preparation) {
    std::tie(first_, last_) = std::equal_range(preparation.verdicts.begin(),
                                               preparation.verdicts.end(), name, ByOperator{});
  }

  template <class Visit>
  void for_each(std::size_t provider, std::string_view device, const Visit& visit) const {
    for (auto verdict = first_; verdict != last_; ++verdict) {
      if (verdict->provider != provider || verdict->device != device) continue;
      const auto index = static_cast<std::size_t>(verdict - preparation_.verdicts.begin());
      visit(*verdict, preparation_.bindings.calls[index]);
    }
  }

 private:
  const Preparation& preparation_;
  std::vector<Verdict>::const_iterator first_, last_;
};

ShadowRoute shadow_of(const OperatorDeclaration& declaration, const OperatorVerdicts& verdicts,
                      const RoutePolicy& policy, const RouteSettings& settings) {
  ShadowRoute shadow;
  shadow.tolerance = {declaration.tolerance_ulps, declaration.tolerance_absolute};
  if (settings.shadow.provider.empty()) {
    shadow.sample = settings.shadow.sample;
    return shadow;
  }
  for (const std::size_t provider : policy.shadow_providers(declaration.name)) {
    verdicts.for_each(provider, "cpu", [&](const Verdict&, const BoundCall* call) {
      if (shadow.binding == nullptr) shadow.binding = call;
    });
  }
  // Without the binding there is nothing to compare with; the report says so.
  if (shadow.binding != nullptr) shadow.sample = settings.shadow.sample;
  return shadow;
}

}  // namespace

RouteSet make_routes(const Preparation& preparation, const RoutePolicy& policy, bool strict) {
  RouteSet routes;
  routes.strict = strict;
  for (std::size_t at = 0; at < preparation.operators.size(); ++at) {
    const detail::OperatorState* const state = preparation.operators[at];
    if (state == nullptr) continue;
    const OperatorVerdicts verdicts(preparation, state->name);
    const RouteSettings settings = policy.settings(state->name);
    for (const DeviceSlot slot : {DeviceSlot::kCpu, DeviceSlot::kCuda}) {
      const char* const device = slot == DeviceSlot::kCuda ? "cuda" : "cpu";
      DeviceRoute& route = routes.routes[state][static_cast<std::size_t>(slot)];
      route.strict = settings.strict.value_or(strict);
      route.on_error = settings.on_error;
      route.quarantine = settings.quarantine;
      // What a refused file would have bound is not known, so strict mode lets no call pass it by.
      if (route.strict && !preparation.manifests.rejections.empty()) {
        route.skipped.push_back({"a refused manifest", preparation.manifests.rejections.front()});
        route.first_is_skipped = true;
      }
      for (const std::size_t provider : policy.order(state->name, device)) {
        const std::string& name = preparation.manifests.providers[provider].provider;
        verdicts.for_each(provider, device, [&](const Verdict& verdict, const BoundCall* call) {
          if (call == nullptr) {
            route.first_is_skipped |= route.entries.empty();
            route.skipped.push_back({name, verdict.rejection     ? *verdict.rejection
                                           : verdict.stub_driver ? stub_only(verdict)
                                                                 : report_only(verdict)});
          } else if (Check lacks =
                         policy.check_properties(state->name, name, device, verdict.properties)) {
            // Left out on purpose, as a provider that the route does not name: no fallback.
            route.skipped.push_back({name, *std::move(lacks)});
          } else {
            route.entries.push_back(call);
          }
        });
      }
      if (slot == DeviceSlot::kCpu && settings.shadow.sample > 0.0)
        route.shadow =
            shadow_of(preparation.manifests.declarations[at], verdicts, policy, settings);
    }
  }
  return routes;
}

std::vector<Rejection> unusable_shadows(const Preparation& preparation, const RoutePolicy& policy) {
  std::map<std::string, std::vector<std::string>> without_binding;  // operators by provider
  std::vector<std::string> on_cuda;
  for (const OperatorDeclaration& declaration : preparation.manifests.declarations) {
    const RouteSettings settings = policy.settings(declaration.name);
    if (settings.shadow.sample == 0.0) continue;
    const OperatorVerdicts verdicts(preparation, declaration.name);
    const auto has_callable = [&](const std::vector<std::size_t>& providers, const char* device) {
      bool found = false;
      for (const std::size_t provider : providers)
        verdicts.for_each(provider, device,
                          [&](const Verdict&, const BoundCall* call) { found |= call != nullptr; });
      return found;
    };
    if (has_callable(policy.order(declaration.name, "cuda"), "cuda"))
      on_cuda.push_back(declaration.name);
    if (!settings.shadow.provider.empty() &&
        has_callable(policy.order(declaration.name, "cpu"), "cpu") &&
        !has_callable(policy.shadow_providers(declaration.name), "cpu"))
      without_binding[settings.shadow.provider].push_back(declaration.name);
  }
  std::vector<Rejection> rejections;
  for (const auto& [provider, operators] : without_binding) {
    rejections.push_back(reject(rules::kRegistryShadow, "shadow by " + provider,
                                "a callable binding on cpu", "none for " + join(operators, ", ")));
  }
  if (!on_cuda.empty()) {
    rejections.push_back(
        reject(rules::kRegistryShadow, "shadow of calls on cuda", "calls on cpu",
               "calls on cuda, which are not compared, of " + join(on_cuda, ", ")));
  }
  return rejections;
}

void log_decisions(const Preparation& preparation, std::set<std::string>& told) {
  std::map<std::string, bool> is_normal;  // by line
  for (const Rejection& rejection : preparation.manifests.rejections)
    is_normal[to_string(rejection)] = false;
  for (const Rejection& rejection : preparation.rejections) is_normal[to_string(rejection)] = false;

  std::map<std::string, std::vector<std::string>> operators_of;
  std::map<std::string, std::string> rule_of;
  for (const Verdict& verdict : preparation.verdicts) {
    if (!verdict.rejection) continue;
    const std::string line = "provider " +
                             preparation.manifests.providers[verdict.provider].provider +
                             " rejected: " + to_string(*verdict.rejection);
    operators_of[line].push_back(verdict.operator_name);
    rule_of[line] = verdict.rejection->rule;
  }
  for (const auto& [line, operators] : operators_of) {
    // A provider that is not installed, not routed or not ready is how most machines are.
    const std::string& rule = rule_of[line];
    is_normal[line + " (" + join(operators, ", ") + ")"] =
        rule == rules::kDiscoveryDistributionMissing.id ||
        rule == rules::kDiscoveryNoEnvironment.id || rule == rules::kRegistryNotRouted.id ||
        rule == rules::kRegistryStarting.id;
  }
  std::set<std::string> now;
  for (const auto& [line, normal] : is_normal) {
    now.insert(line);
    if (told.count(line) != 0) continue;
    if (normal) {
      log::info(line);
    } else {
      log::warn(line);
    }
  }
  told = std::move(now);
}

}  // namespace opmux
