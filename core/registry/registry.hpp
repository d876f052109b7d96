// SPDX-License-Identifier: Apache-2.0
//
// Operators, their routes, and the call.
//
// A generation is one immutable set of all routes. publish() swaps one atomic pointer; a call loads
// it once and uses that generation to its end. Generations, routes, bindings and registries are
// never freed: a caller may still be inside one. Routes are shared by the generations that have
// them in common, so that a generation costs a pointer per operator.
//
// Thread safety: calls and report functions may run concurrently with declare() and publish();
// those two are serialised by a mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/compare/compare.hpp"
#include "core/config/config.hpp"
#include "core/manifest/manifest.hpp"
#include "core/registry/condition.hpp"
#include "core/registry/counters.hpp"
#include "core/registry/module_use.hpp"
#include "core/registry/quarantine.hpp"
#include "opmux/operator.hpp"
#include "opmux/plugin.h"

namespace opmux {

class Registry;

// What is known of the calls of one binding beside its counts. One per counter, for ever.
struct BindingRecord {
  BindingHealth health;
  RateLimit shadow_log{std::chrono::seconds(10)};
};

// One way to serve one operator, ready to call.
struct BoundCall {
  OpmuxStatus (*call)(void* binding, const OpmuxCall* call) = nullptr;
  void* binding = nullptr;
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::uint32_t counter = 0;  // index into Counters
  std::vector<CompiledCondition> conditions;
  std::string provider;
  std::uint32_t copies = 0;     // device copies into outputs that one call makes
  ModuleUse* module = nullptr;  // counts the calls inside a module that may be unmapped, else null
  BindingRecord* record = nullptr;  // of the counter; set by the registry
};

// What a counted call answers when its module is closing: the generation was replaced, the call is
// to start again. Of bindings with a `module` only.
inline constexpr OpmuxStatus kModuleClosing = -0x4f504d58;

// The binding's answer, counted where its module may be unmapped.
OpmuxStatus call_binding(const BoundCall& binding, const OpmuxCall& call);

// A binding that stands in the route and cannot serve, with the reason found when it was checked.
struct SkippedBinding {
  std::string provider;
  Rejection rejection;
};

// Which calls a second binding serves, too (shadow.hpp).
struct ShadowRoute {
  double sample = 0.0;                 // share of the calls; 0: none
  const BoundCall* binding = nullptr;  // null: the next of the route that takes the call
  Tolerance tolerance;

  bool operator==(const ShadowRoute&) const = default;
};

// The route of one operator on one device.
struct DeviceRoute {
  std::vector<const BoundCall*> entries;  // in order
  std::vector<SkippedBinding> skipped;    // in order
  bool first_is_skipped = false;          // the head of the route is a skipped binding
  bool strict = false;                    // every fallback is an error
  OnError on_error = OnError::kRaise;
  QuarantineSettings quarantine = {};
  ShadowRoute shadow = {};
};

enum class DeviceSlot : std::uint32_t { kCpu = 0, kCuda = 1 };
inline constexpr std::size_t kDeviceSlots = 2;
using DeviceRoutes = std::array<DeviceRoute, kDeviceSlots>;

// What the common case of a call needs of a DeviceRoute, in half a cache line. `call` is null where
// calls must take the slow path: where there is no binding, where strict mode refuses because the
// head of the route is skipped, where calls are sampled for a shadow, and while the first binding
// is in quarantine. It is the one member that changes; a call that read it before is served by the
// binding as it would have been then.
struct FirstBinding {
  std::atomic<OpmuxStatus (*)(void* binding, const OpmuxCall* call)> call{nullptr};
  void* binding = nullptr;
  const CompiledCondition* conditions = nullptr;
  std::uint32_t condition_count = 0;
  std::uint32_t counter = 0;
};

// The routes of one operator. Immutable once it is part of a generation, but for
// FirstBinding::call.
struct OperatorRoute {
  std::array<FirstBinding, kDeviceSlots> first;
  DeviceRoutes devices;
};

namespace detail {
struct OperatorState;
struct Override;
}  // namespace detail

using OperatorList = std::vector<const detail::OperatorState*>;

struct Generation {
  std::uint64_t number = 0;
  bool strict = false;
  // By operator index; null for one that was declared and is in no generation up to this one.
  std::vector<const OperatorRoute*> routes;
  std::shared_ptr<const OperatorList> operators;  // that it declares, sorted by name
};

// What publish() makes a generation of.
struct RouteSet {
  bool strict = false;
  // Of the declared operators; the others of the registry get a route that says that they are gone.
  std::map<const detail::OperatorState*, DeviceRoutes> routes;
};

namespace detail {

struct OperatorState {
  Registry* registry = nullptr;
  std::uint32_t index = 0;
  std::int32_t first_tensor = -1;  // the first argument of type Tensor: its device is the call's
  std::uint32_t argument_count = 0;
  std::uint32_t required_count = 0;  // arguments without a default
  bool is_published = false;         // there may be handles; guarded by the registry's mutex
  std::string name;
  std::string schema_text;
  schema::Schema schema;
  std::vector<ArgumentKind> kinds;
  std::vector<OpmuxValue> defaults;  // parallel to the arguments; meaningful from required_count on
  std::vector<std::unique_ptr<OpmuxIntList>> list_storage;  // what list defaults point to
  std::vector<std::vector<std::int64_t>> list_values;
  std::vector<std::unique_ptr<std::string>> string_storage;
};

}  // namespace detail

class Registry {
 public:
  // Lives for the process.
  static Registry& create();

  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The state of each declaration, in their order; a new one for a name that is new, or that no
  // generation ever had with this schema or another. Null where a declaration is refused, with the
  // reason in `rejections`: its schema has an argument type that calls cannot carry
  // (manifest.schema), or it is not the one that handles may have been resolved with
  // (registry.redeclared_operator). Seen by find() from the publish() on whose routes have it.
  OperatorList declare(const std::vector<OperatorDeclaration>& declarations,
                       std::vector<Rejection>& rejections);

