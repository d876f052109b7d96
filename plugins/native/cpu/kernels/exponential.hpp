// SPDX-License-Identifier: Apache-2.0
//
// exp as a mantissa and an exponent of two, so that a product with it underflows only where the
// product itself does.
//
// For kernel sources only: see the rules in kernels.hpp.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/kernels/elements.hpp"

namespace opmux::native {
namespace {

// exp(z) = mantissa * 2^exponent, mantissa within [0.7, 1.42], exponent a whole number.
struct Exponential {
  float mantissa;
  float exponent;
};

// Below this the kernels take exp for zero: 2^-288 times any two float32 values that an activation
// multiplies it with (one is at most 200, the other 2^128) rounds to zero.
inline constexpr float kLowest = -200.0f;

// exp(r) for |r| <= ln(2) / 2: Taylor's series to r^7, whose rest is 0.3466^8 / 8! = 2^-27.5, or to
// r^5, whose rest is 0.3466^6 / 6! = 2^-18.6, by Horner's rule.
template <Accuracy kAccuracy>
OPMUX_KERNEL_INLINE float exponential_near_zero(float r) {
  float sum = 1.0f / 120.0f;
  if constexpr (kAccuracy == Accuracy::kFloat32) {
    sum = (1.0f / 5040.0f * r + 1.0f / 720.0f) * r + 1.0f / 120.0f;
  }
  sum = sum * r + 1.0f / 24.0f;
  sum = sum * r + 1.0f / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  return sum * r + 1.0f;
}

// exp for kLowest <= z <= 0 or NaN. The error, relative and in units of 2^-24 (one rounding to
// float32), is below 2: the last sum of Horner's rule rounds by at most 1 (0.7 of results below 1),
// its last product by 0.35, the sum before it by 0.5 as seen in the result, r by 0.25, and the
// series is cut at 0.1; or below 45 with Accuracy::kHalf, which cuts it at 42.
template <Accuracy kAccuracy>
OPMUX_KERNEL_INLINE Exponential exponential(float z) {
  // Adding 1.5 * 2^23 rounds to a whole number of at most 9 bits. Its product with the first part
  // of ln(2), 355 / 512, is exact, and so is the difference.
  const float whole = (z * 1.44269504f + 0x1.8p23f) - 0x1.8p23f;
  const float r = (z - whole * 0.693359375f) + whole * 2.12194440e-4f;
  return {exponential_near_zero<kAccuracy>(r), whole};
}

// The same with a double, for arguments whose rounding would cost accuracy.
template <Accuracy kAccuracy>
OPMUX_KERNEL_INLINE Exponential exponential(double z) {
  const double whole = (z * 1.4426950408889634 + 0x1.8p52) - 0x1.8p52;
  const double r = z - whole * 0.69314718055994531;
  return {exponential_near_zero<kAccuracy>(static_cast<float>(r)), static_cast<float>(whole)};
}

// 2^exponent for whole numbers within [-126, 127]. Adding 1.5 * 2^23 leaves the number in the last
// bits of the sum, so that no conversion of a NaN to an integer can happen.
OPMUX_KERNEL_INLINE float power_of_two(float exponent) {
  const uint32_t number = bits_of(exponent + 0x1.8p23f) - 0x4b400000u;
  return float_of((number + 127u) << 23);
}

// Factors whose product (coarse twice, fine once) is 2^exponent, each a normal number for
// exponents within [-300, 0].
struct Scale {
  float coarse;
  float fine;
};

OPMUX_KERNEL_INLINE Scale scale_of(float exponent) {
  const float third = (exponent * (1.0f / 3.0f) + 0x1.8p23f) - 0x1.8p23f;
  return {power_of_two(third), power_of_two(exponent - 2.0f * third)};
}

}  // namespace
}  // namespace opmux::native
