// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/bind.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/binding.hpp"
#include "core/runtime/modules.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

int device_type_of(const std::string& device) {
  return device == "cuda" ? OPMUX_DEVICE_CUDA : OPMUX_DEVICE_CPU;
}

Result<OpmuxBound> bind_own(const PluginModule& module, const Verdict& verdict) {
  const std::string& name = std::get<ModuleContract>(verdict.alternative->contract).operator_name;
  for (std::uint32_t index = 0; index < module.module->operator_count; ++index) {
    const OpmuxOperatorEntry& entry = module.module->operators[index];
    if (name != entry.name || entry.device_type != device_type_of(verdict.device)) continue;
    OpmuxBound bound{};
    bound.struct_size = sizeof bound;
    bound.call = entry.call;
    bound.binding = entry.context;
    return bound;
  }
  return reject(rules::kContractModuleOperatorMissing, module.path.string() + ": " + name,
                "operator " + name + " in the module's table", "none");
}

// Which libraries of this process define which Dispatcher namespaces, over all runtimes: a library
// once mapped stays, and a second one that defines its namespace would end the process.
struct DefinedNamespaces {
  std::mutex mutex;  // held while one runtime maps and binds
  std::map<std::string, std::set<fs::path>> by_name;
};

DefinedNamespaces& defined_namespaces() {
  static DefinedNamespaces* const namespaces = std::make_unique<DefinedNamespaces>().release();
  return *namespaces;
}

// Maps each library and module at most once and remembers why one could not be mapped.
class Mapper {
 public:
  explicit Mapper(const BindContext& context)
      : plan_(context.plan),
        load_set_(context.load_set),
        registrations_(context.registrations),
        native_(context.native),
        user_(context.user),
        installed_folders_(context.installed_folders) {}

  // Null for a verdict without a library.
  Result<void*> map_library_of(const Verdict& verdict) {
    if (!verdict.library) return static_cast<void*>(nullptr);
    const fs::path& path = verdict.library->path;
    const auto known = libraries_.find(path);
    if (known != libraries_.end()) return known->second;
    return libraries_.emplace(path, map_new_library(verdict)).first->second;
  }

  Result<OpenModule> module_of(const ProviderPlan& provider) {
    if (provider.linked_in) return OpenModule{native_, nullptr};
    if (const auto known = modules_.find(provider.module); known != modules_.end())
      return known->second;
    Check torch = provider.uses_torch ? preload() : std::nullopt;
    Result<OpenModule> module = torch ? Result<OpenModule>(std::move(*torch))
                                      : use_module(provider.module, user_, checked_module(provider),
                                                   place_of(provider.module));
    if (module.ok()) opened_.push_back(module->module);
    return modules_.emplace(provider.module, std::move(module)).first->second;
  }

  std::vector<PluginModule> opened() const { return opened_; }

 private:
  ModulePlace place_of(const fs::path& module) const {
    if (installed_folders_ == nullptr) return ModulePlace::kInPlace;
    const bool is_installed = std::find(installed_folders_->begin(), installed_folders_->end(),
                                        module.parent_path()) != installed_folders_->end();
    return is_installed ? ModulePlace::kInPlace : ModulePlace::kPrivateCopy;
  }

  // The file that the probe has met.
  const FileIdentity* checked_module(const ProviderPlan& provider) const {
    const FileIdentity* const checked = plan_.checked_file(provider.module);
    return checked != nullptr ? checked : &provider.module_identity;
  }

  Check preload() {
    if (!preloaded_) {
      preloaded_ = true;
      // MKL inside libtorch ends a process whose current folder is gone.
      std::error_code error;
      (void)fs::current_path(error);
      if (error) {
        return preload_result_ = reject(rules::kLoaderOpenFailed, "the current folder",
                                        "a folder that exists, which libtorch needs",
                                        error.message(), "Change to a folder that exists.");
      }
      if (load_set_.torch_with_cuda && !load_set_.driver.empty() && !load_set_.stub_driver) {
        preload_result_ = preload_driver(load_set_.driver);
      }
      if (!preload_result_ && load_set_.torch) {
        preload_result_ = preload_torch(*load_set_.torch, load_set_.torch_with_cuda);
      }
    }
    return preload_result_;
  }

