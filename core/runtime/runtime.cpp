// SPDX-License-Identifier: Apache-2.0
#include "opmux/runtime.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
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
#include "core/runtime/state.hpp"

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

// Relative paths count from the current folder, once: it may change later.
Options with_absolute_paths(Options options) {
  for (fs::path& folder : options.environments) folder = fs::absolute(folder);
  for (fs::path& folder : options.manifests) folder = fs::absolute(folder);
  for (fs::path& file : options.manifest_files) file = fs::absolute(file);
  if (options.lock_file) options.lock_file = fs::absolute(*options.lock_file);
  if (options.config_file) options.config_file = fs::absolute(*options.config_file);
  return options;
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
  for (const fs::path& folder :
       {user_config_folder() / "providers.d", fs::path("/etc/opmux/providers.d")}) {
    if (folder.is_absolute() && fs::is_directory(folder, error)) sources.folders.push_back(folder);
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
void probe_plan(Runtime::State& state, const PlanContext& context, const Options& options,
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

}  // namespace

StatusOr<Runtime> Runtime::open(const Options& options) {
  try {
    return open_unguarded(with_absolute_paths(options));
  } catch (const std::exception& problem) {
    // Memory that ran out, or a system call of the standard library that has no quiet form.
    return Status(StatusCode::kInternal,
                  std::string("opmux could not start: ") + printable(problem.what()));
  }
}

StatusOr<Runtime> Runtime::open_unguarded(const Options& options) {
  const Clock::time_point start = Clock::now();
  if (Check wrong = check_named_inputs(options)) return invalid(*wrong);
  Result<Config> config = load_config(options.config_file);
  if (!config.ok()) return invalid(config.rejection());
  config->trust = std::max(config->trust, options.trust);
  if (!config->file.empty()) {
    if (Check untrusted = require_trust(config->file, config->trust)) return invalid(*untrusted);
  }
  if (Check untrusted = require_trust(find_probe_executable(), config->trust))
    return invalid(*untrusted);

  auto state = std::make_unique<State>();
  state->config = std::move(*config);
  log::Level level{};
  if (log::parse_level(state->config.log_level, level)) log::set_level(level);
  set_thread_count(state->config.threads);

  const Result<PluginModule>& native = native_module();
  if (!native.ok())
    return Status(StatusCode::kInternal, to_string(native.rejection()), native.rejection());

  state->manifests = read_manifests(manifest_sources(options, state->config));
  if (options.manifest_files.empty()) add_native_bindings(state->manifests, *native->module);
  if (shipped_manifest_folder().empty()) {
    state->rejections.push_back(
        reject(rules::kManifestMissing, own_file().string(), "share/opmux/manifests beside it",
               "none", "Reinstall opmux; only native kernels are known without it."));
  }
  state->policy =
      std::make_unique<RoutePolicy>(state->manifests, route_rules(options, state->config));
  for (const Rejection& unknown : state->policy->unknown_names(state->config.file.string())) {
    // A refused manifest may be the one that holds the name; then the start goes on without it.
    if (state->manifests.rejections.empty()) return invalid(unknown);
    state->rejections.push_back(unknown);
  }
  state->environments = search_environments(options, state->config);
  state->host = read_host_facts();
  if (!state->host.driver.empty()) {
    if (Check untrusted = require_trust(state->host.driver, state->config.trust)) {
      state->rejections.push_back(*std::move(untrusted));
      state->host.driver.clear();
    }
  }
  if (options.stub_driver) {
    state->host.stub_driver = find_stub_driver();
    if (state->host.stub_driver.empty()) {
      return invalid(reject(rules::kContractNoDriver, "--stub-driver", "a stub libcuda.so.1",
                            "none in the installation or the CUDA Toolkit", "Reinstall opmux."));
    }
  }

  PlanContext context;
  context.manifests = &state->manifests;
  context.environments = &state->environments;
  context.host = &state->host;
  const bool is_strict_trust = state->config.trust == Trust::kStrict;
  context.trust = state->config.trust;
  const fs::path cache = cache_folder(state->config, state->rejections);
  context.module_folders = {module_folder()};
  if (!cache.empty()) context.module_folders.push_back(cache / "modules");
  // Outcomes of byte checks are kept by identity alone; with strict trust they are not believed.
  if (options.use_cache && !is_strict_trust) context.cache_folder = cache;
  state->plan = make_plan(context, state->policy->routed());
  std::optional<LockedOpening> locked;
  std::optional<fs::path> lock_file = options.lock_file;
  // Someone who only looks must be able to see what differs.
  if (!lock_file && options.load) lock_file = state->config.lock_file;
  if (lock_file) {
    if (!state->manifests.rejections.empty()) return invalid(state->manifests.rejections.front());
    StatusOr<LockedOpening> begun = LockedOpening::begin(
        *lock_file, lock_context(*state, [&](const std::string& text) { say(options, text); }));
    if (!begun.ok()) return begun.status();
    locked = std::move(*begun);
    for (const auto& [path, identity] : locked->identities())
      state->plan.checked_files[path] = identity;
  }
  probe_plan(*state, context, options, options.use_cache ? cache : fs::path(),
             is_strict_trust || locked);

  state->verdicts =
      decide({&state->manifests, &state->plan, &state->findings, &state->host, native->module});
  if (locked) {
    Status unlocked = locked->finish(lock_context(*state, {}), state->verdicts, state->findings);
    if (!unlocked.ok()) return unlocked;
  }
  state->registry =
      &Registry::create(state->manifests.declarations, state->verdicts.size(), state->rejections);
  if (options.load && !state->load_set.libraries.empty()) say(options, "loading providers");
  state->bindings =
      bind_verdicts(state->verdicts, state->plan, state->load_set, state->findings.registrations,
                    state->manifests, *native, *state->registry, options.load);
  state->registry->publish(make_generation(*state, options.strict.value_or(state->config.strict)));
  state->seconds = seconds_since(start);
  log_decisions(*state);
  return Runtime(std::move(state));
}

Runtime::Runtime(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

StatusOr<BoxedOperator> Runtime::boxed(std::string_view name) const {
  if (const detail::OperatorState* found = state_->registry->find(name))
    return BoxedOperator(found);
  std::vector<std::string> names;
  for (const auto& known : state_->registry->operators()) names.push_back(known->name);
  const std::string near = nearest(name, names);
  Rejection rejection =
      reject(rules::kRegistryUnknownOperator, printable(name), "a declared operator", "none",
             near.empty() ? "See `opmux list`." : "Did you mean `" + near + "`?");
  std::string message = to_string(rejection);
  return Status(StatusCode::kNotFound, std::move(message), std::move(rejection));
}

Report Runtime::report() const { return make_report(*state_); }

const OpmuxDeviceServices* Runtime::device_services(Device device) const {
  if (device.type != OPMUX_DEVICE_CUDA) return nullptr;
  for (const PluginModule& module : state_->bindings.modules) {
    if (module.module->device_services != nullptr) return module.module->device_services;
  }
  return nullptr;
}

}  // namespace opmux
