// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/bind.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <type_traits>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/schema/schema.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

int device_type_of(const std::string& device) {
  return device == "cuda" ? OPMUX_DEVICE_CUDA : OPMUX_DEVICE_CPU;
}

// Keeps what the values of a bind request point to until the module has copied them.
class ConstantStore {
 public:
  OpmuxValue value(const Literal& literal) {
    OpmuxValue value = detail::none_value();
    std::visit(
        [&](const auto& written) {
          using Written = std::decay_t<decltype(written)>;
          if constexpr (std::is_same_v<Written, bool>) {
            value = detail::int_value(written ? 1 : 0);
            value.tag = OPMUX_VALUE_BOOL;
          } else if constexpr (std::is_same_v<Written, std::int64_t>) {
            value = detail::int_value(written);
          } else if constexpr (std::is_same_v<Written, double>) {
            value = detail::float_value(written);
          } else if constexpr (std::is_same_v<Written, std::string>) {
            value.tag = OPMUX_VALUE_STRING;
            value.payload.string = written.c_str();
          } else if constexpr (std::is_same_v<Written, std::vector<std::int64_t>>) {
            lists_.push_back(
                std::make_unique<OpmuxIntList>(OpmuxIntList{written.data(), written.size()}));
            value.tag = OPMUX_VALUE_INT_LIST;
            value.payload.int_list = lists_.back().get();
          }
        },
        literal);
    return value;
  }

 private:
  std::vector<std::unique_ptr<OpmuxIntList>> lists_;
};

Result<OpmuxBound> bind_foreign(const PluginModule& module, const Verdict& verdict,
                                const OperatorDeclaration& declaration) {
  const Alternative& alternative = *verdict.alternative;
  const auto& contract = std::get<DispatcherContract>(alternative.contract);
  const std::string subject = module.path.string() + ": " + verdict.operator_name;
  if (module.module->bind == nullptr) {
    return reject(rules::kLoaderBindRefused, subject, "a module that binds foreign libraries",
                  "module `" + std::string(module.module->name) + "` has its own table only");
  }
  ConstantStore constants;
  std::vector<OpmuxCallSource> sources;
  for (const CallSource& written : alternative.call) {
    OpmuxCallSource source{};
    if (const auto* argument = std::get_if<int>(&written.source)) {
      source.kind = OPMUX_SOURCE_ARGUMENT;
      source.argument = *argument;
      source.constant = detail::none_value();
    } else {
      source.kind = OPMUX_SOURCE_CONSTANT;
      source.argument = -1;
      source.constant = constants.value(std::get<Literal>(written.source));
    }
    sources.push_back(source);
  }
  std::vector<OpmuxResultTarget> results;
  for (const int target : alternative.results) results.push_back({target});

  OpmuxBindRequest request{};
  request.struct_size = sizeof request;
  request.contract = OPMUX_CONTRACT_DISPATCHER;
  request.device_type = device_type_of(alternative.device);
  request.source_count = static_cast<std::uint32_t>(sources.size());
  request.result_count = static_cast<std::uint32_t>(results.size());
  request.operator_name = declaration.name.c_str();
  request.operator_schema = declaration.schema_text.c_str();
  request.provider_schema = contract.schema_text.c_str();
  request.dispatch_key = contract.dispatch_key.c_str();
  request.sources = sources.data();
  request.results = results.data();

  OpmuxBound bound{};
  bound.struct_size = sizeof bound;
  const OpmuxStatus status = module.module->bind(&request, &bound);
  std::string said = take_module_error();
  if (status == OPMUX_OK && bound.call != nullptr) return bound;
  return reject(rules::kLoaderBindRefused, subject, "the module to bind " + contract.schema_text,
                said.empty() ? "status " + std::to_string(status) : said);
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
  Mapper(const Plan& plan, const LoadSet& load_set, const std::vector<Registration>& registrations,
         const PluginModule& native)
      : plan_(plan), load_set_(load_set), registrations_(registrations), native_(native) {}

  Check map_library_of(const Verdict& verdict) {
    if (!verdict.library) return std::nullopt;
    const fs::path& path = verdict.library->path;
    if (const auto known = libraries_.find(path); known != libraries_.end()) return known->second;
    return libraries_[path] = map_new_library(verdict);
  }

  Result<PluginModule> module_of(const ProviderPlan& provider) {
    if (provider.linked_in) return native_;
    if (const auto known = modules_.find(provider.module); known != modules_.end())
      return known->second;
    Check torch = provider.uses_torch ? preload() : std::nullopt;
    Result<PluginModule> module =
        torch ? Result<PluginModule>(std::move(*torch)) : open_module(provider.module);
    if (module.ok()) opened_.push_back(*module);
    return modules_.emplace(provider.module, std::move(module)).first->second;
  }

  std::vector<PluginModule> opened() const { return opened_; }

 private:
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

  Check map_new_library(const Verdict& verdict) {
    const ProviderPlan& provider = plan_.providers[verdict.provider];
    if (provider.uses_torch) {
      if (Check torch = preload()) return torch;
    }
    FileIdentity now;
    if (!file_identity(verdict.library->path, now) || !(now == verdict.library_identity)) {
      return reject(rules::kLoaderChanged, verdict.library->path.string(),
                    "the file that was checked (" + to_string(verdict.library_identity) + ")",
                    to_string(now));
    }
    const std::set<std::string> namespaces = namespaces_of(verdict.library->path);
    if (Check taken = check_namespaces(verdict.library->path, namespaces)) return taken;
    bool lazy = false;
    for (const ProbeLibrary& library : load_set_.libraries) {
      if (library.path == verdict.library->path) lazy = library.python_extension;
    }
    Result<void*> mapped =
        map_library(verdict.library->path, lazy ? BindingMode::kLazy : BindingMode::kNow);
    if (!mapped.ok()) return std::move(mapped).rejection();
    for (const std::string& name : namespaces)
      defined_namespaces().by_name[name].insert(verdict.library->path);
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
  bool preloaded_ = false;
  Check preload_result_;
  std::map<fs::path, Check> libraries_;
  std::map<fs::path, Result<PluginModule>> modules_;
  std::vector<PluginModule> opened_;
};

Result<OpmuxBound> bind_one(const Verdict& verdict, const ProviderPlan& provider,
                            const OperatorDeclaration& declaration, Mapper& mapper) {
  Result<PluginModule> module = mapper.module_of(provider);
  if (!module.ok()) return module.rejection();
  if (Check refused = mapper.map_library_of(verdict)) return std::move(*refused);
  if (std::holds_alternative<ModuleContract>(verdict.alternative->contract))
    return bind_own(*module, verdict);
  return bind_foreign(*module, verdict, declaration);
}

}  // namespace

