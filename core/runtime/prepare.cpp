// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/preparation.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/log.hpp"
#include "core/base/own_file.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/base/trust.hpp"
#include "core/runtime/locations.hpp"
#include "core/runtime/locking.hpp"
#include "core/runtime/native.hpp"
#include "core/runtime/plan_parts.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status invalid(const Rejection& rejection) {
  return Status(StatusCode::kInvalidArgument, to_string(rejection), rejection);
}

// What a caller named on purpose must exist; what a file or variable names may not, and is
// reported.
Check check_named_inputs(const Options& options) {
  std::error_code error;
  for (const fs::path& folder : options.environments) {
    if (!fs::is_directory(folder, error)) {
      return reject(rules::kDiscoveryBadEnvironment, folder.string(), "a folder",
                    fs::exists(folder, error) ? "another kind of file" : "nothing");
    }
  }
  for (const fs::path& folder : options.manifests) {
    if (!fs::is_directory(folder, error)) {
      return reject(rules::kManifestMissing, folder.string(), "a folder of manifests",
                    fs::exists(folder, error) ? "another kind of file" : "nothing");
    }
  }
  for (const fs::path& file : options.manifest_files) {
    if (!fs::exists(file, error)) {
      return reject(rules::kManifestMissing, file.string(), "a manifest", "nothing");
    }
  }
  return std::nullopt;
}

// The user's and the system's, which need not exist.
std::vector<fs::path> default_manifest_folders() {
  std::vector<fs::path> folders;
  if (!user_config_folder().empty()) folders.push_back(user_config_folder() / "providers.d");
  folders.emplace_back("/etc/opmux/providers.d");
  return folders;
}

ManifestSources manifest_sources(const Options& options, const Config& config) {
  ManifestSources sources;
  sources.trust = config.trust;
  const fs::path shipped = shipped_manifest_folder();
  if (!options.manifest_files.empty()) {
    sources.files = options.manifest_files;
    if (!shipped.empty()) sources.declaration_folders.push_back(shipped);
    return sources;
  }
  sources.folders = options.manifests;
  sources.folders.insert(sources.folders.end(), config.manifests.begin(), config.manifests.end());
  std::error_code error;
  for (const fs::path& folder : default_manifest_folders()) {
    if (fs::is_directory(folder, error)) sources.folders.push_back(folder);
  }
  if (!shipped.empty()) sources.folders.push_back(shipped);
  return sources;
}

EnvironmentSearch search_environments(const Options& options, const Config& config) {
  EnvironmentSearch search =
      !options.environments.empty()  ? find_environments(options.environments, "--environment")
      : !config.environments.empty() ? find_environments(config.environments, "config")
                                     : find_environments({}, "");
  // What their metadata says decides which files are loaded.
  for (PythonEnvironment& environment : search.environments) {
    std::erase_if(environment.site_packages, [&](const fs::path& folder) {
      Check untrusted = require_trust(folder, config.trust);
      if (untrusted) search.rejections.push_back(*untrusted);
      return untrusted.has_value();
    });
  }
  return search;
}

// The folder of caches, empty for none: with strict trust one that others could change is not used.
fs::path cache_folder(const Config& config, std::vector<Rejection>& rejections) {
  fs::path folder = config.cache_folder.value_or(user_cache_folder());
  if (folder.empty()) return folder;
  Check untrusted = require_trust(existing_part(folder), config.trust);
  if (!untrusted) return folder;
  rejections.push_back(*std::move(untrusted));
  return {};
}

std::vector<RouteRule> route_rules(const Options& options, const Config& config) {
  std::vector<RouteRule> rules;
  // The configured routes are for the configured manifests; named files are looked at by
  // themselves.
  if (options.manifest_files.empty()) rules = config.routes;
  for (const auto& [pattern, providers] : options.routes)
    rules.push_back({pattern, providers, 0, 0});
  return rules;
}

void say(const Options& options, const std::string& text) {
  log::info(text);
  if (options.progress) options.progress(text);
}

bool adds_a_library(const LoadSet& load_set, const LoadSet& known) {
  return std::any_of(
      load_set.libraries.begin(), load_set.libraries.end(), [&](const ProbeLibrary& library) {
        return std::none_of(known.libraries.begin(), known.libraries.end(),
                            [&](const ProbeLibrary& other) { return other.path == library.path; });
      });
}

