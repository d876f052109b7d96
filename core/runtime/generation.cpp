// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

std::unique_ptr<Generation> make_generation(const Runtime::State& state, bool strict) {
  auto generation = std::make_unique<Generation>();
  generation->strict = strict;
  generation->routes.resize(state.registry->operators().size());
  for (const auto& operator_state : state.registry->operators()) {
    auto& routes = generation->routes[operator_state->index];
    // What a refused file would have bound is not known, so strict mode lets no call pass it by.
    if (strict && !state.manifests.rejections.empty()) {
      for (DeviceRoute& route : routes) {
        route.skipped.push_back({"a refused manifest", state.manifests.rejections.front()});
        route.first_is_skipped = true;
      }
    }
    for (const std::size_t provider : state.policy->order(operator_state->name)) {
      for (std::size_t index = 0; index < state.verdicts.size(); ++index) {
        const Verdict& verdict = state.verdicts[index];
        if (verdict.provider != provider || verdict.operator_name != operator_state->name) continue;
        DeviceRoute& route = routes[static_cast<std::size_t>(
            verdict.device == "cuda" ? DeviceSlot::kCuda : DeviceSlot::kCpu)];
        if (const BoundCall* call = state.bindings.calls[index]) {
          route.entries.push_back(call);
          continue;
        }
        route.first_is_skipped |= route.entries.empty();
        route.skipped.push_back({state.manifests.providers[provider].provider,
                                 verdict.rejection     ? *verdict.rejection
                                 : verdict.stub_driver ? stub_only(verdict)
                                                       : report_only(verdict)});
      }
    }
  }
  return generation;
}

void log_decisions(const Runtime::State& state) {
  for (const Rejection& rejection : state.manifests.rejections) log::warn(to_string(rejection));
  for (const Rejection& rejection : state.rejections) log::warn(to_string(rejection));

  std::map<std::string, std::vector<std::string>> operators_of;
  std::map<std::string, bool> is_normal;
  for (const Verdict& verdict : state.verdicts) {
    if (!verdict.rejection) continue;
    const std::string line = "provider " + state.manifests.providers[verdict.provider].provider +
                             " rejected: " + to_string(*verdict.rejection);
    operators_of[line].push_back(verdict.operator_name);
    // A provider that is not installed, or not routed, is how most machines are.
    is_normal[line] = verdict.rejection->rule == rules::kDiscoveryDistributionMissing.id ||
                      verdict.rejection->rule == rules::kDiscoveryNoEnvironment.id ||
                      verdict.rejection->rule == rules::kRegistryNotRouted.id;
  }
  for (const auto& [line, operators] : operators_of) {
    const std::string text = line + " (" + join(operators, ", ") + ")";
    if (is_normal[line]) {
      log::info(text);
    } else {
      log::warn(text);
    }
  }
}

}  // namespace opmux
