// SPDX-License-Identifier: Apache-2.0
//
// The call path. The common case is invoke(): one atomic load, the route by index, the first
// binding's conditions, one indirect call. Everything else is out of line and cold.
#include <algorithm>
#include <array>
#include <utility>

#include "core/base/rules.hpp"
#include "core/loader/loader.hpp"
#include "core/registry/fallback.hpp"
#include "core/registry/registry.hpp"
#include "opmux/operator.hpp"

namespace opmux {
namespace {

using detail::ArgumentKind;
using detail::OperatorState;

const char* kind_name(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return "Tensor";
    case ArgumentKind::kOptionalTensor:
      return "Tensor?";
    case ArgumentKind::kInt:
      return "int";
    case ArgumentKind::kOptionalInt:
      return "int?";
    case ArgumentKind::kFloat:
      return "float";
    case ArgumentKind::kOptionalFloat:
      return "float?";
    case ArgumentKind::kBool:
      return "bool";
    case ArgumentKind::kString:
      return "str";
    case ArgumentKind::kIntList:
      return "int[]";
    case ArgumentKind::kOptionalIntList:
      return "int[]?";
  }
  return "?";
}

bool value_fits(ArgumentKind kind, const OpmuxValue& value) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return value.tag == OPMUX_VALUE_TENSOR && value.payload.tensor != nullptr;
    case ArgumentKind::kOptionalTensor:
      return value.tag == OPMUX_VALUE_NONE ||
             (value.tag == OPMUX_VALUE_TENSOR && value.payload.tensor != nullptr);
    case ArgumentKind::kInt:
      return value.tag == OPMUX_VALUE_INT;
    case ArgumentKind::kOptionalInt:
      return value.tag == OPMUX_VALUE_INT || value.tag == OPMUX_VALUE_NONE;
    case ArgumentKind::kFloat:
      return value.tag == OPMUX_VALUE_FLOAT;
    case ArgumentKind::kOptionalFloat:
      return value.tag == OPMUX_VALUE_FLOAT || value.tag == OPMUX_VALUE_NONE;
    case ArgumentKind::kBool:
      return value.tag == OPMUX_VALUE_BOOL;
    case ArgumentKind::kString:
      return value.tag == OPMUX_VALUE_STRING && value.payload.string != nullptr;
    case ArgumentKind::kIntList:
      return value.tag == OPMUX_VALUE_INT_LIST && value.payload.int_list != nullptr;
    case ArgumentKind::kOptionalIntList:
      return value.tag == OPMUX_VALUE_NONE ||
             (value.tag == OPMUX_VALUE_INT_LIST && value.payload.int_list != nullptr);
  }
  return false;
}

[[gnu::cold, gnu::noinline]] Status wrong_stream(const OperatorState& state,
                                                 const OpmuxCall& call) {
  const bool is_cuda = call.device.type == OPMUX_DEVICE_CUDA;
  Rejection rejection =
      reject(rules::kCallStream, state.name, is_cuda ? "a named stream" : "no stream on cpu",
             !is_cuda                                ? "a stream"
             : call.stream_kind == OPMUX_STREAM_NONE ? "none"
             : call.stream_kind == OPMUX_STREAM_HANDLE
                 ? "a null handle"
                 : "a stream of kind " + std::to_string(call.stream_kind));
  return Status(StatusCode::kInvalidArgument, to_string(rejection), rejection);
}

[[gnu::cold, gnu::noinline]] Status wrong_device(const OperatorState& state,
                                                 const OpmuxCall& call) {
  Rejection rejection = reject(rules::kCallDevice, state.name, "tensors on cpu or cuda",
                               "device type " + std::to_string(call.device.type));
  return Status(StatusCode::kInvalidArgument, to_string(rejection), rejection);
}

OpmuxCall make_call(const OperatorState& state, const OpmuxValue* values, Stream stream,
                    std::uint32_t flags) noexcept {
  OpmuxCall call;
  call.struct_size = sizeof call;
  call.flags = flags;
  call.device = state.first_tensor >= 0 ? values[state.first_tensor].payload.tensor->device
                                        : OpmuxDevice{OPMUX_DEVICE_CPU, 0};
  call.stream_kind = stream.kind;
  call.value_count = state.argument_count;
  call.stream = stream.handle;
  call.values = values;
  call.host = state.registry->host();
  return call;
}

// Ok, or why a call with this device and stream is wrong whatever the route.
inline bool device_and_stream_fit(const OpmuxCall& call) noexcept {
  const bool is_cpu = call.device.type == OPMUX_DEVICE_CPU;
  if (is_cpu) return call.stream_kind == OPMUX_STREAM_NONE;
  // A null handle would mean the legacy default stream, which must be asked for by name.
  return call.device.type == OPMUX_DEVICE_CUDA && call.stream_kind != OPMUX_STREAM_NONE &&
         call.stream_kind <= OPMUX_STREAM_PER_THREAD_DEFAULT &&
         (call.stream_kind != OPMUX_STREAM_HANDLE || call.stream != nullptr);
}

