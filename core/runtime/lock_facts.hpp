// SPDX-License-Identifier: Apache-2.0
//
// What opmux.lock holds about this machine now: hashes of what plan and manifests name, then what
// the verdicts made of it. Thread safety: functions read the file system.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files.hpp"
#include "core/lock/lock.hpp"
#include "core/runtime/plan.hpp"
#include "core/runtime/routes.hpp"
#include "core/runtime/verdicts.hpp"

namespace opmux {

struct LockContext {
  const ManifestSet* manifests = nullptr;
  const EnvironmentSearch* environments = nullptr;
  const HostFacts* host = nullptr;
  const Plan* plan = nullptr;
  const RoutePolicy* policy = nullptr;
  std::filesystem::path installed_modules;
  std::filesystem::path cached_modules;  // empty: none
  std::function<void(const std::string&)> progress;
};

struct LockFacts {
  lock::Lock lock;
  // Of each library and module: the file that was hashed.
  std::map<std::filesystem::path, FileIdentity> identities;
  // What the lock calls a file of a provider.
  std::map<std::pair<std::string, std::filesystem::path>, std::string> labels;
};

// Everything but bindings and driver. Each file is hashed in full. Rule lock.incomplete.
Result<LockFacts> lock_inputs(const LockContext& context);

// Completes the lock with what the checks found.
void add_outcome(LockFacts& facts, const LockContext& context, const std::vector<Verdict>& verdicts,
                 const Findings& findings);

// Beside the lock: the driver, and why bindings are not usable.
lock::Circumstances circumstances_of(const LockContext& context,
                                     const std::vector<Verdict>& verdicts);

}  // namespace opmux