// Probes the load set; libraries whose first candidate fails fall back to their next one, until
// nothing changes.
void probe_plan(Preparation& state, const PlanContext& context, const Options& options,
                const fs::path& findings_cache, bool verify_content) {
  ProbeOptions probe_options;
  probe_options.deadline = state.config.probe_deadline;
  probe_options.cache_folder = findings_cache;
  probe_options.verify_content = verify_content;
  probe_options.progress = [&](const std::string& text) { say(options, text); };
  const std::vector<std::size_t> order = state.policy->load_order();
  int probes = 0;
  double seconds = 0.0;
  for (;;) {
    reject_conflicts(state.plan, order, context);
    const PlannedLoadSet planned = make_load_set(state.plan, order, state.host);
    state.load_set = planned.load_set;
    if (state.load_set.libraries.empty() && state.load_set.modules.empty()) break;
    std::optional<Findings> known = cached_findings(state.load_set, probe_options);
    if (!known) {
      say(options, "probing " + std::to_string(state.load_set.libraries.size()) + " libraries" +
                       (state.load_set.torch ? " with torch " + state.load_set.torch->version
                                             : std::string()));
      known = probe(state.load_set, probe_options);
    }
    state.findings = std::move(*known);
    probes += state.findings.probes;
    seconds += state.findings.seconds;
    if (apply_findings(state.plan, planned, state.findings)) {
      check_libraries(state.plan, context);
      continue;
    }
    // A library that was rejected may have stood in the way of another.
    reject_conflicts(state.plan, order, context);
    if (!adds_a_library(make_load_set(state.plan, order, state.host).load_set, state.load_set))
      break;
  }
  // A driver that the probe refused is not loaded in this process either.
  if (state.findings.driver_rejection) state.load_set.driver.clear();
  state.findings.probes = probes;
  state.findings.seconds = seconds;
}

// Which providers are looked for: those that a route names, and of these the linked-in ones alone
// while the others wait for their turn.
std::vector<bool> wanted_providers(const Preparation& preparation, PreparationScope scope) {
  std::vector<bool> wanted = preparation.policy->routed();
  if (scope == PreparationScope::kAll) return wanted;
  for (std::size_t index = 0; index < wanted.size(); ++index) {
    if (!is_linked_in(preparation.manifests.providers[index].plugin)) wanted[index] = false;
  }
  return wanted;
}

void say_that_providers_wait(Preparation& preparation) {
  const std::vector<bool> routed = preparation.policy->routed();
  for (Verdict& verdict : preparation.verdicts) {
    const Manifest& manifest = preparation.manifests.providers[verdict.provider];
    if (!routed[verdict.provider] || is_linked_in(manifest.plugin)) continue;
    verdict.rejection =
        reject(rules::kRegistryStarting, verdict.operator_name + ": " + manifest.provider,
               "a provider that is ready", "one that is being prepared in the background");
  }
}

}  // namespace

void apply_process_settings(const Config& config) {
  log::Level level{};
  if (log::parse_level(config.log_level, level)) log::set_level(level);
  set_thread_count(config.threads);
}

Result<std::unique_ptr<const RoutePolicy>> make_policy(const Options& options,
                                                       const Preparation& preparation) {
  auto policy = std::make_unique<const RoutePolicy>(preparation.manifests,
                                                    route_rules(options, preparation.config));
  std::vector<Rejection> unknown = policy->unknown_names(preparation.config.file.string());
  // A refused manifest may be the one that holds the name; then the start goes on without it.
  if (!unknown.empty() && preparation.manifests.rejections.empty())
    return std::move(unknown.front());
  return policy;
}

