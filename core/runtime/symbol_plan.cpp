// SPDX-License-Identifier: Apache-2.0
//
// Direct symbol alternatives: which library has their functions, and which libraries get in each
// other's way.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rules.hpp"
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

bool pass_to_next_candidates(ProviderPlan& provider) {
  bool passed = false;
  for (std::size_t index = 0; index < provider.libraries.size(); ++index) {
    LibraryPlan& library = provider.libraries[index];
    if (library.in_use() == nullptr || is_needed(provider, index)) continue;
    const Rejection* furthest = nullptr;
    for (const SymbolPlan& symbols : provider.symbols) {
      if (symbols.library != index || !symbols.rejection) continue;
      if (furthest == nullptr || check_depth(*symbols.rejection) > check_depth(*furthest))
        furthest = &*symbols.rejection;
    }
    const bool last =
        std::all_of(library.candidates.begin() + static_cast<std::ptrdiff_t>(*library.chosen) + 1,
                    library.candidates.end(),
                    [](const CandidatePlan& candidate) { return candidate.rejection.has_value(); });
    if (furthest == nullptr || last) continue;
    library.candidates[*library.chosen].rejection = *furthest;
    passed = true;
  }
  return passed;
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

namespace {

// A library in use, and what decides whether others can be used beside it.
struct UsedLibrary {
  SymbolLibrary symbols;
  std::optional<PythonLibrary> python;
};

UsedLibrary used_library(const ProviderPlan& provider, std::size_t index) {
  const LibraryPlan& library = provider.libraries[index];
  const CandidatePlan& candidate = *library.in_use();
  UsedLibrary used{{candidate.found->path, label_of(provider, library), {}}, candidate.python};
  for (const SymbolPlan& symbols : provider.symbols) {
    if (symbols.library != index || symbols.rejection) continue;
    used.symbols.symbols.insert(used.symbols.symbols.end(), symbols.mangled.begin(),
                                symbols.mangled.end());
  }
  return used;
}

Check check_beside(const UsedLibrary& library, const UsedLibrary& higher) {
  if (library.python && higher.python && library.python->version != higher.python->version) {
    return reject(rules::kLoaderPythonConflict, library.symbols.path.string(),
                  "Python " + higher.python->version + ", which " + higher.symbols.label +
                      " before it in the load set is built for",
                  "Python " + library.python->version);
  }
  // Libraries whose functions nobody looks up are apart: each is mapped for itself alone.
  if (library.symbols.symbols.empty() || higher.symbols.symbols.empty()) return std::nullopt;
  return check_symbol_conflict(library.symbols, higher.symbols);
}

// The first library in conflict with one before it is rejected.
LibraryPlan* reject_first_conflict(Plan& plan, const std::vector<std::size_t>& order) {
  std::vector<UsedLibrary> higher;
  for (const std::size_t provider_index : order) {
    ProviderPlan& provider = plan.providers[provider_index];
    if (provider.rejection || !provider.is_routed) continue;
    for (std::size_t index = 0; index < provider.libraries.size(); ++index) {
      LibraryPlan& library = provider.libraries[index];
      if (library.in_use() == nullptr || !is_needed(provider, index)) continue;
      UsedLibrary used = used_library(provider, index);
      for (const UsedLibrary& other : higher) {
        Check conflict = check_beside(used, other);
        if (!conflict) continue;
        library.candidates[*library.chosen].rejection = std::move(conflict);
        library.candidates[*library.chosen].lost_conflict = true;
        return &library;
      }
      higher.push_back(std::move(used));
    }
  }
  return nullptr;
}

}  // namespace

void reject_conflicts(Plan& plan, const std::vector<std::size_t>& order,
                      const PlanContext& context) {
  // What was lost to a library that has been rejected since is won again.
  bool won = false;
  for (ProviderPlan& provider : plan.providers) {
    for (LibraryPlan& library : provider.libraries) {
      for (CandidatePlan& candidate : library.candidates) {
        if (!candidate.lost_conflict) continue;
        candidate.lost_conflict = false;
        candidate.rejection.reset();
        choose(library);
        won = true;
      }
    }
  }
  if (won) check_libraries(plan, context);
  while (LibraryPlan* loser = reject_first_conflict(plan, order)) {
    choose(*loser);
    check_libraries(plan, context);
  }
}

}  // namespace opmux
