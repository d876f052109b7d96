// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/verdicts.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/schema/schema.hpp"

namespace opmux {
namespace {

// One alternative tried with one library (or none): usable, or why not.
struct Attempt {
  const Alternative* alternative = nullptr;
  std::optional<FoundLibrary> library;
  FileIdentity identity;
  std::vector<std::string> mangled;  // of a direct symbol contract
  std::optional<Rejection> rejection;
};

struct TableOperator {
  std::string name;
  std::string schema;
  int device_type = 0;
  Properties properties = 0;
};

int device_type_of(const std::string& device) {
  return device == "cuda" ? OPMUX_DEVICE_CUDA : OPMUX_DEVICE_CPU;
}

// A provider's own table: the linked-in module's, or what the probe listed.
std::vector<TableOperator> table_of(const ProviderPlan& provider, const VerdictContext& context) {
  std::vector<TableOperator> table;
  if (provider.linked_in) {
    for (std::uint32_t index = 0; index < context.native->operator_count; ++index) {
      const OpmuxOperatorEntry& entry = context.native->operators[index];
      table.push_back({entry.name, entry.schema, entry.device_type, entry.properties});
    }
    return table;
  }
  for (const ModuleFinding& module : context.findings->modules) {
    if (module.path != provider.module) continue;
    for (const ModuleFinding::Operator& entry : module.operators) {
      table.push_back({entry.name, entry.schema, entry.device_type, entry.properties});
    }
  }
  return table;
}

// The manifest's word counts; where it has none, a module speaks for its own table.
Properties properties_of(const Alternative& alternative, const ProviderPlan& provider,
                         const VerdictContext& context) {
  if (alternative.properties) return *alternative.properties;
  const auto* contract = std::get_if<ModuleContract>(&alternative.contract);
  if (contract == nullptr) return 0;
  for (const TableOperator& entry : table_of(provider, context)) {
    if (entry.name == contract->operator_name &&
        entry.device_type == device_type_of(alternative.device))
      return entry.properties;
  }
  return 0;
}

Check check_module_contract(const ModuleContract& contract, const Alternative& alternative,
                            const OperatorDeclaration& declaration, const ProviderPlan& provider,
                            const VerdictContext& context) {
  const std::string subject =
      (provider.linked_in ? std::string("linked-in module") : provider.module.string()) + ": " +
      contract.operator_name;
  std::vector<std::string> names;
  for (const TableOperator& entry : table_of(provider, context)) {
    names.push_back(entry.name);
    if (entry.name != contract.operator_name ||
        entry.device_type != device_type_of(alternative.device))
      continue;
    Result<schema::Schema> found = schema::parse(entry.schema);
    if (!found.ok()) {
      return reject(rules::kContractSchemaMismatch, subject, declaration.schema_text,
                    printable(entry.schema));
    }
    // The table may list the operator under another name than the one it is declared with.
    schema::Schema expected = declaration.schema;
    expected.name = found->name;
    expected.overload = found->overload;
    const std::string difference = schema::difference(expected, *found);
    if (difference.empty()) return std::nullopt;
    return reject(rules::kContractSchemaMismatch, subject, declaration.schema_text,
                  difference + ", in " + printable(entry.schema));
  }
  const std::string near = nearest(contract.operator_name, names);
  return reject(
      rules::kContractModuleOperatorMissing, subject,
      "operator " + contract.operator_name + " on " + alternative.device + " in the module's table",
      std::to_string(names.size()) + " other operators" +
          (near.empty() ? "" : ", the nearest is " + near));
}

Attempt try_library(const Alternative& alternative, const LibraryPlan& library,
                    const ProviderPlan& provider, const VerdictContext& context) {
  Attempt attempt;
  attempt.alternative = &alternative;
  const CandidatePlan* candidate = library.in_use();
  if (candidate == nullptr) {
    attempt.rejection = library.rejection();
    for (const CandidatePlan& failed : library.candidates) {
      if (failed.found && !attempt.library) attempt.library = failed.found;
    }
    return attempt;
  }
  attempt.library = candidate->found;
  attempt.identity = candidate->identity;
  if (const auto* contract = std::get_if<DispatcherContract>(&alternative.contract)) {
    attempt.rejection = check_dispatcher_contract(*contract, candidate->found->path,
                                                  context.findings->registrations);
  } else if (const SymbolPlan* symbols =
                 provider.find_symbols(alternative, library.library->name)) {
    attempt.rejection = symbols->rejection;
    attempt.mangled = symbols->mangled;
  }
  return attempt;
}

// The alternative with each of its libraries, in order, up to the first that is usable.
std::vector<Attempt> try_alternative(const Alternative& alternative,
                                     const OperatorDeclaration& declaration,
                                     const ProviderPlan& provider, const VerdictContext& context) {
  std::vector<Attempt> attempts;
  if (const auto* contract = std::get_if<ModuleContract>(&alternative.contract)) {
    Attempt attempt;
    attempt.alternative = &alternative;
    attempt.rejection = provider.rejection;
    if (!attempt.rejection) {
      attempt.rejection =
          check_module_contract(*contract, alternative, declaration, provider, context);
    }
    attempts.push_back(std::move(attempt));
    return attempts;
  }
  for (const std::string& name : alternative.libraries) {
    const LibraryPlan& library = *provider.find(name);
    Attempt attempt;
    attempt.alternative = &alternative;
    // A library that is not there is told before anything that is wrong with the provider as a
    // whole.
    const bool found =
        std::any_of(library.candidates.begin(), library.candidates.end(),
                    [](const CandidatePlan& candidate) { return candidate.found.has_value(); });
    if (provider.rejection && found) {
      attempt.rejection = provider.rejection;
      for (const CandidatePlan& candidate : library.candidates) {
        if (candidate.found && !attempt.library) attempt.library = candidate.found;
      }
    } else {
      attempt = try_library(alternative, library, provider, context);
    }
    const bool usable = !attempt.rejection;
    attempts.push_back(std::move(attempt));
    if (usable) break;
  }
  return attempts;
}

AlternativeReport report_of(const Attempt& attempt) {
  AlternativeReport report;
  if (attempt.library) report.library = attempt.library->path.string();
  report.contract = contract_name(attempt.alternative->contract);
  report.usable = !attempt.rejection;
  report.rejection = attempt.rejection;
  return report;
}

bool is_same(const Rejection& a, const Rejection& b) {
  return a.rule == b.rule && a.subject == b.subject && a.found == b.found;
}

// Failed candidates of the library that the attempt stands for, beside the one whose rejection is
// told: they are part of the reason why this one serves, or why none does. Other libraries of the
// alternative are attempts of their own.
void add_failed_candidates(const Attempt& chosen, const ProviderPlan& provider,
                           std::vector<AlternativeReport>& lost) {
  for (const std::string& name : chosen.alternative->libraries) {
    const LibraryPlan& library = *provider.find(name);
    const CandidatePlan* in_use = library.in_use();
    const bool is_chosen = in_use != nullptr
                               ? chosen.library && in_use->found->path == chosen.library->path
                               : chosen.rejection && !provider.rejection &&
                                     is_same(library.rejection(), *chosen.rejection);
    if (!is_chosen) continue;
    for (const CandidatePlan& candidate : library.candidates) {
      if (&candidate == in_use) break;
      if (!candidate.rejection) continue;
      if (chosen.rejection && is_same(*candidate.rejection, *chosen.rejection)) continue;
      AlternativeReport report;
      if (candidate.found) report.library = candidate.found->path.string();
      report.contract = contract_name(chosen.alternative->contract);
      report.rejection = candidate.rejection;
      lost.push_back(std::move(report));
    }
  }
}

Verdict decide_binding(const std::vector<const Alternative*>& alternatives,
                       const OperatorDeclaration& declaration, std::size_t provider_index,
                       const VerdictContext& context) {
  const ProviderPlan& provider = context.plan->providers[provider_index];
  Verdict verdict;
  verdict.operator_name = declaration.name;
  verdict.provider = provider_index;
  verdict.device = alternatives.front()->device;
  if (!provider.is_routed) {
    verdict.alternative = alternatives.front();
    verdict.rejection =
        reject(rules::kRegistryNotRouted, declaration.name + ": " + provider.manifest->provider,
               "a route that names provider " + provider.manifest->provider, "none");
    return verdict;
  }
  std::vector<Attempt> attempts;
  for (const Alternative* alternative : alternatives) {
    for (Attempt& attempt : try_alternative(*alternative, declaration, provider, context)) {
      // Without a device the reason is the same whatever the library registers.
      if (attempt.library || !attempt.rejection) {
        if (std::optional<Rejection> device =
                check_device(*alternative, *provider.manifest, context)) {
          attempt.rejection = std::move(device);
        }
      }
      attempts.push_back(std::move(attempt));
    }
  }
  auto chosen = std::find_if(attempts.begin(), attempts.end(),
                             [](const Attempt& attempt) { return !attempt.rejection; });
  if (chosen == attempts.end()) {
    chosen =
        std::max_element(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
          return check_depth(*a.rejection) < check_depth(*b.rejection);
        });
  }
  verdict.alternative = chosen->alternative;
  verdict.library = chosen->library;
  verdict.library_identity = chosen->identity;
  verdict.mangled = chosen->mangled;
  verdict.rejection = chosen->rejection;
  verdict.properties = properties_of(*chosen->alternative, provider, context);
  verdict.stub_driver =
      !verdict.rejection && verdict.device == "cuda" && !context.host->stub_driver.empty();
  add_failed_candidates(*chosen, provider, verdict.lost);
  for (const Attempt& attempt : attempts) {
    if (&attempt != &*chosen) verdict.lost.push_back(report_of(attempt));
  }
  return verdict;
}

}  // namespace

