// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/trust.hpp"
#include "core/runtime/check_cache.hpp"
#include "core/runtime/plan_parts.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// Functions of a library need torch only where the manifest says so.
bool has_dispatcher_contract(const Manifest& manifest) {
  for (const OperatorBinding& binding : manifest.operators) {
    for (const Alternative& alternative : binding.alternatives) {
      if (std::holds_alternative<DispatcherContract>(alternative.contract)) return true;
    }
  }
  return false;
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
      candidate.rejection = require_trust(candidate.found->path, context.trust);
    } else {
      candidate.rejection = std::move(found).rejection();
    }
    plan.candidates.push_back(std::move(candidate));
  }
  return plan;
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

// The libraries of torch that a process maps, and the folders that theirs come from.
Check check_torch_trust(const TorchInstallation& torch, Trust trust) {
  for (const char* name :
       {"libc10.so", "libtorch_cpu.so", "libtorch.so", "libc10_cuda.so", "libtorch_cuda.so"}) {
    if (Check untrusted = require_trust(torch.library_folder / name, trust)) return untrusted;
  }
  for (const fs::path& folder : torch.dependency_folders)
    if (Check untrusted = require_trust(folder, trust)) return untrusted;
  return std::nullopt;
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
    if (Check untrusted = check_torch_trust(*torch, context.trust)) return untrusted;
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
  // A module that is being copied is told from its bytes, not by the probe's end.
  file_identity(*module, provider.module_identity);
  if (auto bytes = elf::read(*module, elf::Detail::kDependencies); !bytes)
    return std::move(bytes).rejection();
  if (Check untrusted = require_trust(*module, context.trust)) return untrusted;
  provider.module = std::move(*module);
  return std::nullopt;
}

// The libpython of a true Python extension.
Check find_python(CandidatePlan& candidate, const StaticCheckContext& check,
                  const PlanContext& context) {
  if (!candidate.source->libpython) return std::nullopt;
  std::string version = extension_python_version(candidate.found->path);
  if (version.empty() && check.torch != nullptr) version = check.torch->python;
  if (version.empty()) {
    return reject(rules::kDiscoveryLibpythonMissing, candidate.found->path.string(),
                  "a file name that tells its Python, or a torch that does", "neither");
  }
  // Before libpython is looked for: another one would not help.
  if (check.torch != nullptr) {
    if (Check other = check_torch_python(candidate.found->path, version, *check.torch))
      return other;
  }
  Result<PythonLibrary> python = find_libpython(version, context.environments->environments);
  if (!python.ok()) return std::move(python).rejection();
  if (Check untrusted = require_trust(python->path, context.trust)) return untrusted;
  candidate.python = *std::move(python);
  return std::nullopt;
}

// What the library brings with it.
Check check_needed_trust(const std::vector<fs::path>& needed) {
  for (const fs::path& file : needed)
    if (Check untrusted = check_trust(file)) return untrusted;
  return std::nullopt;
}

void check_candidates(ProviderPlan& provider, const Plan& plan, const PlanContext& context) {
  StaticCheckContext check = check_context(provider, plan, context);
  for (LibraryPlan& library : provider.libraries) {
    for (CandidatePlan& candidate : library.candidates) {
      if (candidate.rejection) continue;
      if (!candidate.is_checked) {
        candidate.is_checked = true;
        if (Check python = find_python(candidate, check, context)) {
          candidate.rejection = std::move(python);
          continue;
        }
        check.python = candidate.python ? &*candidate.python : nullptr;
        LibraryCheck outcome = check_library_cached(candidate.found->path, *candidate.source, check,
                                                    context.cache_folder);
        candidate.rejection = std::move(outcome.rejection);
        candidate.needs_cuda = outcome.needs_cuda;
        candidate.needed = std::move(outcome.needed);
        if (!candidate.rejection && context.trust == Trust::kStrict)
          candidate.rejection = check_needed_trust(candidate.needed);
      }
      if (!candidate.rejection) break;
    }
    choose(library);
  }
  match_symbols(provider, plan, context);
  // A candidate without a function that anything asks for is no better than one that is broken.
  if (pass_to_next_candidates(provider)) check_candidates(provider, plan, context);
}

