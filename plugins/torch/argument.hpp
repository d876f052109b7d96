// SPDX-License-Identifier: Apache-2.0
//
// From the values of the ABI to torch's IValues, by the real types of the provider's schema.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <string>

#include "opmux/plugin.h"

namespace opmux::torch_shared {

// What an argument of the provider takes, optional or not.
enum class ArgumentKind {
  kTensor,
  kTensorList,
  kInt,
  kFloat,
  kBool,
  kNumber,
  kString,
  kIntList,
  kFloatList,
  kIntTuple,
  kScalarType,
  kDevice,
  kNone,  // an optional of a type that the ABI has no value for: only None can be passed
};

struct ArgumentType {
  ArgumentKind kind = ArgumentKind::kNone;
  bool optional = false;
  std::size_t tuple_size = 0;  // kIntTuple
};

// Nothing when the ABI has no value for a type that is not optional.
std::optional<ArgumentType> argument_type(const c10::Argument& argument);

// Converts everything but tensors. Returns false when `value` does not suit `type`; `why` then says
// what was expected and found. `result` may hold the previous call's value for this argument: an
// equal list or string that nobody kept is taken again instead of being built anew.
bool convert(const OpmuxValue& value, const ArgumentType& type, c10::IValue& result,
             std::string& why);

// "int[]", for messages.
std::string value_name(const OpmuxValue& value);

}  // namespace opmux::torch_shared
