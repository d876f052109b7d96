// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/native.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/schema/schema.hpp"
#include "plugins/native/cpu/native.hpp"

namespace opmux {
namespace {

constexpr const char* kProvider = "native";
constexpr const char* kLinkedIn = "(linked in)";

Manifest& native_manifest(ManifestSet& manifests) {
  for (Manifest& manifest : manifests.providers) {
    if (manifest.provider == kProvider) return manifest;
  }
  Manifest manifest;
  manifest.file = kLinkedIn;
  manifest.provider = kProvider;
  manifest.plugin = kProvider;
  manifests.providers.push_back(std::move(manifest));
  return manifests.providers.back();
}

void add_declaration(ManifestSet& manifests, const OpmuxOperatorEntry& entry) {
  if (manifests.find_declaration(entry.name) != nullptr) return;
  Result<schema::Schema> parsed = schema::parse(entry.schema);
  if (!parsed.ok()) return;
  OperatorDeclaration declaration;
  declaration.name = entry.name;
  declaration.schema = std::move(*parsed);
  declaration.schema_text = entry.schema;
  declaration.location.file = kLinkedIn;
  const auto at = std::lower_bound(
      manifests.declarations.begin(), manifests.declarations.end(), declaration.name,
      [](const OperatorDeclaration& known, const std::string& name) { return known.name < name; });
  manifests.declarations.insert(at, std::move(declaration));
}

}  // namespace

const Result<PluginModule>& native_module() {
  static const Result<PluginModule> module = open_linked_module(&opmux_native_open, kProvider);
  return module;
}

void add_native_bindings(ManifestSet& manifests, const OpmuxModule& native) {
  Manifest& manifest = native_manifest(manifests);
  for (std::uint32_t index = 0; index < native.operator_count; ++index) {
    const OpmuxOperatorEntry& entry = native.operators[index];
    add_declaration(manifests, entry);
    Alternative alternative;
    alternative.contract = ModuleContract{entry.name};
    alternative.device = entry.device_type == OPMUX_DEVICE_CUDA ? "cuda" : "cpu";
    alternative.location.file = kLinkedIn;
    const auto known = std::find_if(
        manifest.operators.begin(), manifest.operators.end(),
        [&](const OperatorBinding& binding) { return binding.operator_name == entry.name; });
    if (known != manifest.operators.end()) {
      const bool bound = std::any_of(
          known->alternatives.begin(), known->alternatives.end(),
          [&](const Alternative& written) { return written.device == alternative.device; });
      if (!bound) known->alternatives.push_back(std::move(alternative));
      continue;
    }
    OperatorBinding binding;
    binding.operator_name = entry.name;
    binding.alternatives.push_back(std::move(alternative));
    binding.location.file = kLinkedIn;
    manifest.operators.push_back(std::move(binding));
  }
}

}  // namespace opmux