void add_checked_files(const ProviderPlan& provider, Plan& plan) {
  for (const LibraryPlan& library : provider.libraries)
    for (const CandidatePlan& candidate : library.candidates)
      if (candidate.found) plan.checked_files[candidate.found->path] = candidate.identity;
  FileIdentity identity;
  if (!provider.module.empty() && file_identity(provider.module, identity))
    plan.checked_files[provider.module] = identity;
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

bool is_linked_in(const std::string& plugin) { return plugin == "native"; }

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

StaticCheckContext check_context(const ProviderPlan& provider, const Plan& plan,
                                 const PlanContext& context) {
  StaticCheckContext check;
  check.host = context.host;
  check.torch = provider.uses_torch && plan.torch ? &*plan.torch : nullptr;
  return check;
}

std::string label_of(const ProviderPlan& provider, const LibraryPlan& library) {
  return provider.manifest->provider + ": " + library.library->name;
}

Rejection no_driver() {
  return reject(rules::kContractNoDriver, "libcuda.so.1", "an NVIDIA driver (libcuda.so.1)",
                "libcuda.so.1 not found: no NVIDIA driver");
}

int check_depth(const Rejection& rejection) {
  static const std::map<std::string, int> depth_of_rule{
      {rules::kDiscoveryDistributionMissing.id, 1}, {rules::kDiscoveryNoMatch.id, 2},
      {rules::kContractOperatorMissing.id, 61},     {rules::kContractModuleOperatorMissing.id, 61},
      {rules::kContractSymbolMissing.id, 61},       {rules::kContractSymbolElsewhere.id, 62},
      {rules::kContractSymbolNoFunction.id, 62},    {rules::kContractSymbolUnexpected.id, 63},
      {rules::kContractSymbolTwice.id, 63},         {rules::kLoaderBindRefused.id, 64},
      {rules::kContractWrongLibrary.id, 62},        {rules::kContractSchemaMismatch.id, 63},
      {rules::kContractDispatchKeyMissing.id, 64},  {rules::kContractNoDevice.id, 65},
  };
  if (const auto at = depth_of_rule.find(rejection.rule); at != depth_of_rule.end())
    return at->second;
  if (rejection.stage == "discovery") return 3;
  if (rejection.stage == "contract" || rejection.stage == "trust") return 20;
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

const SymbolPlan* ProviderPlan::find_symbols(const Alternative& alternative,
                                             const std::string& library) const {
  for (const SymbolPlan& plan : symbols) {
    if (plan.alternative == &alternative && libraries[plan.library].library->name == library)
      return &plan;
  }
  return nullptr;
}

const CandidatePlan* ProviderPlan::find_candidate(const fs::path& path) const {
  for (const LibraryPlan& plan : libraries)
    for (const CandidatePlan& candidate : plan.candidates)
      if (candidate.found && candidate.found->path == path) return &candidate;
  return nullptr;
}

const LibraryPlan* ProviderPlan::find(const std::string& name) const {
  for (const LibraryPlan& plan : libraries) {
    if (plan.library->name == name) return &plan;
  }
  return nullptr;
}

Plan make_plan(const PlanContext& context, const std::vector<bool>& routed) {
  Plan plan;
  plan.manifests = context.manifests;
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
    if (context.trust == Trust::kStrict) add_checked_files(provider, plan);
    plan.providers.push_back(std::move(provider));
  }
  return plan;
}

void check_libraries(Plan& plan, const PlanContext& context) {
  for (ProviderPlan& provider : plan.providers) {
    if (provider.is_routed && !provider.rejection) check_candidates(provider, plan, context);
  }
}

}  // namespace opmux