[[gnu::cold, gnu::noinline]] Status device_or_stream_error(const OperatorState& state,
                                                           const OpmuxCall& call) {
  if (call.device.type != OPMUX_DEVICE_CPU && call.device.type != OPMUX_DEVICE_CUDA)
    return wrong_device(state, call);
  return wrong_stream(state, call);
}

inline bool all_hold(const FirstBinding& first, const OpmuxValue* values) noexcept {
  for (std::uint32_t index = 0; index < first.condition_count; ++index) {
    if (!holds(first.conditions[index], values)) return false;
  }
  return true;
}

// A call that the first binding does not serve. `answer` is what the first binding returned, if
// called.
[[gnu::cold, gnu::noinline]] Status uncommon(const OperatorState& state,
                                             const Generation& generation, const OpmuxCall& call,
                                             std::size_t slot, std::optional<OpmuxStatus> answer) {
  const Generation* tried = &generation;
  const detail::Override* holder = nullptr;
  for (;;) {
    const DeviceRoute& route = tried->routes[state.index]->devices[slot];
    if (route.entries.empty()) return no_route(state, route, call.device.type);
    std::optional<Status> status =
        call_route(state, *tried, route, call, state.registry->counters().local(), answer, holder);
    if (status) return *std::move(status);
    // A module closes only after another generation was published. The same one again is an
    // override's, which holds its modules.
    answer.reset();
    const detail::Override* const at = state.registry->override_for_this_thread(state.index);
    const Generation* const next = at == nullptr ? &state.registry->current() : at->generation;
    holder = next == tried ? at : nullptr;
    tried = next;
  }
}

// A call whose device and stream fit. The slot is a constant, so that the first binding is loaded
// while the tensor's device still is.
template <DeviceSlot slot>
inline Status serve(const OperatorState& state, const Generation& generation,
                    const OpmuxCall& call) {
  constexpr auto kSlot = static_cast<std::size_t>(slot);
  const FirstBinding& first = generation.routes[state.index]->first[kSlot];
  const auto binding = first.call.load(std::memory_order_relaxed);
  if (binding == nullptr || !all_hold(first, call.values)) [[unlikely]]
    return uncommon(state, generation, call, kSlot, std::nullopt);
  OpmuxStatus answer;
  {
    const WorkspaceScope workspace;
    answer = binding(first.binding, &call);
  }
  if (answer != OPMUX_OK) [[unlikely]]
    return uncommon(state, generation, call, kSlot, answer);
  CounterBlock& block = state.registry->counters().local();
  count_served(block, first.counter, generation);
  return {};
}

inline Status invoke(const OperatorState& state, const OpmuxValue* values, Stream stream,
                     std::uint32_t flags) {
  const Generation& generation = state.registry->for_this_thread(state.index);
  const OpmuxCall call = make_call(state, values, stream, flags);
  if (!device_and_stream_fit(call)) [[unlikely]]
    return device_or_stream_error(state, call);
  if (call.device.type == OPMUX_DEVICE_CPU) [[likely]]
    return serve<DeviceSlot::kCpu>(state, generation, call);
  return serve<DeviceSlot::kCuda>(state, generation, call);
}

Status wrong_count(const OperatorState& state, std::size_t count) {
  return Status(StatusCode::kInvalidArgument, state.name + ": expected " +
                                                  std::to_string(state.required_count) + " to " +
                                                  std::to_string(state.argument_count) +
                                                  " arguments, found " + std::to_string(count));
}

// `values` completed with the schema's defaults.
std::vector<OpmuxValue> with_defaults(const OperatorState& state, const OpmuxValue* values,
                                      std::size_t count) {
  std::vector<OpmuxValue> all(values, values + count);
  all.insert(all.end(), state.defaults.begin() + static_cast<std::ptrdiff_t>(count),
             state.defaults.end());
  return all;
}

Status check_values(const OperatorState& state, const OpmuxValue* values, std::size_t count) {
  if (count < state.required_count || count > state.argument_count)
    return wrong_count(state, count);
  for (std::size_t index = 0; index < count; ++index) {
    if (!value_fits(state.kinds[index], values[index])) {
      return Status(StatusCode::kInvalidArgument,
                    state.name + ": argument " + std::to_string(index + 1) + " `" +
                        state.schema.arguments[index].name + "`: expected " +
                        kind_name(state.kinds[index]) + ", found a value of tag " +
                        std::to_string(values[index].tag));
    }
  }
  return {};
}

bool signature_fits(ArgumentKind schema_kind, ArgumentKind written) {
  if (schema_kind == written) return true;
  switch (schema_kind) {
    // A value that is always given serves an optional argument too.
    case ArgumentKind::kOptionalTensor:
      return written == ArgumentKind::kTensor;
    case ArgumentKind::kOptionalInt:
      return written == ArgumentKind::kInt;
    case ArgumentKind::kOptionalFloat:
      return written == ArgumentKind::kFloat;
    case ArgumentKind::kOptionalIntList:
      return written == ArgumentKind::kIntList;
    default:
      return false;
  }
}

}  // namespace

