// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/state.hpp"

namespace opmux {
namespace {

// Broken, whatever asks for it: as opposed to a library that is sound and is not what a manifest
// asks for.
bool is_broken(const Rejection& rejection) {
  static const std::array<std::string_view, 4> kBytes{
      rules::kContractNotElf.id, rules::kContractTruncated.id, rules::kContractMalformed.id,
      rules::kContractNotShared.id};
  return rejection.stage == "probe" || rejection.stage == "loader" ||
         std::find(kBytes.begin(), kBytes.end(), rejection.rule) != kBytes.end();
}

using Key = std::tuple<std::string, std::string, std::string>;

Key key_of(const Rejection& rejection) {
  return {rejection.rule, rejection.subject, rejection.found};
}

std::set<Key> faults_of(const Preparation& preparation) {
  std::set<Key> faults;
  for (const auto* list : {&preparation.manifests.rejections, &preparation.rejections,
                           &preparation.environments.rejections}) {
    for (const Rejection& rejection : *list) faults.insert(key_of(rejection));
  }
  for (const Verdict& verdict : preparation.verdicts) {
    if (verdict.rejection && is_broken(*verdict.rejection))
      faults.insert(key_of(*verdict.rejection));
  }
  return faults;
}

const Verdict* find_verdict(const Preparation& preparation, const std::string& provider,
                            const Verdict& like) {
  for (const Verdict& verdict : preparation.verdicts) {
    if (verdict.operator_name == like.operator_name && verdict.device == like.device &&
        preparation.manifests.providers[verdict.provider].provider == provider) {
      return &verdict;
    }
  }
  return nullptr;
}

// Gone, or left out on purpose: the next binding of the route takes its place.
bool is_gone(const Rejection& rejection) {
  return rejection.stage == "discovery" || rejection.rule == rules::kRegistryNotRouted.id;
}

// In strict mode a route whose head is missing refuses every call.
bool can_serve(const DeviceRoute& route) {
  return !route.entries.empty() && !(route.strict && route.first_is_skipped);
}

}  // namespace

std::vector<Rejection> new_faults(const Preparation& running, const Preparation& next) {
  const std::set<Key> known = faults_of(running);
  std::vector<Rejection> faults;
  std::set<Key> told;
  const auto add = [&](const Rejection& rejection) {
    const Key key = key_of(rejection);
    if (known.count(key) == 0 && told.insert(key).second) faults.push_back(rejection);
  };
  for (const auto* list :
       {&next.manifests.rejections, &next.rejections, &next.environments.rejections}) {
    for (const Rejection& rejection : *list) add(rejection);
  }
  for (const Verdict& verdict : next.verdicts) {
    if (verdict.rejection && is_broken(*verdict.rejection)) add(*verdict.rejection);
  }
  for (std::size_t index = 0; index < running.verdicts.size(); ++index) {
    if (running.bindings.calls[index] == nullptr) continue;
    const Verdict& served = running.verdicts[index];
    const Verdict* const now =
        find_verdict(next, running.manifests.providers[served.provider].provider, served);
    if (now != nullptr && now->rejection && !is_gone(*now->rejection)) add(*now->rejection);
  }
  return faults;
}

std::vector<Rejection> unserved(const Generation& running, const RouteSet& next) {
  // One for each device and reason: one edit often takes a provider from all operators.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> operators;
  for (const auto& [state, devices] : next.routes) {
    const OperatorRoute* const now =
        state->index < running.routes.size() ? running.routes[state->index] : nullptr;
    if (now == nullptr) continue;
    for (std::size_t slot = 0; slot < kDeviceSlots; ++slot) {
      if (!can_serve(now->devices[slot]) || can_serve(devices[slot])) continue;
      const std::vector<SkippedBinding>& skipped = devices[slot].skipped;
      const std::string device =
          slot == static_cast<std::size_t>(DeviceSlot::kCuda) ? "cuda" : "cpu";
      const std::string reason =
          skipped.empty() ? "no provider of the route has one"
                          : skipped.front().provider + ": " + to_string(skipped.front().rejection);
      operators[{device, reason}].push_back(state->name);
    }
  }
  std::vector<Rejection> rejections;
  for (auto& [key, names] : operators) {
    std::sort(names.begin(), names.end());
    rejections.push_back(reject(rules::kRuntimeUnserved, join(names, ", ") + " on " + key.first,
                                "a usable binding, as there is now", "none: " + key.second));
  }
  return rejections;
}

}  // namespace opmux
