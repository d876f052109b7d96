// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/state.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/change.hpp"
#include "core/runtime/modules.hpp"

namespace opmux {
namespace {

using Clock = std::chrono::steady_clock;

// Overrides that are kept for being made again; more are a program that makes up routes.
constexpr std::size_t kOverrides = 1024;

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status status_of(const Rejection& rejection) {
  return Status(StatusCode::kInvalidArgument, to_string(rejection), rejection);
}

// All reasons in one message, one line each.
Status refused(const std::vector<Rejection>& reasons) {
  std::string text = "the running generation stays:";
  for (const Rejection& reason : reasons) text += "\n  " + to_string(reason);
  return Status(StatusCode::kFailed, std::move(text), reasons.front());
}

std::vector<RouteRule> rules_of(const Routes& routes) {
  std::vector<RouteRule> rules;
  for (const auto& [pattern, providers] : routes) {
    RouteRule rule;
    rule.pattern = pattern;
    rule.providers = providers;
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Every provider that `wanted` names is one that the preparation looked for.
bool is_prepared(const Preparation& preparation, const RoutePolicy& wanted) {
  if (!preparation.is_complete) return false;
  const std::vector<bool> have = preparation.policy->routed();
  const std::vector<bool> want = wanted.routed();
  for (std::size_t index = 0; index < want.size(); ++index) {
    if (want[index] && !have[index]) return false;
  }
  return true;
}

}  // namespace

Status internal_error(const char* what, const std::exception& problem) noexcept {
  try {
    return Status(StatusCode::kInternal, std::string(what) + ": " + printable(problem.what()));
  } catch (const std::exception&) {
    return Status::out_of_memory();
  }
}

Runtime::State::State(Options options)
    : options_(std::move(options)), registry_(Registry::create()) {}

Runtime::State::~State() {
  report_server_.reset();
  service_.stop();
}

bool Runtime::State::is_watching() const { return is_watching_; }

Status Runtime::State::open() {
  Change change(*this, "open");
  // What is wrong with an open is told by open itself.
  Result<Config> config = load_config(options_.config_file);
  if (!config.ok()) return status_of(config.rejection());
  const bool in_background = options_.background.value_or(config->start == Start::kBackground);
  const auto preparation = std::make_shared<Preparation>();
  if (Status made = prepare(options_, *std::move(config),
                            in_background ? PreparationScope::kNativeOnly : PreparationScope::kAll,
                            registry_, &registry_, *preparation);
      !made.ok())
    return made;
  is_watching_ = options_.watch.value_or(preparation->config.watch);
  options_.watch = is_watching_;
  Status status = change.run([&] {
    publish(make_routes(*preparation, *preparation->policy, preparation->strict), preparation,
            {preparation, preparation->policy.get()}, change.report);
    return Status();
  });
  if (!status.ok()) return status;
  offer_report(*preparation);
  if (is_watching()) watch_files(nullptr);
  if (in_background) {
    service_.run([this] { (void)this->change("background"); });
  } else {
    set_ready({});
  }
  return {};
}

void Runtime::State::publish(RouteSet routes, std::shared_ptr<const Preparation> preparation,
                             std::shared_ptr<const RoutePolicy> policy, ChangeReport& report) {
  const Clock::time_point start = Clock::now();
  const std::uint64_t before = registry_.current().number;
  const Generation& generation = registry_.publish(std::move(routes));
  report.publish_seconds += seconds_since(start);
  report.outcome = generation.number == before ? "unchanged" : "published";
  const bool is_new = [&] {
    const std::lock_guard lock(mutex_);
    const bool differs = published_.preparation != preparation;
    published_ = {preparation, std::move(policy), &generation};
    return differs;
  }();
  if (!is_new) return;
  apply_process_settings(preparation->config);
  log_decisions(*preparation, told_);
  keep(*preparation);
}

// At the end of a change that was not published, the modules are those of the running generation.
struct Runtime::State::KeepModules {
  State& state;
  const Published& running;
  const ChangeReport& report;

  ~KeepModules() {
    if (!report.outcome.empty()) return;
    try {
      state.keep(*running.preparation);
    } catch (const std::exception&) {
      // They stay mapped until the next change.
    }
  }
};

void Runtime::State::keep(const Preparation& preparation) {
  keep_modules(&registry_, preparation.bindings.modules, options_.drain_deadline);
  if (close_drained_modules()) service_.drain();
}

Status Runtime::State::prepare_and_publish(ChangeReport& report) {
  const Published running = published();
  Result<Config> config = load_config(options_.config_file);
  const auto next = std::make_shared<Preparation>();
  // Also when it ends in an exception: modules that only the refused preparation uses go.
  const KeepModules keep{*this, running, report};
  const Status made = config.ok() ? prepare(options_, *std::move(config), PreparationScope::kAll,
                                            registry_, &registry_, *next)
                                  : status_of(config.rejection());
  RouteSet routes;
  if (made.ok()) {
    // What the first providers' generation has to live with, an open in the foreground has, too.
    const Clock::time_point start = Clock::now();
    routes = make_routes(*next, *next->policy, next->strict);
    report.publish_seconds = seconds_since(start);
    if (running.preparation->is_complete) {
      report.reasons = new_faults(*running.preparation, *next);
      const std::vector<Rejection> lost = unserved(*running.generation, routes);
      report.reasons.insert(report.reasons.end(), lost.begin(), lost.end());
    }
  } else {
    report.reasons = next->lock_drifts;
  }
  if (!made.ok() || !report.reasons.empty()) {
    if (is_watching()) watch_files(next.get());
    return made.ok() ? refused(report.reasons) : made;
  }
  publish(std::move(routes), next, {next, next->policy.get()}, report);
  if (is_watching()) watch_files(nullptr);
  return {};
}

Status Runtime::State::change(const std::string& trigger) {
  if (changing_thread_ == std::this_thread::get_id()) {
    return status_of(reject(rules::kRuntimeNested, trigger, "a thread that does not change routes",
                            "one that is inside a change"));
  }
  Change change(*this, trigger);
  Status status = change.run([&] { return prepare_and_publish(change.report); });
  if (status.ok() || trigger == "background") set_ready(status);
  return status;
}

Status Runtime::State::publish_routes(const Routes& routes, ChangeReport& report) {
  const Published running = published();
  // Taken back, also from an exception, unless it became the running routes.
  struct Undo {
    Routes& routes;
    Routes before;
    const ChangeReport& report;
    ~Undo() {
      if (report.outcome.empty()) routes = std::move(before);
    }
  };
  Routes wanted = routes;
  const Undo undo{options_.routes, std::exchange(options_.routes, std::move(wanted)), report};
  Result<std::unique_ptr<const RoutePolicy>> policy = make_policy(options_, *running.preparation);
  if (policy.ok() && is_prepared(*running.preparation, **policy)) {
    const Clock::time_point start = Clock::now();
    RouteSet made = make_routes(*running.preparation, **policy, running.preparation->strict);
    report.publish_seconds = seconds_since(start);
    report.reasons = unserved(*running.generation, made);
    if (!report.reasons.empty()) return refused(report.reasons);
    publish(std::move(made), running.preparation, *std::move(policy), report);
    return {};
  }
  return prepare_and_publish(report);
}

Status Runtime::State::set_routes(const Routes& routes) {
  if (changing_thread_ == std::this_thread::get_id()) {
    return status_of(reject(rules::kRuntimeNested, "set_routes",
                            "a thread that does not change routes", "one that is inside a change"));
  }
  Change change(*this, "set_routes");
  return change.run([&] { return publish_routes(routes, change.report); });
}

StatusOr<OverrideScope> Runtime::State::override_routes(const Routes& routes) {
  std::string key;
  for (const auto& [pattern, providers] : routes)
    key += pattern + '\n' + join(providers, ",") + '\n';
  const std::lock_guard lock(mutex_);
  const Preparation& preparation = *published_.preparation;
  key += std::to_string(published_.generation->number);
  const auto known = overrides_.find(key);
  const Generation* generation = known == overrides_.end() ? nullptr : known->second;
  if (generation == nullptr) {
    std::vector<RouteRule> rules = rules_of(routes);
    const RoutePolicy asked(preparation.manifests, rules);
    const std::vector<Rejection> unknown = asked.unknown_names("with_route");
    if (!unknown.empty()) return status_of(unknown.front());
    std::vector<RouteRule> all = published_.policy->rules();
    all.insert(all.end(), rules.begin(), rules.end());
    const RoutePolicy policy(preparation.manifests, std::move(all));
    if (!is_prepared(preparation, policy)) {
      return status_of(reject(rules::kRegistryNotRouted, "with_route",
                              "providers that the running generation has loaded",
                              "a provider that no route of it names",
                              "Name it in a route of the configuration, or call set_routes()."));
    }
    generation = &registry_.prepare(make_routes(preparation, policy, preparation.strict));
    if (overrides_.size() == kOverrides) overrides_.clear();
    overrides_.emplace(std::move(key), generation);
  }
  std::optional<OverrideScope> scope = OverrideScope::make(registry_, *generation);
  if (!scope) {
    return Status(StatusCode::kFailed, "with_route: a module of these routes is being unmapped");
  }
  return *std::move(scope);
}

void Runtime::State::watch_files(const Preparation* refused) {
  std::vector<WatchedFolder> folders = watched_folders(options_, *published().preparation);
  // What was refused may be mended where the running generation has nothing.
  if (refused != nullptr) {
    const std::vector<WatchedFolder> more = watched_folders(options_, *refused);
    folders.insert(folders.end(), more.begin(), more.end());
  }
  Check problem = service_.watch(folders, [this] { (void)change("watch"); });
  if (problem) log::warn(to_string(*problem));
  const std::lock_guard lock(mutex_);
  watch_rejection_ = std::move(problem);
}

void Runtime::State::offer_report(const Preparation& preparation) {
  const std::optional<std::filesystem::path>& place =
      options_.report_socket ? options_.report_socket : preparation.config.report_socket;
  if (!place || !options_.load) return;
  Result<std::unique_ptr<ReportServer>> server =
      ReportServer::start(*place, [this] { return to_json(make_report(*this)); });
  if (!server.ok()) log::warn(to_string(server.rejection()));
  const std::lock_guard lock(mutex_);
  if (server.ok()) {
    report_server_ = *std::move(server);
    report_socket_ = report_server_->path();
  } else {
    report_socket_rejection_ = server.rejection();
  }
}

void Runtime::State::set_ready(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    is_ready_ = true;
    ready_status_ = status;
  }
  ready_changed_.notify_all();
}

Status Runtime::State::wait_ready(std::chrono::milliseconds deadline) {
  deadline = std::min(deadline, kLongest);  // a clock that is added to it must not overflow
  std::unique_lock lock(mutex_);
  if (ready_changed_.wait_for(lock, deadline, [&] { return is_ready_; })) return ready_status_;
  Rejection rejection = reject(rules::kRuntimeNotReady, "wait_ready",
                               "ready within " + std::to_string(deadline.count()) + " ms",
                               "providers that are still being prepared");
  return Status(StatusCode::kFailed, to_string(rejection), rejection);
}

Published Runtime::State::published() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

std::vector<ChangeReport> Runtime::State::history() const {
  const std::lock_guard lock(mutex_);
  return {history_.begin(), history_.end()};
}

bool Runtime::State::is_ready() const {
  const std::lock_guard lock(mutex_);
  return is_ready_;
}

std::vector<Rejection> Runtime::State::rejections() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rejection> rejections;
  for (const auto* rejection : {&watch_rejection_, &report_socket_rejection_}) {
    if (*rejection) rejections.push_back(**rejection);
  }
  return rejections;
}

std::filesystem::path Runtime::State::report_socket() const {
  const std::lock_guard lock(mutex_);
  return report_socket_;
}

}  // namespace opmux
