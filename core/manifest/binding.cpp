// SPDX-License-Identifier: Apache-2.0
//
// One alternative of an operator: its contract, libraries, device, conditions and mapping.
#include <algorithm>
#include <array>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using yaml::in_quotes;
using yaml::MapReader;

// Keys under which a kernel runs on its own. Autograd keys are wrappers, never the kernel.
const std::vector<std::string>& dispatch_keys() {
  static const std::vector<std::string> keys{"CPU",
                                             "CUDA",
                                             "CompositeImplicitAutograd",
                                             "CompositeExplicitAutograd",
                                             "CompositeExplicitAutogradNonFunctional",
                                             "Meta",
                                             "HIP",
                                             "XPU",
                                             "MPS",
                                             "HPU",
                                             "PrivateUse1"};
  return keys;
}

class AlternativeReader {
 public:
  AlternativeReader(const Node& node, const OperatorDeclaration& declaration,
                    const Manifest& manifest, Errors& errors)
      : declaration_(declaration),
        manifest_(manifest),
        errors_(errors),
        map_(node, "an alternative of " + in_quotes(declaration.name),
             {"library", "schema", "dispatch_key", "required_symbols", "exact", "returns", "module",
              "call", "result", "properties", "when"},
             errors) {
    alternative_.location = location(errors, node.position);
    alternative_.properties = manifest.properties;
  }

  std::optional<Alternative> read() {
    if (!map_.is_map()) return std::nullopt;
    const std::size_t errors_before = errors_.size();
    const bool contract_good = read_contract();
    read_library_names();
    if (const Node* properties = map_.find("properties"))
      alternative_.properties = read_properties(*properties, errors_);
    const Node* when = map_.find("when");
    if (when != nullptr) read_when(*when, declaration_.schema, alternative_, errors_);
    if (contract_good) {
      check_device(when != nullptr ? *when : map_.node());
      if (is_module())
        refuse_mapping_of_module();
      else
        read_mapping(map_.node(), map_.find("call"), map_.find("result"), declaration_.schema,
                     alternative_, errors_);
    }
    if (errors_.size() != errors_before) return std::nullopt;
    return std::move(alternative_);
  }

 private:
  bool has(const char* key) const { return map_.find(key) != nullptr; }
  bool is_module() const { return std::holds_alternative<ModuleContract>(alternative_.contract); }

  bool contract_fault(const Node& node, std::string expected, std::string found,
                      std::string hint = {}) {
    errors_.add(rules::kManifestContract, node.position, std::move(expected), std::move(found),
                std::move(hint));
    return false;
  }

  bool read_contract() {
    std::vector<std::string> found;
    for (const char* key : {"required_symbols", "schema", "dispatch_key", "module"})
      if (has(key)) found.emplace_back(key);
    const int kinds = (has("required_symbols") ? 1 : 0) +
                      (has("schema") || has("dispatch_key") ? 1 : 0) + (has("module") ? 1 : 0);
    if (kinds != 1 || has("schema") != has("dispatch_key"))
      return contract_fault(
          map_.node(),
          "exactly one contract: required_symbols, schema with dispatch_key, or module",
          found.empty() ? "none" : join(found, " and "));
    for (const char* key : {"exact", "returns"})
      if (has(key) && !has("required_symbols"))
        return contract_fault(*map_.find(key), in_quotes(key) + " beside `required_symbols` only",
                              in_quotes(key) + " beside " + join(found, " and "));
    if (has("module")) return read_module();
    return has("schema") ? read_dispatcher() : read_symbols();
  }

  bool read_module() {
    const auto name = map_.text("module");
    if (!name) return false;
    alternative_.contract = ModuleContract{*name};
    if (name->empty())
      return contract_fault(*map_.find("module"),
                            "`module`: the operator's name in the module's own table",
                            "an empty text");
    return true;
  }

  bool read_symbols() {
    DirectSymbolContract contract;
    auto symbols = map_.texts("required_symbols");
    contract.exact = map_.boolean("exact").value_or(false);
    if (!symbols) return false;
    for (const std::string& symbol : *symbols) {
      if (symbol.empty() || symbol.starts_with("_Z"))
        return contract_fault(*map_.find("required_symbols"),
                              "demangled names of exported functions",
                              symbol.empty() ? "an empty text" : in_quotes(symbol));
      if (std::count(symbols->begin(), symbols->end(), symbol) > 1)
        return contract_fault(*map_.find("required_symbols"), "each symbol once",
                              in_quotes(symbol) + " twice");
    }
    contract.required_symbols = *std::move(symbols);
    // A symbol does not tell what its function returns, and a wrong guess would move every
    // argument.
    if (has("call")) {
      const auto returns = map_.required_text("returns");
      if (!returns) return false;
      if (trim(*returns).empty())
        return contract_fault(*map_.find("returns"),
                              "`returns`: a C++ type, e.g. void or at::Tensor", "an empty text");
      contract.returns = trim(*returns);
    } else if (has("returns")) {
      return contract_fault(*map_.find("returns"), "`returns` beside `call` only",
                            "no `call`: the plugin module knows the functions");
    }
    alternative_.contract = std::move(contract);
    return true;
  }

