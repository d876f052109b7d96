// SPDX-License-Identifier: Apache-2.0
//
// Operators, their routes, and the call.
//
// A generation is one immutable set of all routes. publish() swaps one atomic pointer; a call loads
// it once and uses that generation to its end. Generations, bindings and registries are never
// freed: a caller may still be inside one, and a few kilobytes per published generation is the
// stated price for calls without reference counts.
//
// Thread safety: calls and report functions may run concurrently with publish(); publish() is
// serialised by a mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "core/registry/condition.hpp"
#include "core/registry/counters.hpp"
#include "opmux/operator.hpp"
#include "opmux/plugin.h"

namespace opmux {

class Registry;

// One way to serve one operator, ready to call.
struct BoundCall {
  OpmuxStatus (*call)(void* binding, const OpmuxCall* call) = nullptr;
  void* binding = nullptr;
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::uint32_t counter = 0;  // index into Counters
  std::vector<CompiledCondition> conditions;
  std::string provider;
};

// A binding that stands in the route and cannot serve, with the reason found when it was checked.
struct SkippedBinding {
  std::string provider;
  Rejection rejection;
};

// The route of one operator on one device.
struct DeviceRoute {
  std::vector<const BoundCall*> entries;  // in order
  std::vector<SkippedBinding> skipped;    // in order
  bool first_is_skipped = false;          // the head of the route is a skipped binding
};

enum class DeviceSlot : std::uint32_t { kCpu = 0, kCuda = 1 };
inline constexpr std::size_t kDeviceSlots = 2;

// What the common case of a call needs of a DeviceRoute, in half a cache line. `call` is null where
// there is no binding, or where strict mode refuses because the head of the route is skipped.
struct FirstBinding {
  OpmuxStatus (*call)(void* binding, const OpmuxCall* call) = nullptr;
  void* binding = nullptr;
  const CompiledCondition* conditions = nullptr;
  std::uint32_t condition_count = 0;
  std::uint32_t counter = 0;
};

struct Generation {
  std::uint64_t number = 0;  // set by publish
  bool strict = false;
  std::vector<std::array<DeviceRoute, kDeviceSlots>> routes;  // by operator index
  std::vector<std::array<FirstBinding, kDeviceSlots>> first;  // parallel to routes, made by publish
};

namespace detail {

struct OperatorState {
  Registry* registry = nullptr;
  std::uint32_t index = 0;
  std::int32_t first_tensor = -1;  // the first argument of type Tensor: its device is the call's
  std::uint32_t argument_count = 0;
  std::uint32_t required_count = 0;  // arguments without a default
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
  // Lives for the process. Declarations whose schema has an argument type that calls cannot carry
  // are refused.
  static Registry& create(const std::vector<OperatorDeclaration>& declarations,
                          std::size_t counter_count, std::vector<Rejection>& rejections);

  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Takes ownership for ever and makes `generation` the one that calls use from now on.
  void publish(std::unique_ptr<Generation> generation);
  const Generation& current() const noexcept { return *current_.load(std::memory_order_acquire); }

  // A binding record that lives for the process.
  BoundCall& add_binding(BoundCall binding);

  const detail::OperatorState* find(std::string_view name) const;
  const std::vector<std::unique_ptr<detail::OperatorState>>& operators() const noexcept {
    return operators_;
  }

  Counters& counters() noexcept { return counters_; }
  const OpmuxHost* host() const noexcept { return host_; }
  // Provider of the binding with this counter; null when it never was bound.
  const BoundCall* binding_of(std::uint32_t counter) const;

 private:
  explicit Registry(std::size_t counter_count);

  std::atomic<const Generation*> current_{nullptr};
  const OpmuxHost* const host_;
  Counters counters_;
  std::vector<std::unique_ptr<detail::OperatorState>>
      operators_;  // sorted by name, fixed after create()
  mutable std::mutex mutex_;
  std::uint64_t next_number_ = 1;
  std::vector<std::unique_ptr<const Generation>> generations_;
  std::vector<std::unique_ptr<BoundCall>> bindings_;
};

}  // namespace opmux
