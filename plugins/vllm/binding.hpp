// SPDX-License-Identifier: Apache-2.0
//
// One operator of a provider, found in the Dispatcher and prepared so that a call only converts
// values and calls boxed. Made once, read by all threads, never destroyed.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/torch/argument.hpp"

namespace opmux::vllm {

// Where one argument of the provider comes from.
struct Source {
  torch_shared::ArgumentType type;
  OpmuxCallSource from{};  // kind and places; a constant's value is `constant`
  std::int32_t slot = -1;  // of the thread's frame: a TensorSlot or a kept value, by `type`
  bool written = false;    // a tensor that the provider's schema marks as written
  c10::IValue constant;
};

// What happens to one result of the provider.
struct Target {
  std::int32_t argument = -1;  // negative: dropped
  std::int32_t slot = -1;      // TensorSlot of the thread's frame
  bool negative_infinity = false;
};

struct Binding {
  explicit Binding(c10::OperatorHandle handle) : handle(std::move(handle)) {}

  c10::OperatorHandle handle;
  std::string name;  // namespace::name.overload
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::size_t index = 0;  // of this thread's frame
  std::uint32_t tensor_slots = 0;
  std::uint32_t kept_values = 0;
  bool returns_list = false;                    // one Tensor[], whose items the targets name
  std::vector<Source> sources;                  // one per argument of the provider
  std::vector<Target> targets;                  // one per result, or item, of the provider
  std::vector<std::string> operator_arguments;  // names, for messages
};

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept;

// OpmuxBound.call of every binding.
OpmuxStatus call_binding(void* binding, const OpmuxCall* call) noexcept;

}  // namespace opmux::vllm
