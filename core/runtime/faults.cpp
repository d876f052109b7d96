// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "core/base/rules.hpp"
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
  for (const auto* list : {&preparation.manifests.rejections, &preparation.rejections}) {
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

}  // namespace

std::vector<Rejection> new_faults(const Preparation& running, const Preparation& next) {
  const std::set<Key> known = faults_of(running);
  std::vector<Rejection> faults;
  std::set<Key> told;
  const auto add = [&](const Rejection& rejection) {
    const Key key = key_of(rejection);
    if (known.count(key) == 0 && told.insert(key).second) faults.push_back(rejection);
  };
  for (const Rejection& rejection : next.manifests.rejections) add(rejection);
  for (const Rejection& rejection : next.rejections) add(rejection);
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

}  // namespace opmux
