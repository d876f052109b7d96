// SPDX-License-Identifier: Apache-2.0
//
// What one Runtime knows, and how it changes: one change at a time prepares beside the running
// generation and publishes a new one, or says why not.
//
// Locks: `change_mutex` is held by the thread that changes the routes, `mutex` only while members
// are read or written. No lock is held during Options::on_change and during calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/preparation.hpp"
#include "core/runtime/report_server.hpp"
#include "core/runtime/service.hpp"
#include "opmux/runtime.hpp"

namespace opmux {

// What the running generation was made of.
struct Published {
  std::shared_ptr<const Preparation> preparation;
  std::shared_ptr<const RoutePolicy> policy;
  const Generation* generation = nullptr;
};

struct Runtime::State {
  explicit State(Options options);  // with absolute paths
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Status open();
  // A reload. `trigger` is ChangeReport's.
  Status change(const std::string& trigger);
  Status set_routes(const Routes& routes);
  StatusOr<OverrideScope> override_routes(const Routes& routes);
  Status wait_ready(std::chrono::milliseconds deadline);

  Published published() const;
  Registry& registry() const { return registry_; }
  std::vector<ChangeReport> history() const;
  bool is_ready() const;
  std::vector<Rejection> rejections() const;  // of the runtime itself
  // Where the report is offered; empty: nowhere.
  std::filesystem::path report_socket() const;

 private:
  class Change;
  struct KeepModules;
  void publish(RouteSet routes, std::shared_ptr<const Preparation> preparation,
               std::shared_ptr<const RoutePolicy> policy, ChangeReport& report);
  // The modules of `preparation` are those that this runtime uses.
  void keep(const Preparation& preparation);
  Status prepare_and_publish(ChangeReport& report);
  Status publish_routes(const Routes& routes, ChangeReport& report);
  bool is_watching() const;
  void watch_files(const Preparation* refused);
  void set_ready(const Status& status);
  void offer_report(const Preparation& preparation);

  bool is_watching_ = false;  // set by open()
  Options options_;           // the routes are guarded by change_mutex_, the rest does not change
  Registry& registry_;

  std::mutex change_mutex_;
  std::atomic<std::thread::id> changing_thread_{};
  std::set<std::string> told_;  // log lines; guarded by change_mutex_

  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable ready_changed_;
  Published published_;
  std::deque<ChangeReport> history_;
  bool is_ready_ = false;
  Status ready_status_;
  std::optional<Rejection> watch_rejection_;
  std::optional<Rejection> report_socket_rejection_;
  std::filesystem::path report_socket_;
  // By the generation that they were made of and their routes, so that scopes made again and again
  // cost no memory.
  std::map<std::string, const Generation*> overrides_;

  Service service_;                              // its thread uses the rest
  std::unique_ptr<ReportServer> report_server_;  // as does this one's; set by open()
};

// What an exception of the standard library came to; `what` was not done.
Status internal_error(const char* what, const std::exception& problem) noexcept;

// One consistent report; counters are summed at this moment.
Report make_report(const Runtime::State& state);

// Says in the log what was decided, rejections that many bindings share once, and what `told` has
// not at all. `told` then holds what was decided now.
void log_decisions(const Preparation& preparation, std::set<std::string>& told);

// What is wrong with `next` that is not wrong with `running`: refused files, providers that crash
// in the probe or cannot be loaded, and bindings that `running` serves and `next` rejects for
// anything else than being gone. Nothing: `next` may be published.
std::vector<Rejection> new_faults(const Preparation& running, const Preparation& next);

// Operators that `running` serves on a device and for which `next` has no binding left: their calls
// would fail (runtime.unserved).
std::vector<Rejection> unserved(const Generation& running, const RouteSet& next);

// The folders whose changes matter to a runtime in this state.
std::vector<WatchedFolder> watched_folders(const Options& options, const Preparation& preparation);

}  // namespace opmux