  // Makes `routes` the generation that calls use from now on, and keeps it for ever. Without a
  // difference to the current generation nothing happens. The current generation.
  const Generation& publish(RouteSet routes);
  // The generation that publish() would make, with the current one's number; calls do not use it.
  const Generation& prepare(RouteSet routes);
  const Generation& current() const noexcept { return *current_.load(std::memory_order_acquire); }
  // The generation of a call of operator `index` that starts now on this thread: an override's that
  // knows the operator, else the current one.
  const Generation& for_this_thread(std::uint32_t index) const noexcept;
  // That override, or null.
  const detail::Override* override_for_this_thread(std::uint32_t index) const noexcept;

  // The binding record of this key, made by `make` when there is none yet. Lives for the process.
  // The key must tell apart all that a call could tell apart.
  const BoundCall* find_binding(const std::string& key) const;
  BoundCall& add_binding(std::string key, BoundCall binding);

  // An operator of the current generation; null when it has none of this name.
  const detail::OperatorState* find(std::string_view name) const;
  const OperatorList& operators() const noexcept { return *current().operators; }

  Counters& counters() noexcept { return counters_; }
  const Counters& counters() const noexcept { return counters_; }
  // The same for the same binding in every generation, so that its counts go on.
  std::uint32_t counter_of(const std::string& operator_name, const std::string& provider,
                           const std::string& device);
  // The provider of this counter; empty when it never was given out.
  std::string provider_of(std::uint32_t counter) const;
  // Null when the counter never was given out.
  const BindingRecord* record_of(std::uint32_t counter) const;
  // To be called after the health of a binding of the operator changed, so that its calls take the
  // way that fits.
  void update_first(const detail::OperatorState& state);

  MonotonicTime now() const noexcept { return clock()(); }
  MonotonicClock clock() const noexcept { return clock_.load(std::memory_order_relaxed); }
  // For tests.
  void set_clock(MonotonicClock clock) noexcept { clock_.store(clock); }
  const OpmuxHost* host() const noexcept { return host_; }

 private:
  Registry();
  const detail::Override* find_override(std::uint32_t index) const noexcept;
  const OperatorRoute* intern(std::size_t index, DeviceRoutes devices);
  std::unique_ptr<Generation> make_generation(RouteSet routes);

  std::atomic<const Generation*> current_{nullptr};
  const OpmuxHost* const host_;
  Counters counters_;
  mutable std::mutex mutex_;
  // By index; a state is never removed and an index never given out again.
  std::vector<std::unique_ptr<detail::OperatorState>> states_;
  std::map<std::string, detail::OperatorState*, std::less<>> states_by_name_;
  std::uint64_t next_number_ = 1;
  std::vector<std::unique_ptr<const Generation>> generations_;
  std::vector<std::vector<std::unique_ptr<OperatorRoute>>> routes_;  // by operator index
  std::map<std::string, std::unique_ptr<BoundCall>> bindings_;
  std::map<std::string, std::uint32_t> counters_by_name_;
  std::vector<std::string> counter_providers_;
  std::deque<BindingRecord> records_;  // by counter
  std::atomic<MonotonicClock> clock_{&std::chrono::steady_clock::now};
};

namespace detail {

// One override of a thread, innermost first. Owned by its scope and by its thread's list, which
// only that thread changes: one that ends elsewhere is marked, and leaves the list later.
struct Override {
  const Registry* registry = nullptr;
  const Generation* generation = nullptr;
  Override* outer = nullptr;
  // Where its scope holds modules that may be unmapped.
  std::vector<std::pair<ModuleUse*, int>> held_shards;
  std::atomic<bool> ended{false};
  std::atomic<int> owners{2};

  void release() noexcept;
};
extern thread_local constinit Override* innermost_override
    __attribute__((tls_model("initial-exec")));
// Calls of this thread that an override let into a module. While there are any, ended overrides
// stay: a call on the way to its next binding looks at its own once more.
extern thread_local constinit int held_calls __attribute__((tls_model("initial-exec")));

}  // namespace detail

inline const detail::Override* Registry::override_for_this_thread(
    std::uint32_t index) const noexcept {
  return detail::innermost_override == nullptr ? nullptr : find_override(index);
}

inline const Generation& Registry::for_this_thread(std::uint32_t index) const noexcept {
  if (detail::innermost_override == nullptr) [[likely]]
    return current();
  const detail::Override* const found = find_override(index);
  return found == nullptr ? current() : *found->generation;
}

// While it lives, calls of its thread to operators of `registry` use `generation`. Scopes nest; the
// innermost counts. Thread safety: may be moved and destroyed anywhere; where that is another
// thread than its own, the override ends just the same.
class OverrideScope {
 public:
  // Nothing when a module of `generation` is closing.
  static std::optional<OverrideScope> make(const Registry& registry, const Generation& generation);
  OverrideScope(OverrideScope&& other) noexcept;
  OverrideScope& operator=(OverrideScope&&) = delete;
  ~OverrideScope();

 private:
  OverrideScope(const Registry& registry, const Generation& generation,
                std::vector<ModuleHold> holds);

  detail::Override* override_;
  std::vector<ModuleHold> holds_;  // modules of the generation that may be unmapped
  std::thread::id thread_;
};

}  // namespace opmux