  bool read_dispatcher() {
    DispatcherContract contract;
    const Node& schema_node = *map_.find("schema");
    auto schema = read_schema(schema_node, errors_);
    const auto key = map_.text("dispatch_key");
    const std::vector<std::string>& keys = dispatch_keys();
    if (key && std::find(keys.begin(), keys.end(), *key) == keys.end())
      return contract_fault(
          *map_.find("dispatch_key"), "one of " + join(keys, ", "), in_quotes(*key),
          *key == "GPU" ? "Did you mean `CUDA`?" : yaml::nearest_hint(*key, keys));
    if (!schema || !key) return false;
    if (schema->name_space.empty() || schema->is_variadic) {
      errors_.add(rules::kManifestSchema, schema_node.position,
                  schema->is_variadic
                      ? "a fixed number of arguments"
                      : "a schema with its namespace, e.g. `_C::" + schema->name + "(...)`",
                  in_quotes(schema_node.text));
      return false;
    }
    contract.schema = *std::move(schema);
    contract.schema_text = schema_node.text;
    contract.dispatch_key = *key;
    alternative_.contract = std::move(contract);
    return true;
  }

  void read_library_names() {
    if (has("module")) return;
    const Node* node = map_.require("library");
    if (node == nullptr) return;
    const auto names = map_.texts("library");
    if (!names) return;
    std::vector<std::string> known;
    for (const Library& library : manifest_.libraries) known.push_back(library.name);
    for (const std::string& name : *names) {
      if (manifest_.find_library(name) == nullptr)
        errors_.add(rules::kManifestReference, node->position,
                    known.empty() ? "a library that `libraries` names; it names none"
                                  : "one of the libraries " + join(known, ", "),
                    in_quotes(name), yaml::nearest_hint(name, known));
      if (std::count(names->begin(), names->end(), name) > 1) {
        errors_.add(rules::kYamlWrongForm, node->position, "`library`: each library once",
                    in_quotes(name) + " twice");
        break;
      }
    }
    alternative_.libraries = *names;
  }

  void refuse_mapping_of_module() {
    for (const char* key : {"library", "call", "result"})
      if (has(key))
        contract_fault(*map_.find(key),
                       "no " + in_quotes(key) +
                           " beside `module`: the module takes the operator's own arguments",
                       in_quotes(key));
  }

  void check_device(const Node& where) {
    std::string from_key;
    if (const auto* dispatcher = std::get_if<DispatcherContract>(&alternative_.contract)) {
      if (dispatcher->dispatch_key == "CPU") from_key = "cpu";
      if (dispatcher->dispatch_key == "CUDA") from_key = "cuda";
    }
    const bool device_given =
        map_.find("when") != nullptr && map_.find("when")->find("device") != nullptr;
    if (alternative_.device.empty()) {
      if (device_given) return;  // its error is there already
      if (from_key.empty()) {
        errors_.add(rules::kYamlMissingKey, where.position,
                    "`when: {device: cpu}` or `when: {device: cuda}`, which nothing else tells",
                    "no `device`");
        return;
      }
      alternative_.device = from_key;
    } else if (!from_key.empty() && alternative_.device != from_key) {
      errors_.add(rules::kManifestCondition, where.position,
                  "the device of `dispatch_key`, " + from_key, alternative_.device);
    }
    if (alternative_.device != "cuda" && alternative_.compute_capability)
      errors_.add(rules::kManifestCondition, where.position,
                  "`compute_capability` with the device cuda", "device " + alternative_.device);
  }

  const OperatorDeclaration& declaration_;
  const Manifest& manifest_;
  Errors& errors_;
  MapReader map_;
  Alternative alternative_;
};

}  // namespace

std::optional<Alternative> read_alternative(const Node& node,
                                            const OperatorDeclaration& declaration,
                                            const Manifest& manifest, Errors& errors) {
  return AlternativeReader{node, declaration, manifest, errors}.read();
}

}  // namespace opmux::reading
