// SPDX-License-Identifier: Apache-2.0
//
// An exported C++ function, prepared so that a call only converts values. Made once, read by all
// threads, never destroyed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/direct_symbol/foreign_function.hpp"
#include "plugins/direct_symbol/signature.hpp"

namespace opmux::direct_symbol {

// A value of the manifest, with what it points to.
struct Constant {
  OpmuxValue value{};
  OpmuxIntList list{};
  std::vector<std::int64_t> integers;
  std::string text;
};

// Where the value of one parameter comes from.
struct Source {
  Parameter parameter;
  OpmuxCallSource from{};              // a constant's value is `constant`
  std::unique_ptr<Constant> constant;  // at a fixed place, since it points into itself
  std::int32_t slot = -1;              // a tensor argument's TensorSlot of the thread's frame
  bool written = false;                // a tensor that the operator writes, so the function may
};

struct Target {
  std::int32_t argument = -1;  // negative: dropped
  std::int32_t slot = -1;      // TensorSlot of the thread's frame
  bool negative_infinity = false;
};

struct Binding {
  explicit Binding(ForeignFunction function) : function(std::move(function)) {}

  ForeignFunction function;
  Return returned;
  std::string name;  // the function's, with namespaces
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::size_t index = 0;  // of this thread's frame
  std::uint32_t tensor_slots = 0;
  std::vector<Source> sources;                  // one per parameter
  std::vector<Target> targets;                  // one per result, or item of the result
  std::vector<std::string> operator_arguments;  // names, for messages
};

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept;

// OpmuxBound.call of every binding.
OpmuxStatus call_binding(void* binding, const OpmuxCall* call) noexcept;

}  // namespace opmux::direct_symbol
