// SPDX-License-Identifier: Apache-2.0
//
// Numbers of every dtype as double and back, rounded to nearest even. Slow and general: for inputs
// and comparisons only. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opmux/tensor_view.hpp"

namespace opmux {

// float32, bfloat16, int64, ...
std::optional<DType> dtype_of(std::string_view name);
// Nothing for one that no opmux operator computes with.
std::optional<DType> dtype_of(OpmuxDataType dtype);
std::string name_of(DType dtype);
std::size_t size_of(DType dtype);
bool is_floating(DType dtype);

// The element at `data`. Integers beyond 2^53 lose their last bits.
double load(const std::byte* data, DType dtype);
void store(double value, std::byte* data, DType dtype);

// The distance between `value` and its neighbour in a floating dtype; of the smallest numbers, the
// distance between two subnormals.
double ulp_at(double value, DType dtype);

}  // namespace opmux
