// SPDX-License-Identifier: Apache-2.0
//
// From plan and findings to the verdict on every binding.
// Thread safety: values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/runtime/plan.hpp"
#include "opmux/plugin.h"
#include "opmux/report.hpp"

namespace opmux {

// The verdict on one operator, served by one provider on one device.
struct Verdict {
  std::string operator_name;
  std::size_t provider = 0;                  // index into Plan.providers
  std::string device;                        // cpu or cuda
  const Alternative* alternative = nullptr;  // the chosen one, or the one whose rejection is told
  std::optional<FoundLibrary> library;       // of that alternative
  std::vector<std::string> mangled;          // names of its functions, of a direct symbol contract
  FileIdentity library_identity;             // when it was checked
  Properties properties = 0;                 // declared by the manifest or the module's table
  std::optional<Rejection> rejection;        // nothing: usable
  bool stub_driver = false;
  std::vector<AlternativeReport> lost;
};

struct VerdictContext {
  const ManifestSet* manifests = nullptr;
  const Plan* plan = nullptr;
  const Findings* findings = nullptr;
  const HostFacts* host = nullptr;
  const OpmuxModule* native = nullptr;  // the linked-in module's table
};

// In the order of operators' names, then of the manifest set's providers, cpu before cuda.
std::vector<Verdict> decide(const VerdictContext& context);

// Why a binding of `manifest` has no device to run on, if so: driver, device, compute capability.
std::optional<Rejection> check_device(const Alternative& alternative, const Manifest& manifest,
                                      const VerdictContext& context);

}  // namespace opmux
