// SPDX-License-Identifier: Apache-2.0
//
// Maps what the verdicts found usable into this process and binds it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/loader/loader.hpp"
#include "core/registry/registry.hpp"
#include "core/runtime/verdicts.hpp"

namespace opmux {

struct Bindings {
  // Parallel to the verdicts; null where nothing can be called.
  std::vector<const BoundCall*> calls;
  std::vector<std::uint32_t> counters;  // parallel to the verdicts
  std::vector<PluginModule> modules;    // mapped ones
};

struct BindContext {
  std::vector<Verdict>& verdicts;
  const Plan& plan;
  const LoadSet& load_set;
  const std::vector<Registration>& registrations;  // the probe's, of this load set
  const ManifestSet& manifests;
  const OperatorList& operators;  // parallel to the manifests' declarations
  const PluginModule& native;
  Registry& registry;
  const void* user;  // of the modules (modules.hpp)
  // False: only the linked-in module is bound.
  bool load;
  // Modules anywhere else are mapped from private copies: people copy over them while they run.
  // Null: none is.
  const std::vector<std::filesystem::path>* installed_folders;
};

// Usable verdicts that cannot be bound become rejections; those of a stub driver stay unbound. A
// binding that the registry has already is used again. One runtime at a time: others wait.
Bindings bind_verdicts(const BindContext& context);

}  // namespace opmux
