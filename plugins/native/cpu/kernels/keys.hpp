// SPDX-License-Identifier: Apache-2.0
//
// Floats as integers of the same order, for selections that NaN cannot confuse.
//
// For kernel sources too: see the rules in kernels.hpp.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/kernels/elements.hpp"

namespace opmux::native {
namespace {

// The key of -infinity and of NaN.
inline constexpr int32_t kLowestKey = static_cast<int32_t>(0x807fffffu);

// -0 and +0 have one key, NaN has -infinity's.
OPMUX_KERNEL_INLINE int32_t key_of(float value) {
  const float infinity = __builtin_inff();
  const float ordered = value >= -infinity ? value + 0.0f : -infinity;
  const int32_t bits = static_cast<int32_t>(bits_of(ordered));
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

OPMUX_KERNEL_INLINE float value_of(int32_t key) {
  return float_of(static_cast<uint32_t>(key ^ ((key >> 31) & 0x7fffffff)));
}

}  // namespace
}  // namespace opmux::native