Status prepare(const Options& options, Config config, PreparationScope scope, Registry& registry,
               const void* user, Preparation& made) {
  const Clock::time_point start = Clock::now();
  made.config = std::move(config);
  made.config.trust = std::max(made.config.trust, options.trust);
  made.strict = options.strict.value_or(made.config.strict);
  made.is_complete = scope == PreparationScope::kAll;
  // Someone who only looks must be able to see what differs.
  if (options.lock_file || options.load)
    made.lock_file = options.lock_file.value_or(made.config.lock_file.value_or(fs::path()));
  const Trust trust = made.config.trust;
  if (Check wrong = check_named_inputs(options)) return invalid(*wrong);
  // A change's settings count when it is published; an untrusted configuration's never do. What lax
  // trust warns of is told at the configuration's own level.
  const bool is_first = registry.current().number == 0;
  if (is_first && trust == Trust::kLax) apply_process_settings(made.config);
  if (!made.config.file.empty()) {
    if (Check untrusted = require_trust(made.config.file, trust)) return invalid(*untrusted);
  }
  if (is_first && trust == Trust::kStrict) apply_process_settings(made.config);
  if (Check untrusted = require_trust(find_probe_executable(), trust)) return invalid(*untrusted);

  const Result<PluginModule>& native = native_module();
  if (!native.ok())
    return Status(StatusCode::kInternal, to_string(native.rejection()), native.rejection());

  const ManifestSources sources = manifest_sources(options, made.config);
  made.manifests = read_manifests(sources);
  made.manifest_folders = sources.folders;
  if (options.manifest_files.empty()) {
    for (fs::path& folder : default_manifest_folders())
      made.manifest_folders.push_back(std::move(folder));
  }
  if (options.manifest_files.empty()) add_native_bindings(made.manifests, *native->module);
  if (shipped_manifest_folder().empty()) {
    made.rejections.push_back(reject(rules::kManifestMissing, own_file().string(),
                                     "share/opmux/manifests beside it", "none",
                                     "Reinstall opmux; only native kernels are known without it."));
  }
  Result<std::unique_ptr<const RoutePolicy>> policy = make_policy(options, made);
  if (!policy.ok()) return invalid(policy.rejection());
  made.policy = *std::move(policy);
  for (Rejection& unknown : made.policy->unknown_names(made.config.file.string()))
    made.rejections.push_back(std::move(unknown));
  made.environments = search_environments(options, made.config);
  made.host = read_host_facts();
  if (!made.host.driver.empty()) {
    if (Check untrusted = require_trust(made.host.driver, trust)) {
      made.rejections.push_back(*std::move(untrusted));
      made.host.driver.clear();
    }
  }
  if (options.stub_driver) {
    made.host.stub_driver = find_stub_driver();
    if (made.host.stub_driver.empty()) {
      return invalid(reject(rules::kContractNoDriver, "--stub-driver", "a stub libcuda.so.1",
                            "none in the installation or the CUDA Toolkit", "Reinstall opmux."));
    }
  }

  PlanContext context;
  context.manifests = &made.manifests;
  context.environments = &made.environments;
  context.host = &made.host;
  const bool is_strict_trust = trust == Trust::kStrict;
  context.trust = trust;
  const fs::path cache = cache_folder(made.config, made.rejections);
  context.module_folders = {module_folder()};
  if (!cache.empty()) context.module_folders.push_back(cache / "modules");
  // Outcomes of byte checks are kept by identity alone; with strict trust they are not believed.
  if (options.use_cache && !is_strict_trust) context.cache_folder = cache;
  made.module_folders = context.module_folders;
  made.plan = make_plan(context, wanted_providers(made, scope));
  std::optional<LockedOpening> locked;
  if (!made.lock_file.empty() && scope == PreparationScope::kAll) {
    // Who may write it can make it accept what it was made to refuse. One that is missing says so.
    std::error_code error;
    if (fs::exists(made.lock_file, error)) {
      if (Check untrusted = require_trust(made.lock_file, trust)) return invalid(*untrusted);
    }
    if (!made.manifests.rejections.empty()) return invalid(made.manifests.rejections.front());
    StatusOr<LockedOpening> begun = LockedOpening::begin(
        made.lock_file, lock_context(made, [&](const std::string& text) { say(options, text); }),
        made.lock_drifts);
    if (!begun.ok()) return begun.status();
    locked = std::move(*begun);
    for (const auto& [path, identity] : locked->identities())
      made.plan.checked_files[path] = identity;
  }
  if (scope == PreparationScope::kAll) {
    probe_plan(made, context, options, options.use_cache ? cache : fs::path(),
               is_strict_trust || locked);
  }

  made.verdicts = decide({&made.manifests, &made.plan, &made.findings, &made.host, native->module});
  if (locked) {
    Status differs =
        locked->finish(lock_context(made, {}), made.verdicts, made.findings, made.lock_drifts);
    if (!differs.ok()) return differs;
  }
  if (scope == PreparationScope::kNativeOnly) say_that_providers_wait(made);
  made.operators = registry.declare(made.manifests.declarations, made.rejections);
  if (options.load && !made.load_set.libraries.empty()) say(options, "loading providers");
  const bool is_watching = options.watch.value_or(made.config.watch);
  made.bindings =
      bind_verdicts({made.verdicts, made.plan, made.load_set, made.findings.registrations,
                     made.manifests, made.operators, *native, registry, user, options.load,
                     is_watching ? &made.module_folders : nullptr});
  made.seconds = seconds_since(start);
  return {};
}

}  // namespace opmux
