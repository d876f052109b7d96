// SPDX-License-Identifier: Apache-2.0
//
// Everything that one Runtime knows; filled once by open().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/runtime/bind.hpp"
#include "core/runtime/plan.hpp"
#include "core/runtime/routes.hpp"
#include "core/runtime/verdicts.hpp"
#include "opmux/runtime.hpp"

namespace opmux {

struct Runtime::State {
  Config config;
  ManifestSet manifests;
  EnvironmentSearch environments;
  HostFacts host;
  std::unique_ptr<RoutePolicy> policy;
  Plan plan;
  LoadSet load_set;
  Findings findings;
  std::vector<Verdict> verdicts;
  Bindings bindings;
  std::vector<Rejection> rejections;  // beside those of the manifests and environments
  Registry* registry = nullptr;       // lives for the process
  double seconds = 0.0;
};

// The routes that `state` comes to, ready to publish.
std::unique_ptr<Generation> make_generation(const Runtime::State& state, bool strict);

// One consistent report; counters are summed at this moment.
Report make_report(const Runtime::State& state);

// Says in the log what was decided: rejections that many bindings share once.
void log_decisions(const Runtime::State& state);

}  // namespace opmux