  Check preload_python_once() {
    if (!python_preloaded_) {
      python_preloaded_ = true;
      python_result_ =
          preload_python(*load_set_.python, load_set_.torch ? &*load_set_.torch : nullptr);
    }
    return python_result_;
  }

  Result<void*> map_new_library(const Verdict& verdict) {
    const ProviderPlan& provider = plan_.providers[verdict.provider];
    if (provider.uses_torch) {
      if (Check torch = preload()) return *std::move(torch);
    }
    FileIdentity now;
    if (!file_identity(verdict.library->path, now) || !(now == verdict.library_identity)) {
      return reject(rules::kLoaderChanged, verdict.library->path.string(),
                    "the file that was checked (" + to_string(verdict.library_identity) + ")",
                    to_string(now));
    }
    if (Check elsewhere = check_dependencies(provider, verdict.library->path))
      return *std::move(elsewhere);
    const std::set<std::string> namespaces = namespaces_of(verdict.library->path);
    if (Check taken = check_namespaces(verdict.library->path, namespaces)) return *std::move(taken);
    bool lazy = false;
    for (const ProbeLibrary& library : load_set_.libraries) {
      if (library.path != verdict.library->path) continue;
      lazy = library.python_extension;
      if (!library.libpython) continue;
      if (Check python = preload_python_once()) return *std::move(python);
    }
    Result<void*> mapped =
        map_library(verdict.library->path, lazy ? BindingMode::kLazy : BindingMode::kNow,
                    Visibility::kLocal, plan_.checked_file(verdict.library->path));
    if (!mapped.ok()) return mapped;
    for (const std::string& name : namespaces)
      defined_namespaces().by_name[name].insert(verdict.library->path);
    return mapped;
  }

  // The linker takes a library that is mapped for one that is needed by the same name, whatever was
  // checked.
  Check check_dependencies(const ProviderPlan& provider, const fs::path& library) const {
    const CandidatePlan* candidate = provider.find_candidate(library);
    if (candidate == nullptr) return std::nullopt;
    Check elsewhere = check_mapped_dependencies(library, candidate->needed);
    if (!elsewhere || plan_.checked_file(library) != nullptr) return elsewhere;
    log::warn(to_string(*elsewhere));
    return std::nullopt;
  }

  std::set<std::string> namespaces_of(const fs::path& library) const {
    std::set<std::string> names;
    for (const Registration& registration : registrations_) {
      const std::size_t end = registration.schema.find("::");
      if (registration.library == library && end != std::string::npos)
        names.insert(registration.schema.substr(0, end));
    }
    return names;
  }

  // The probe loaded this runtime's load set together; what an earlier runtime mapped beside it, it
  // did not see.
  Check check_namespaces(const fs::path& library, const std::set<std::string>& names) const {
    for (const std::string& name : names) {
      const auto defined = defined_namespaces().by_name.find(name);
      if (defined == defined_namespaces().by_name.end()) continue;
      for (const fs::path& earlier : defined->second) {
        const bool was_probed_together =
            earlier == library ||
            std::any_of(load_set_.libraries.begin(), load_set_.libraries.end(),
                        [&](const ProbeLibrary& known) { return known.path == earlier; });
        if (was_probed_together) continue;
        return reject(
            rules::kProbeConflict, printable(library.string()),
            "namespace `" + printable(name) + "` defined once in this process",
            printable(earlier.string()) + ", which an earlier runtime mapped, defines it and stays",
            "Restart the process to change the provider.");
      }
    }
    return std::nullopt;
  }

  const Plan& plan_;
  const LoadSet& load_set_;
  const std::vector<Registration>& registrations_;
  const PluginModule& native_;
  const void* const user_;
  const std::vector<fs::path>* const installed_folders_;
  bool preloaded_ = false;
  Check preload_result_;
  bool python_preloaded_ = false;
  Check python_result_;
  std::map<fs::path, Result<void*>> libraries_;
  std::map<fs::path, Result<OpenModule>> modules_;
  std::vector<PluginModule> opened_;
};

