// SPDX-License-Identifier: Apache-2.0
//
// Conditions of a binding, compiled so that a call can test them without allocation.
// Thread safety: immutable after compilation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/manifest/manifest.hpp"
#include "opmux/plugin.h"

namespace opmux {

struct CompiledCondition {
  ConditionKind kind = ConditionKind::kGiven;
  std::int32_t argument = 0;
  std::int32_t other = -1;
  std::int32_t dim = 0;
  std::uint64_t dtype_mask = 0;  // bit per dtype_index()
  std::int64_t low = 0;
  std::int64_t high = 0;
  double real_low = 0.0;
  double real_high = 0.0;
  std::vector<std::vector<CompiledCondition>> branches;  // kAnyOf
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> names;
  std::string text;
};

CompiledCondition compile_condition(const Condition& condition);

// False when `values` do not meet the condition.
bool holds(const CompiledCondition& condition, const OpmuxValue* values) noexcept;

// The value that the condition is about, in words: "2", "float32 [4, 8] strided".
std::string describe_value(const CompiledCondition& condition, const OpmuxValue* values);

// Canonical name of a dtype, "code 9 bits 16" for unknown ones.
std::string dtype_name(OpmuxDataType dtype);
// Inverse of dtype_name for canonical names; false when there is none.
bool dtype_from_name(const std::string& name, OpmuxDataType& dtype);

// Number of elements of a tensor.
std::int64_t element_count(const OpmuxTensor& tensor) noexcept;

}  // namespace opmux
