// SPDX-License-Identifier: Apache-2.0
//
// Direct symbol alternatives: which library has their functions, and which libraries get in each
// other's way.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/check_cache.hpp"
#include "core/runtime/plan.hpp"
#include "core/runtime/plan_parts.hpp"

namespace opmux {

void match_symbols(ProviderPlan& provider, const Plan& plan, const PlanContext& context) {
  std::vector<SymbolPlan> matched;
  for (const OperatorBinding& binding : provider.manifest->operators) {
    for (const Alternative& alternative : binding.alternatives) {
      const auto* contract = std::get_if<DirectSymbolContract>(&alternative.contract);
      if (contract == nullptr) continue;
      for (std::size_t index = 0; index < provider.libraries.size(); ++index) {
        const LibraryPlan& library = provider.libraries[index];
        const CandidatePlan* candidate = library.in_use();
        if (candidate == nullptr ||
            std::find(alternative.libraries.begin(), alternative.libraries.end(),
                      library.library->name) == alternative.libraries.end())
          continue;
        const auto known = std::find_if(
            provider.symbols.begin(), provider.symbols.end(), [&](const SymbolPlan& symbols) {
              return symbols.alternative == &alternative && symbols.library == index &&
                     symbols.path == candidate->found->path;
            });
        if (known != provider.symbols.end()) {
          matched.push_back(*known);
          continue;
        }
        SymbolPlan symbols{&binding, &alternative, index, candidate->found->path, {}, {}};
        StaticCheckContext check = check_context(provider, plan, context);
        check.python = candidate->python ? &*candidate->python : nullptr;
        Result<std::vector<std::string>> mangled = find_symbols_cached(
            *contract, symbols.path, *candidate->source, check, context.cache_folder);
        if (mangled.ok()) {
          symbols.mangled = *std::move(mangled);
        } else {
          symbols.rejection = std::move(mangled).rejection();
        }
        matched.push_back(std::move(symbols));
      }
    }
  }
  provider.symbols = std::move(matched);
}

bool is_needed(const ProviderPlan& provider, std::size_t library) {
  const std::string& name = provider.libraries[library].library->name;
  for (const OperatorBinding& binding : provider.manifest->operators) {
    for (const Alternative& alternative : binding.alternatives) {
      if (std::find(alternative.libraries.begin(), alternative.libraries.end(), name) ==
          alternative.libraries.end())
        continue;
      const SymbolPlan* symbols = provider.find_symbols(alternative, name);
      if (symbols == nullptr || !symbols->rejection) return true;
    }
  }
  return false;
}

void reject_symbol_conflicts(Plan& plan, const std::vector<std::size_t>& order,
                             const PlanContext& context) {
  for (;;) {
    std::vector<SymbolLibrary> higher;
    LibraryPlan* loser = nullptr;
    for (const std::size_t provider_index : order) {
      ProviderPlan& provider = plan.providers[provider_index];
      if (provider.rejection || !provider.is_routed) continue;
      for (std::size_t index = 0; index < provider.libraries.size() && loser == nullptr; ++index) {
        LibraryPlan& library = provider.libraries[index];
        const CandidatePlan* candidate = library.in_use();
        if (candidate == nullptr || !is_needed(provider, index)) continue;
        SymbolLibrary entry{candidate->found->path, label_of(provider, library), {}};
        for (const SymbolPlan& symbols : provider.symbols) {
          if (symbols.library != index || symbols.rejection) continue;
          entry.symbols.insert(entry.symbols.end(), symbols.mangled.begin(), symbols.mangled.end());
        }
        for (const SymbolLibrary& other : higher) {
          // Libraries whose functions nobody looks up are apart: each is mapped for itself alone.
          if (entry.symbols.empty() || other.symbols.empty()) continue;
          Check conflict = check_symbol_conflict(entry, other);
          if (!conflict) continue;
          library.candidates[*library.chosen].rejection = std::move(conflict);
          loser = &library;
          break;
        }
        higher.push_back(std::move(entry));
      }
    }
    if (loser == nullptr) return;
    choose(*loser);
    check_libraries(plan, context);
  }
}

}  // namespace opmux