namespace detail {

// Apart, for the common call to have a small frame.
[[gnu::noinline]] static Status call_with_defaults(const OperatorState* state,
                                                   const OpmuxValue* values, std::size_t count,
                                                   Stream stream, std::uint32_t flags) {
  // A fixed buffer keeps calls that leave out defaults free of allocation too.
  constexpr std::size_t kMaxOnStack = 64;
  if (count < state->required_count || count > state->argument_count)
    return wrong_count(*state, count);
  if (state->argument_count <= kMaxOnStack) {
    std::array<OpmuxValue, kMaxOnStack> all;
    std::copy_n(values, count, all.begin());
    std::copy(state->defaults.begin() + static_cast<std::ptrdiff_t>(count), state->defaults.end(),
              all.begin() + static_cast<std::ptrdiff_t>(count));
    return invoke(*state, all.data(), stream, flags);
  }
  const std::vector<OpmuxValue> all = with_defaults(*state, values, count);
  return invoke(*state, all.data(), stream, flags);
}

Status call(const OperatorState* state, const OpmuxValue* values, std::size_t count, Stream stream,
            std::uint32_t flags) {
  if (count == state->argument_count) [[likely]]
    return invoke(*state, values, stream, flags);
  return call_with_defaults(state, values, count, stream, flags);
}

Status check_signature(const OperatorState* state, const ArgumentKind* kinds, std::size_t count) {
  std::string found;
  bool fits = count >= state->required_count && count <= state->argument_count;
  for (std::size_t index = 0; index < count; ++index) {
    if (index > 0) found += ", ";
    found += kind_name(kinds[index]);
    if (fits && !signature_fits(state->kinds[index], kinds[index])) fits = false;
  }
  if (fits) return {};
  Rejection rejection = reject(rules::kRegistrySignature, state->name,
                               "a C++ signature for " + state->schema_text, "(" + found + ")");
  return Status(StatusCode::kInvalidArgument, to_string(rejection), rejection);
}

}  // namespace detail

const std::string& BoxedOperator::name() const noexcept { return state_->name; }
const std::string& BoxedOperator::schema() const noexcept { return state_->schema_text; }

Status BoxedOperator::call(const OpmuxValue* values, std::size_t count, Stream stream,
                           std::uint32_t flags) const {
  if (Status fits = check_values(*state_, values, count); !fits.ok()) return fits;
  return detail::call(state_, values, count, stream, flags);
}

Status BoxedOperator::call_provider(std::string_view provider, const OpmuxValue* values,
                                    std::size_t count, Stream stream, std::uint32_t flags) const {
  if (Status fits = check_values(*state_, values, count); !fits.ok()) return fits;
  const std::vector<OpmuxValue> all = with_defaults(*state_, values, count);
  const OpmuxCall call = make_call(*state_, all.data(), stream, flags);
  if (!device_and_stream_fit(call)) return device_or_stream_error(*state_, call);
  const auto slot = static_cast<std::size_t>(
      call.device.type == OPMUX_DEVICE_CUDA ? DeviceSlot::kCuda : DeviceSlot::kCpu);
  const Generation* tried = nullptr;
  for (;;) {
    const detail::Override* const at = state_->registry->override_for_this_thread(state_->index);
    const Generation& generation = at == nullptr ? state_->registry->current() : *at->generation;
    const detail::Override* const holder = &generation == tried ? at : nullptr;
    tried = &generation;
    const DeviceRoute& route = generation.routes[state_->index]->devices[slot];
    DeviceRoute only;
    only.strict = route.strict;
    for (const BoundCall* binding : route.entries) {
      if (binding->provider == provider) only.entries.push_back(binding);
    }
    for (const SkippedBinding& skipped : route.skipped) {
      if (skipped.provider == provider) only.skipped.push_back(skipped);
    }
    if (only.entries.empty()) {
      if (only.skipped.empty()) {
        only.skipped.push_back(
            {std::string(provider), reject(rules::kRegistryNotRouted, state_->name,
                                           "a binding of provider " + std::string(provider) +
                                               " on " + device_name(call.device.type),
                                           "none in the route")});
      }
      return no_route(*state_, only, call.device.type);
    }
    std::optional<Status> status =
        call_route(*state_, generation, only, call, state_->registry->counters().local(),
                   std::nullopt, holder);
    if (status) return *std::move(status);
  }
}

LastCall BoxedOperator::last_call() const {
  const CounterBlock& block = state_->registry->counters().local();
  if (block.last_generation == nullptr) return {};
  return {state_->registry->provider_of(block.last_served), block.last_generation->number};
}

std::string BoxedOperator::last_provider() const { return last_call().provider; }

}  // namespace opmux
