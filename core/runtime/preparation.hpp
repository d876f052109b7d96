// SPDX-License-Identifier: Apache-2.0
//
// What the stages before the routes come to: read, found, checked, probed, loaded and bound.
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

// Filled by prepare() and not changed afterwards. Its parts point into each other: it stays where
// it is.
struct Preparation {
  Preparation() = default;
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  Config config;
  ManifestSet manifests;
  EnvironmentSearch environments;
  HostFacts host;
  std::unique_ptr<const RoutePolicy> policy;  // of the options that it was made with
  bool strict = false;
  Plan plan;
  LoadSet load_set;
  Findings findings;
  std::vector<Verdict> verdicts;
  OperatorList operators;  // parallel to manifests.declarations; null where refused
  Bindings bindings;
  std::vector<Rejection> rejections;  // beside those of the manifests and environments
  // Where manifests and modules were looked for, whether or not it exists.
  std::vector<std::filesystem::path> manifest_folders;
  std::vector<std::filesystem::path> module_folders;
  std::filesystem::path lock_file;     // that it must not differ from; empty: none
  std::vector<Rejection> lock_drifts;  // what differs, when the lock made prepare() fail
  double seconds = 0.0;
  bool is_complete = true;  // false: native only, the rest is being prepared
};

enum class PreparationScope {
  kAll,
  kNativeOnly,  // nothing is looked for or probed; bindings of others say registry.starting
};

// Fills `made`, which is new, from a configuration that was read. Fails when it or an explicitly
// named input is wrong; what is wrong with single providers and manifests is in the preparation.
// After an error `made` says what was looked at so far, and nothing may be published of it.
// `options` has absolute paths. `user` is whose modules these are (modules.hpp). May throw what the
// standard library throws. Thread safety: may be called from any thread; binding waits for other
// runtimes.
Status prepare(const Options& options, Config config, PreparationScope scope, Registry& registry,
               const void* user, Preparation& made);

// What counts for the whole process; of several runtimes the latest to open or to publish decides.
void apply_process_settings(const Config& config);

// The routes of `preparation` under `policy`, ready to publish.
RouteSet make_routes(const Preparation& preparation, const RoutePolicy& policy, bool strict);

// Shadows that compare nothing (registry.shadow): of a provider without a callable binding, and of
// calls on CUDA.
std::vector<Rejection> unusable_shadows(const Preparation& preparation, const RoutePolicy& policy);

// A policy for `routes` of highest precedence, after the configuration's. A name that means nothing
// is the rejection.
Result<std::unique_ptr<const RoutePolicy>> make_policy(const Options& options,
                                                       const Preparation& preparation);

}  // namespace opmux
