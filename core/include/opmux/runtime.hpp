// SPDX-License-Identifier: Apache-2.0
//
// The one object of an application: reads manifests, finds and validates providers, and hands out
// operator handles.
//
// Thread safety: open() may be called from any thread, also several times; all members but the move
// operations may be called concurrently, also while calls run. A Runtime may be destroyed while
// handles exist: they keep working, since routes and modules are never freed (a module that
// registered with torch or launched work cannot be). Handles must not be used after main() has
// returned.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opmux/export.h"
#include "opmux/operator.hpp"
#include "opmux/report.hpp"
#include "opmux/status.hpp"
#include "opmux/trust.hpp"

namespace opmux {

// Gets one line per slow step, on the calling thread.
using Progress = std::function<void(const std::string&)>;

struct Options {
  // Python environments, searched in order as sys.path is. Empty: the configuration's, else the
  // process's own.
  std::vector<std::filesystem::path> environments;
  // opmux.yaml; none: OPMUX_CONFIG, the user's, the system's.
  std::optional<std::filesystem::path> config_file;
  // Drop-in folders of highest precedence.
  std::vector<std::filesystem::path> manifests;
  // When not empty, exactly these manifest files are read, beside the shipped operator
  // declarations: no other provider is considered, native included, and the configuration's routes,
  // which are about others too, do not count.
  std::vector<std::filesystem::path> manifest_files;
  // Every fallback becomes an error. None: the configuration's.
  std::optional<bool> strict;
  // Routes of highest precedence: operator pattern, providers in order.
  std::vector<std::pair<std::string, std::vector<std::string>>> routes;
  // Lets the probe use a stub libcuda.so.1. Bindings found usable with it are reported and never
  // callable.
  bool stub_driver = false;
  // The strictest of this, OPMUX_TRUST and the configuration's counts: a file cannot lower what the
  // program asks for.
  Trust trust = Trust::kLax;
  // opmux.lock: whatever differs from it is an error of open(), which says what, before anything is
  // loaded into this process. None: the configuration's, where `load` is true.
  std::optional<std::filesystem::path> lock_file;
  // False: only report; no provider library is mapped into this process and nothing but native is
  // callable.
  bool load = true;
  // False: probe again whatever the cache says.
  bool use_cache = true;
  Progress progress;  // may be empty
  // Follow the configuration, the drop-in folders and the providers' libraries: a change of theirs
  // is a reload, a fraction of a second after the last one. None: the configuration's.
  std::optional<bool> watch;
  // Return at once with native kernels; providers are prepared on another thread and published as
  // the next generation. wait_ready() waits for it. None: the configuration's.
  std::optional<bool> background;
  // Told after every attempt to change the routes, open() included, on the thread that made it and
  // without a lock held; may be empty. What it throws is logged. Must not destroy the runtime: on
  // the runtime's own thread that ends the process.
  std::function<void(const ChangeReport&)> on_change;
  // Offer the report on a Unix domain socket to this user's other processes, `opmux watch` among
  // them. Empty: $XDG_RUNTIME_DIR/opmux/PID.sock, or /tmp/opmux-UID/PID.sock. When the socket
  // cannot be had, Report::rejections says why. None: what OPMUX_REPORT_SOCKET says. Not where
  // `load` is false.
  std::optional<std::filesystem::path> report_socket;
  // How long a module that may be unmapped drains before the log and the report call it late. It is
  // never unmapped under a call.
  std::chrono::milliseconds drain_deadline{5000};
};

// Operator patterns with providers in order; the last pattern that matches an operator counts.
using Routes = std::vector<std::pair<std::string, std::vector<std::string>>>;

// A value or the Status that says why there is none.
template <class T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }
  T& operator*() noexcept { return *value_; }
  const T& operator*() const noexcept { return *value_; }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// Routes of one thread; see Runtime::with_route().
class OPMUX_API [[nodiscard]] RouteScope {
 public:
  RouteScope(RouteScope&&) noexcept;
  RouteScope& operator=(RouteScope&&) = delete;
  ~RouteScope();

 private:
  friend class Runtime;
  struct Impl;
  explicit RouteScope(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

class OPMUX_API Runtime {
 public:
  // Fails only when the configuration or an explicitly named input is wrong; missing or broken
  // providers and manifests are in the report, and native kernels serve. Does not throw.
  static StatusOr<Runtime> open(const Options& options = {});

  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  // The handle of a declared operator (`name` with `.overload`), with its C++ signature checked
  // against the schema. Errors: kNotFound with the nearest name; kInvalidArgument when the
  // signature does not fit.
  template <class Signature>
  StatusOr<Operator<Signature>> op(std::string_view name) const {
    StatusOr<BoxedOperator> boxed = this->boxed(name);
    if (!boxed.ok()) return boxed.status();
    Status fits = Operator<Signature>::check(boxed->state());
    if (!fits.ok()) return fits;
    return Operator<Signature>(boxed->state());
  }
  StatusOr<BoxedOperator> boxed(std::string_view name) const;

  // A consistent picture of one generation, with the counters of all threads.
  Report report() const;

  // Reads, checks, probes and loads everything again beside the running routes, then publishes one
  // new generation. Ok also when nothing changed. When anything is wrong that the running
  // generation does not have - the configuration, a manifest, a library that crashes in the probe
  // or cannot be used any more - nothing is published, the running generation serves on, and the
  // error says why (Report::history, too). A provider that is gone is not wrong: the next one of
  // its routes serves. Calls in flight finish on the generation that they began with. Errors:
  // kInvalidArgument, runtime.nested when called from Options::progress.
  Status reload();

  // Replaces Options::routes. Where all providers that they name are bound already, a matter of
  // microseconds; else a reload, with its rules. When it is refused the routes stay as they were.
  Status set_routes(const Routes& routes);

  // `routes` of highest precedence for the calls of this thread, until the scope ends. Calls of
  // other threads do not change, and cost the same. The scope stays with the generation that it was
  // made of. Errors: kInvalidArgument for an unknown name and for a provider that no route of the
  // running generation names, which therefore is not loaded.
  StatusOr<RouteScope> with_route(const Routes& routes) const;

  // Ok when the providers' generation is published; the error of its preparation when that failed;
  // kFailed, runtime.not_ready, when `deadline` passes.
  Status wait_ready(std::chrono::milliseconds deadline) const;
  // Writes opmux.lock: what this runtime found usable, with the SHA-256 of every file. Hashes some
  // hundred megabytes. Fails when a manifest was refused or a file cannot be read; an earlier lock
  // is then untouched.
  Status write_lock(const std::filesystem::path& file, const Progress& progress = {}) const;
  // What differs from a lock, one rejection per drift; empty: nothing.
  StatusOr<std::vector<Rejection>> compare_lock(const std::filesystem::path& file,
                                                const Progress& progress = {}) const;

  // Memory and streams of a device through a mapped plugin module, for tools; null when none offers
  // them.
  const OpmuxDeviceServices* device_services(Device device) const;

  struct State;

 private:
  explicit Runtime(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace opmux
