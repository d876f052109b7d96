// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
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

}  // namespace

RouteSet make_routes(const Preparation& preparation, const RoutePolicy& policy, bool strict) {
  RouteSet routes;
  routes.strict = strict;
  for (const detail::OperatorState* const state : preparation.operators) {
    if (state == nullptr) continue;
    DeviceRoutes& devices = routes.routes[state];
    for (DeviceRoute& route : devices) {
      route.strict = strict;
      // What a refused file would have bound is not known, so strict mode lets no call pass it by.
      if (strict && !preparation.manifests.rejections.empty()) {
        route.skipped.push_back({"a refused manifest", preparation.manifests.rejections.front()});
        route.first_is_skipped = true;
      }
    }
    // The verdicts are sorted by operator.
    const auto [first, last] = std::equal_range(
        preparation.verdicts.begin(), preparation.verdicts.end(), state->name, ByOperator{});
    for (const std::size_t provider : policy.order(state->name)) {
      for (auto verdict = first; verdict != last; ++verdict) {
        if (verdict->provider != provider) continue;
        DeviceRoute& route = devices[static_cast<std::size_t>(
            verdict->device == "cuda" ? DeviceSlot::kCuda : DeviceSlot::kCpu)];
        const auto index = static_cast<std::size_t>(verdict - preparation.verdicts.begin());
        if (const BoundCall* call = preparation.bindings.calls[index]) {
          route.entries.push_back(call);
          continue;
        }
        route.first_is_skipped |= route.entries.empty();
        route.skipped.push_back({preparation.manifests.providers[provider].provider,
                                 verdict->rejection     ? *verdict->rejection
                                 : verdict->stub_driver ? stub_only(*verdict)
                                                        : report_only(*verdict)});
      }
    }
  }
  return routes;
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
