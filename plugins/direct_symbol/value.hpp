// SPDX-License-Identifier: Apache-2.0
//
// The C++ objects that a function's parameters refer to or are made of, and their conversion from
// the values of the ABI.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/direct_symbol/signature.hpp"
#include "plugins/torch/argument.hpp"

namespace opmux::direct_symbol {

// A bool, integer, float or double, as it lies in memory.
struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes{};
};

using Object =
    std::variant<Scalar, at::Tensor, std::optional<at::Tensor>, std::optional<const at::Tensor>,
                 std::optional<bool>, std::optional<int>, std::optional<long>,
                 std::optional<double>, c10::ArrayRef<long>, std::vector<long>, std::string,
                 std::optional<at::Generator>>;

// The empty object of a parameter's type.
Object make_object(ValueKind kind);

// Where the C++ object itself lies, as long as the Object stays where it is and holds its kind.
void* address_of(Object& object);

bool is_tensor(ValueKind kind);

// Whether the object refers to something that must not outlive the call: a tensor or a generator.
bool holds_reference(ValueKind kind);
// Makes such an object empty again.
void release(Object& object);

// What an operator's argument must be for a parameter. Nothing for std::optional<at::Generator>,
// which takes a constant none only.
std::optional<torch_shared::ArgumentType> argument_type(ValueKind kind);

// Converts everything but tensors into `object`, made for `kind`. False when the value does not
// suit; `why` then says what was expected and found. Lists are not copied where the parameter is an
// ArrayRef: the value's must outlive the call.
bool convert(const OpmuxValue& value, ValueKind kind, Object& object, std::string& why);

}  // namespace opmux::direct_symbol
