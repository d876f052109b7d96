// SPDX-License-Identifier: Apache-2.0
//
// The number formats from their definition, in float64; shares no code with the kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "opmux/plugin.h"

namespace opmux::test {

enum class Type { kFloat32, kFloat16, kBFloat16, kInt32, kInt64, kUint32, kUint8, kBool };

inline constexpr Type kFloatTypes[] = {Type::kFloat32, Type::kFloat16, Type::kBFloat16};

struct Format {
  int mantissa_bits;  // stored ones
  int min_exponent;   // of normal numbers
  int max_exponent;
};

inline Format format_of(Type type) {
  if (type == Type::kFloat16) return {10, -14, 15};
  if (type == Type::kBFloat16) return {7, -126, 127};
  return {23, -126, 127};
}

inline int exponent_bits(Type type) { return type == Type::kFloat16 ? 5 : 8; }

inline OpmuxDataType dtype_of(Type type) {
  switch (type) {
    case Type::kFloat32:
      return {OPMUX_DTYPE_FLOAT, 32, 1};
    case Type::kFloat16:
      return {OPMUX_DTYPE_FLOAT, 16, 1};
    case Type::kBFloat16:
      return {OPMUX_DTYPE_BFLOAT, 16, 1};
    case Type::kInt32:
      return {OPMUX_DTYPE_INT, 32, 1};
    case Type::kInt64:
      return {OPMUX_DTYPE_INT, 64, 1};
    case Type::kUint32:
      return {OPMUX_DTYPE_UINT, 32, 1};
    case Type::kUint8:
      return {OPMUX_DTYPE_UINT, 8, 1};
    case Type::kBool:
      return {OPMUX_DTYPE_BOOL, 8, 1};
  }
  return {};
}

inline const char* name_of(Type type) {
  switch (type) {
    case Type::kFloat32:
      return "float32";
    case Type::kFloat16:
      return "float16";
    case Type::kBFloat16:
      return "bfloat16";
    default:
      return "integer";
  }
}

// The distance between the numbers of the format around `value`.
inline double unit_in_last_place(Type type, double value) {
  const Format format = format_of(type);
  const int exponent = value == 0.0 ? format.min_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, format.min_exponent) - format.mantissa_bits);
}

inline double greatest(Type type) {
  const Format format = format_of(type);
  return std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa_bits), format.max_exponent);
}

// To nearest, ties to even.
inline double round_to(Type type, double value) {
  if (!std::isfinite(value)) return value;
  const double unit = unit_in_last_place(type, value);
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::abs(rounded) <= greatest(type)) return std::copysign(rounded, value);
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

// The 16 bits of a value that the format has.
inline uint16_t encode16(Type type, double value) {
  const Format format = format_of(type);
  const int bits = format.mantissa_bits;
  const uint32_t exponent_mask = (1u << exponent_bits(type)) - 1u;
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) {
    return static_cast<uint16_t>(sign | (exponent_mask << bits) | (1u << (bits - 1)));
  }
  if (std::isinf(value)) return static_cast<uint16_t>(sign | (exponent_mask << bits));
  // Counted in units of the smallest subnormal, the mantissa and the exponent follow.
  const double unit = unit_in_last_place(type, value);
  const auto mantissa = static_cast<uint32_t>(std::abs(value) / unit);
  const int step = std::ilogb(unit) - (format.min_exponent - bits);
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(step) << bits) + mantissa));
}

inline double decode16(Type type, uint16_t stored) {
  const Format format = format_of(type);
  const int bits = format.mantissa_bits;
  const int exponent_mask = (1 << exponent_bits(type)) - 1;
  const int exponent = (stored >> bits) & exponent_mask;
  const int mantissa = stored & ((1 << bits) - 1);
  const double sign = (stored & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_mask) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, format.min_exponent - bits);
  return sign * std::ldexp((1 << bits) + mantissa, exponent - 1 + format.min_exponent - bits);
}

}  // namespace opmux::test
