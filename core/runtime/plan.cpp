// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/rules.hpp"
#include "core/runtime/check_cache.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// Providers whose module is linked into this program.
bool is_linked_in(const std::string& plugin) { return plugin == "native"; }

bool has_dispatcher_contract(const Manifest& manifest) {
  for (const OperatorBinding& binding : manifest.operators) {
    for (const Alternative& alternative : binding.alternatives) {
      if (!std::holds_alternative<ModuleContract>(alternative.contract)) return true;
    }
  }
  return false;
}

// Its plugin module has work to do whatever becomes of the libraries.
bool serves_without_library(const Manifest& manifest) {
  return manifest.libraries.empty() ||
         std::any_of(manifest.operators.begin(), manifest.operators.end(),
                     [](const OperatorBinding& binding) {
                       return std::any_of(
                           binding.alternatives.begin(), binding.alternatives.end(),
                           [](const Alternative& alternative) {
                             return std::holds_alternative<ModuleContract>(alternative.contract);
                           });
                     });
}

LibraryPlan find_candidates(const Library& library, const Manifest& manifest,
                            const PlanContext& context) {
  LibraryPlan plan;
  plan.library = &library;
  for (const LibrarySource& source : library.candidates) {
    CandidatePlan candidate;
    candidate.source = &source;
    Result<FoundLibrary> found =
        find_library(source, context.environments->environments, manifest.file.parent_path());
    if (found.ok()) {
      candidate.found = std::move(*found);
      file_identity(candidate.found->path, candidate.identity);
    } else {
      candidate.rejection = std::move(found).rejection();
    }
    plan.candidates.push_back(std::move(candidate));
  }
  return plan;
}

void choose(LibraryPlan& plan) {
  plan.chosen.reset();
  // Another build of a library that lost a namespace conflict would define the same namespace.
  if (plan.is_in_conflict()) return;
  for (std::size_t index = 0; index < plan.candidates.size(); ++index) {
    if (!plan.candidates[index].rejection) {
      plan.chosen = index;
      return;
    }
  }
}

// Every alternative of the provider runs on CUDA.
bool is_cuda_only(const Manifest& manifest) {
  return std::all_of(
      manifest.operators.begin(), manifest.operators.end(), [](const OperatorBinding& binding) {
        return std::all_of(
            binding.alternatives.begin(), binding.alternatives.end(),
            [](const Alternative& alternative) { return alternative.device == "cuda"; });
      });
}

// Finds torch and the module of one provider; the first provider's torch is the process's.
std::optional<Rejection> find_parts(ProviderPlan& provider, Plan& plan,
                                    const PlanContext& context) {
  const Manifest& manifest = *provider.manifest;
  // Without a driver nothing of it can run: no torch, module or probe is worth the time, and one
  // reason is told.
  if (is_cuda_only(manifest) && context.host->driver.empty() && context.host->stub_driver.empty()) {
    return no_driver();
  }
  if (provider.uses_torch) {
    Result<TorchInstallation> torch =
        find_torch(manifest.requires_, context.environments->environments);
    if (!torch.ok()) return std::move(torch).rejection();
    if (!plan.torch) {
      plan.torch = std::move(*torch);
    } else if (plan.torch->root != torch->root) {
      return reject(rules::kLoaderTorchConflict, torch->root.string(),
                    "torch " + plan.torch->version + " in " + plan.torch->root.string() +
                        ", which a provider of higher priority uses",
                    "torch " + torch->version);
    }
  }
  if (provider.linked_in) return std::nullopt;
  std::vector<fs::path> folders = context.module_folders;
  folders.push_back(manifest.file.parent_path());
  Result<fs::path> module =
      find_module(manifest.plugin, provider.uses_torch ? &*plan.torch : nullptr, folders);
  if (!module.ok()) return std::move(module).rejection();
  provider.module = std::move(*module);
  return std::nullopt;
}

void check_candidates(ProviderPlan& provider, const Plan& plan, const PlanContext& context) {
  const StaticCheckContext check{context.host,
                                 provider.uses_torch && plan.torch ? &*plan.torch : nullptr};
  for (LibraryPlan& library : provider.libraries) {
    for (CandidatePlan& candidate : library.candidates) {
      if (candidate.rejection) continue;
      if (!candidate.is_checked) {
        LibraryCheck outcome = check_library_cached(candidate.found->path, *candidate.source, check,
                                                    context.cache_folder);
        candidate.rejection = std::move(outcome.rejection);
        candidate.needs_cuda = outcome.needs_cuda;
        candidate.is_checked = true;
      }
      if (!candidate.rejection) break;
    }
    choose(library);
  }
}