std::optional<Rejection> check_device(const Alternative& alternative, const Manifest& manifest,
                                      const VerdictContext& context) {
  if (alternative.device != "cuda" || !context.host->stub_driver.empty()) return std::nullopt;
  if (context.host->driver.empty()) return no_driver();
  if (context.findings->driver_rejection) return context.findings->driver_rejection;
  const std::vector<DeviceFinding>& devices = context.findings->devices;
  if (devices.empty()) {
    return reject(rules::kContractNoDevice, context.host->driver.string(), "a CUDA device",
                  "none; the driver supports CUDA " +
                      std::to_string(context.findings->cuda_driver_version / 1000));
  }
  if (manifest.requires_.driver) {
    // cuDriverGetVersion: 1000 * major + 10 * minor.
    const int driver = context.findings->cuda_driver_version;
    const std::string text =
        std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
    Result<Version> version = Version::parse(text);
    if (version.ok() && !manifest.requires_.driver->contains(*version)) {
      return reject(rules::kDiscoveryRequires, context.host->driver.string(),
                    "a driver for CUDA " + manifest.requires_.driver->text(), "CUDA " + text);
    }
  }
  if (!alternative.compute_capability) return std::nullopt;
  for (const DeviceFinding& device : devices) {
    const std::string capability =
        std::to_string(device.major) + "." + std::to_string(device.minor);
    Result<Version> version = Version::parse(capability);
    if (version.ok() && !alternative.compute_capability->contains(*version)) {
      return reject(rules::kContractComputeCapability,
                    "device " + std::to_string(device.index) + " " + device.name,
                    "compute capability " + alternative.compute_capability->text(), capability);
    }
  }
  return std::nullopt;
}

std::vector<Verdict> decide(const VerdictContext& context) {
  std::vector<Verdict> verdicts;
  for (const OperatorDeclaration& declaration : context.manifests->declarations) {
    for (std::size_t index = 0; index < context.plan->providers.size(); ++index) {
      for (const OperatorBinding& binding : context.plan->providers[index].manifest->operators) {
        if (binding.operator_name != declaration.name) continue;
        for (const char* device : {"cpu", "cuda"}) {
          std::vector<const Alternative*> alternatives;
          for (const Alternative& alternative : binding.alternatives) {
            if (alternative.device == device) alternatives.push_back(&alternative);
          }
          if (!alternatives.empty())
            verdicts.push_back(decide_binding(alternatives, declaration, index, context));
        }
      }
    }
  }
  return verdicts;
}

}  // namespace opmux
