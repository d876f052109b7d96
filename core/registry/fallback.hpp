// SPDX-License-Identifier: Apache-2.0
//
// The rest of a call that the fast path does not finish: bindings in order, why each did not serve,
// errors, quarantine, shadow calls. Internal to core/registry.
#pragma once

#include <cstdint>
#include <optional>

#include "core/registry/registry.hpp"
#include "opmux/status.hpp"

namespace opmux {

const char* device_name(std::int32_t type);

inline void count_served(CounterBlock& block, std::uint32_t counter,
                         const Generation& generation) noexcept {
  BindingCounterCell::increment(block.cell(counter).calls);
  block.last_served = counter;
  block.last_generation = &generation;
}

// Tries the bindings of the route in order. `first_answer` is what the first one returned, or
// nothing when it was not called yet. `holder`, if any, is the override of this thread whose
// generation this is: its scope holds the modules, so that closing ones are called all the same.
// Nothing when a module of the route is closing, or when the override ended meanwhile.
std::optional<Status> call_route(const detail::OperatorState& state, const Generation& generation,
                                 const DeviceRoute& route, const OpmuxCall& call,
                                 CounterBlock& block, std::optional<OpmuxStatus> first_answer,
                                 const detail::Override* holder);

// A route without a binding that can be called.
Status no_route(const detail::OperatorState& state, const DeviceRoute& route,
                std::int32_t device_type);

}  // namespace opmux