bool any_library_found(const ProviderPlan& provider) {
  return serves_without_library(*provider.manifest) ||
         std::any_of(
             provider.libraries.begin(), provider.libraries.end(), [](const LibraryPlan& library) {
               return std::any_of(
                   library.candidates.begin(), library.candidates.end(),
                   [](const CandidatePlan& candidate) { return candidate.found.has_value(); });
             });
}

}  // namespace

Rejection no_driver() {
  return reject(rules::kContractNoDriver, "libcuda.so.1", "an NVIDIA driver (libcuda.so.1)",
                "libcuda.so.1 not found: no NVIDIA driver");
}

int check_depth(const Rejection& rejection) {
  static const std::map<std::string, int> depth_of_rule{
      {rules::kDiscoveryDistributionMissing.id, 1}, {rules::kDiscoveryNoMatch.id, 2},
      {rules::kContractOperatorMissing.id, 61},     {rules::kContractModuleOperatorMissing.id, 61},
      {rules::kContractWrongLibrary.id, 62},        {rules::kContractSchemaMismatch.id, 63},
      {rules::kContractDispatchKeyMissing.id, 64},  {rules::kContractNoDevice.id, 65},
  };
  if (const auto at = depth_of_rule.find(rejection.rule); at != depth_of_rule.end())
    return at->second;
  if (rejection.stage == "discovery") return 3;
  if (rejection.stage == "contract") return 20;
  if (rejection.stage == "loader") return 30;
  if (rejection.stage == "probe") return 40;
  return 10;
}

bool LibraryPlan::is_in_conflict() const {
  return std::any_of(candidates.begin(), candidates.end(), [](const CandidatePlan& candidate) {
    return candidate.rejection && candidate.rejection->rule == rules::kProbeConflict.id;
  });
}

const Rejection& LibraryPlan::rejection() const {
  const CandidatePlan* furthest = nullptr;
  for (const CandidatePlan& candidate : candidates) {
    if (!candidate.rejection) continue;
    if (furthest == nullptr ||
        check_depth(*candidate.rejection) > check_depth(*furthest->rejection)) {
      furthest = &candidate;
    }
  }
  return *furthest->rejection;
}

const LibraryPlan* ProviderPlan::find(const std::string& name) const {
  for (const LibraryPlan& plan : libraries) {
    if (plan.library->name == name) return &plan;
  }
  return nullptr;
}

Plan make_plan(const PlanContext& context, const std::vector<bool>& routed) {
  Plan plan;
  for (std::size_t index = 0; index < context.manifests->providers.size(); ++index) {
    const Manifest& manifest = context.manifests->providers[index];
    ProviderPlan provider;
    provider.manifest = &manifest;
    provider.linked_in = is_linked_in(manifest.plugin);
    provider.uses_torch =
        manifest.requires_.torch || manifest.requires_.cuda || has_dispatcher_contract(manifest);
    provider.is_routed = routed[index];
    for (const Library& library : manifest.libraries) {
      LibraryPlan library_plan = find_candidates(library, manifest, context);
      choose(library_plan);
      provider.libraries.push_back(std::move(library_plan));
    }
    // What is not installed needs no torch and no module: its own absence is the reason to tell.
    if (provider.is_routed && any_library_found(provider)) {
      provider.rejection = find_parts(provider, plan, context);
      if (!provider.rejection) check_candidates(provider, plan, context);
    }
    plan.providers.push_back(std::move(provider));
  }
  return plan;
}

void check_libraries(Plan& plan, const PlanContext& context) {
  for (ProviderPlan& provider : plan.providers) {
    if (provider.is_routed && !provider.rejection) check_candidates(provider, plan, context);
  }
}

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
      if (candidate == nullptr) continue;
      has_library = true;
      set.torch_with_cuda |= candidate->needs_cuda;
      const auto same = std::find_if(
          set.libraries.begin(), set.libraries.end(),
          [&](const ProbeLibrary& known) { return known.path == candidate->found->path; });
      if (same != set.libraries.end()) {
        planned.library_slots[static_cast<std::size_t>(same - set.libraries.begin())].push_back(
            {provider_index, library_index});
        continue;
      }
      set.libraries.push_back({candidate->found->path, candidate->source->python_extension,
                               provider.manifest->provider + ": " + library.library->name});
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
