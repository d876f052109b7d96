// SPDX-License-Identifier: Apache-2.0
//
// Maps what the verdicts found usable into this process and binds it.
#pragma once

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
  std::vector<std::uint32_t> copies;
  std::vector<PluginModule> modules;  // mapped ones
};

// Usable verdicts that cannot be bound become rejections. With `load` false, and for verdicts of a
// stub driver, only the linked-in module is bound. The counter of a binding is its verdict's index.
// `registrations` are the probe's, of this load set. One runtime at a time: others wait.
Bindings bind_verdicts(std::vector<Verdict>& verdicts, const Plan& plan, const LoadSet& load_set,
                       const std::vector<Registration>& registrations, const ManifestSet& manifests,
                       const PluginModule& native, Registry& registry, bool load);

}  // namespace opmux