Bindings bind_verdicts(std::vector<Verdict>& verdicts, const Plan& plan, const LoadSet& load_set,
                       const std::vector<Registration>& registrations, const ManifestSet& manifests,
                       const PluginModule& native, Registry& registry, bool load) {
  Bindings bindings;
  bindings.calls.resize(verdicts.size(), nullptr);
  bindings.copies.resize(verdicts.size(), 0);
  const std::lock_guard lock(defined_namespaces().mutex);
  Mapper mapper(plan, load_set, registrations, native);
  for (std::size_t index = 0; index < verdicts.size(); ++index) {
    Verdict& verdict = verdicts[index];
    if (!verdict.rejection && registry.find(verdict.operator_name) == nullptr) {
      verdict.rejection = reject(rules::kRegistryUnknownOperator, verdict.operator_name,
                                 "a declaration that calls can carry", "one that was refused",
                                 "Correct the declaration; its rejection says where.");
    }
    if (verdict.rejection || verdict.stub_driver) continue;
    const ProviderPlan& provider = plan.providers[verdict.provider];
    if (!load && !provider.linked_in) continue;
    const OperatorDeclaration* declaration = manifests.find_declaration(verdict.operator_name);
    Result<OpmuxBound> bound = bind_one(verdict, provider, *declaration, mapper);
    if (!bound.ok()) {
      verdict.rejection = std::move(bound).rejection();
      continue;
    }
    BoundCall call;
    call.call = bound->call;
    call.binding = bound->binding;
    call.device_type = device_type_of(verdict.device);
    call.counter = static_cast<std::uint32_t>(index);
    call.provider = provider.manifest->provider;
    for (const Condition& condition : verdict.alternative->when) {
      call.conditions.push_back(compile_condition(condition));
    }
    bindings.calls[index] = &registry.add_binding(std::move(call));
    bindings.copies[index] = bound->copies;
  }
  bindings.modules = mapper.opened();
  return bindings;
}

}  // namespace opmux