// All that tells a binding apart from another one of the same operator, provider and device: the
// files and what they are asked to do.
std::string binding_key(const Verdict& verdict, const ProviderPlan& provider,
                        const OpenModule& module, const ForeignBinding& binding) {
  std::string key = verdict.operator_name + '\n' + provider.manifest->provider + '\n' +
                    verdict.device + '\n' + module.module.path.native() + '\n' +
                    std::to_string(module.serial) + '\n';
  if (verdict.library) {
    key += verdict.library->path.native() + '\n' + to_string(verdict.library_identity) + '\n' +
           to_text(binding) + '\n';
  } else {
    key += std::get<ModuleContract>(verdict.alternative->contract).operator_name + '\n';
  }
  for (const Condition& condition : verdict.alternative->when) key += condition.text + '\n';
  return key;
}

Result<const BoundCall*> bind_one(const Verdict& verdict, const ProviderPlan& provider,
                                  const OperatorDeclaration& declaration, std::uint32_t counter,
                                  Mapper& mapper, Registry& registry) {
  Result<OpenModule> module = mapper.module_of(provider);
  if (!module.ok()) return std::move(module).rejection();
  Result<void*> library = mapper.map_library_of(verdict);
  if (!library.ok()) return std::move(library).rejection();
  const bool is_own = std::holds_alternative<ModuleContract>(verdict.alternative->contract);
  ForeignBinding foreign;
  if (!is_own) foreign = foreign_binding(*verdict.alternative, declaration, verdict.mangled);
  const std::string key = binding_key(verdict, provider, *module, foreign);
  if (const BoundCall* known = registry.find_binding(key)) return known;

  std::vector<void*> symbols;
  if (!foreign.mangled.empty()) {
    Result<std::vector<void*>> resolved = resolve_symbols(*library, verdict.library->path, foreign);
    if (!resolved.ok()) return std::move(resolved).rejection();
    symbols = *std::move(resolved);
  }
  const Result<OpmuxBound> bound =
      is_own ? bind_own(module->module, verdict) : bind_foreign(module->module, foreign, symbols);
  if (!bound.ok()) return bound.rejection();
  BoundCall call;
  call.call = bound->call;
  call.binding = bound->binding;
  call.device_type = device_type_of(verdict.device);
  call.counter = counter;
  call.provider = provider.manifest->provider;
  call.copies = bound->copies;
  call.module = module->use;
  for (const Condition& condition : verdict.alternative->when)
    call.conditions.push_back(compile_condition(condition));
  return &registry.add_binding(key, std::move(call));
}

// Only the module, when it binds, knows how many results it has to copy.
Check check_in_place(const Verdict& verdict, const std::string& provider, const BoundCall& bound) {
  if ((verdict.properties & OPMUX_PROPERTY_IN_PLACE) == 0 || bound.copies == 0) return std::nullopt;
  return reject(rules::kLoaderInPlace, verdict.operator_name + ": " + provider,
                "no copies into outputs", std::to_string(bound.copies) + " per call");
}

}  // namespace

Bindings bind_verdicts(const BindContext& context) {
  Bindings bindings;
  bindings.calls.resize(context.verdicts.size(), nullptr);
  const std::lock_guard lock(defined_namespaces().mutex);
  Mapper mapper(context);
  for (std::size_t index = 0; index < context.verdicts.size(); ++index) {
    Verdict& verdict = context.verdicts[index];
    const ProviderPlan& provider = context.plan.providers[verdict.provider];
    bindings.counters.push_back(context.registry.counter_of(
        verdict.operator_name, provider.manifest->provider, verdict.device));
    const OperatorDeclaration* const declaration =
        context.manifests.find_declaration(verdict.operator_name);
    const auto at = static_cast<std::size_t>(declaration - context.manifests.declarations.data());
    if (!verdict.rejection && context.operators[at] == nullptr) {
      verdict.rejection = reject(rules::kRegistryUnknownOperator, verdict.operator_name,
                                 "a declaration that calls can carry", "one that was refused",
                                 "Correct the declaration; its rejection says where.");
    }
    if (verdict.rejection || verdict.stub_driver) continue;
    if (!context.load && !provider.linked_in) continue;
    Result<const BoundCall*> bound = bind_one(verdict, provider, *declaration,
                                              bindings.counters.back(), mapper, context.registry);
    if (!bound.ok()) {
      verdict.rejection = std::move(bound).rejection();
      continue;
    }
    verdict.rejection = check_in_place(verdict, provider.manifest->provider, **bound);
    if (!verdict.rejection) bindings.calls[index] = *bound;
  }
  bindings.modules = mapper.opened();
  return bindings;
}

}  // namespace opmux
