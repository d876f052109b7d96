// SPDX-License-Identifier: Apache-2.0
//
// From the plan to what the probe gets, and from what it found back to the plan.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/loader/binding.hpp"
#include "core/runtime/plan.hpp"
#include "core/runtime/plan_parts.hpp"

namespace opmux {

namespace fs = std::filesystem;

namespace {

// What the modules are asked to bind in the probe.
void add_bindings(const Plan& plan, const std::vector<std::size_t>& order,
                  PlannedLoadSet& planned) {
  LoadSet& set = planned.load_set;
  const auto index_of = [](const auto& list, const auto& is_it) {
    return static_cast<std::size_t>(std::find_if(list.begin(), list.end(), is_it) - list.begin());
  };
  for (const std::size_t provider_index : order) {
    const ProviderPlan& provider = plan.providers[provider_index];
    if (provider.rejection || !provider.is_routed || provider.linked_in) continue;
    for (std::size_t at = 0; at < provider.symbols.size(); ++at) {
      const SymbolPlan& symbols = provider.symbols[at];
      if (symbols.rejection) continue;
      ProbeBinding binding;
      binding.module =
          index_of(set.modules, [&](const fs::path& module) { return module == provider.module; });
      binding.library = index_of(
          set.libraries, [&](const ProbeLibrary& library) { return library.path == symbols.path; });
      if (binding.module == set.modules.size() || binding.library == set.libraries.size()) continue;
      const OperatorDeclaration* declaration =
          plan.manifests->find_declaration(symbols.binding->operator_name);
      binding.binding = foreign_binding(*symbols.alternative, *declaration, symbols.mangled);
      set.bindings.push_back(std::move(binding));
      planned.binding_slots.push_back({provider_index, at});
    }
  }
}

}  // namespace

PlannedLoadSet make_load_set(const Plan& plan, const std::vector<std::size_t>& order,
                             const HostFacts& host) {
  PlannedLoadSet planned;
  LoadSet& set = planned.load_set;
  bool uses_torch = false;
  for (const std::size_t provider_index : order) {
    const ProviderPlan& provider = plan.providers[provider_index];
    if (provider.rejection || !provider.is_routed) continue;
    bool has_library = serves_without_library(*provider.manifest);
    for (std::size_t library_index = 0; library_index < provider.libraries.size();
         ++library_index) {
      const LibraryPlan& library = provider.libraries[library_index];
      const CandidatePlan* candidate = library.in_use();
      if (candidate == nullptr || !is_needed(provider, library_index)) continue;
      has_library = true;
      if (candidate->python && !set.python) set.python = candidate->python;
      set.torch_with_cuda |= candidate->needs_cuda;
      const auto same = std::find_if(
          set.libraries.begin(), set.libraries.end(),
          [&](const ProbeLibrary& known) { return known.path == candidate->found->path; });
      if (same != set.libraries.end()) {
        // Mapped once: as the manifest asks that brings Python, which makes all its imports good.
        same->libpython |= candidate->python.has_value();
        same->python_extension &= candidate->source->python_extension;
        planned.library_slots[static_cast<std::size_t>(same - set.libraries.begin())].push_back(
            {provider_index, library_index});
        continue;
      }
      set.libraries.push_back({candidate->found->path, candidate->source->python_extension,
                               label_of(provider, library), candidate->python.has_value()});
      planned.library_slots.push_back({{provider_index, library_index}});
    }
    if (!has_library || provider.linked_in) continue;
    uses_torch |= provider.uses_torch;
    const auto same = std::find(set.modules.begin(), set.modules.end(), provider.module);
    if (same != set.modules.end()) {
      planned.module_slots[static_cast<std::size_t>(same - set.modules.begin())].push_back(
          provider_index);
    } else {
      set.modules.push_back(provider.module);
      planned.module_slots.push_back({provider_index});
    }
  }
  add_bindings(plan, order, planned);
  if (uses_torch) set.torch = plan.torch;
  if (set.torch_with_cuda) {
    set.stub_driver = !host.stub_driver.empty();
    set.driver = set.stub_driver ? host.stub_driver : host.driver;
  }
  return planned;
}

bool apply_findings(Plan& plan, const PlannedLoadSet& planned, const Findings& findings) {
  if (findings.torch_rejection) {
    for (ProviderPlan& provider : plan.providers) {
      if (provider.uses_torch && !provider.rejection) provider.rejection = findings.torch_rejection;
    }
  }
  for (std::size_t index = 0; index < planned.module_slots.size(); ++index) {
    const std::optional<Rejection>& rejection = findings.modules[index].rejection;
    if (!rejection) continue;
    for (const std::size_t provider : planned.module_slots[index])
      plan.providers[provider].rejection = rejection;
  }
  for (std::size_t index = 0; index < planned.binding_slots.size(); ++index) {
    const std::optional<Rejection>& rejection = findings.bindings[index];
    if (!rejection) continue;
    const PlannedLoadSet::SymbolSlot& slot = planned.binding_slots[index];
    plan.providers[slot.provider].symbols[slot.symbols].rejection = rejection;
  }
  bool next_candidate = false;
  for (std::size_t index = 0; index < planned.library_slots.size(); ++index) {
    const std::optional<Rejection>& rejection = findings.libraries[index].rejection;
    if (!rejection) continue;
    for (const PlannedLoadSet::LibrarySlot& slot : planned.library_slots[index]) {
      LibraryPlan& library = plan.providers[slot.provider].libraries[slot.library];
      library.candidates[*library.chosen].rejection = rejection;
      choose(library);
      next_candidate |= library.chosen.has_value();
    }
  }
  return next_candidate;
}

}  // namespace opmux
