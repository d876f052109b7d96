// SPDX-License-Identifier: Apache-2.0
#include "core/compare/floats.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace opmux {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 12> kNames{{
    {"float32", DType::kFloat32},
    {"float16", DType::kFloat16},
    {"bfloat16", DType::kBFloat16},
    {"float64", DType::kFloat64},
    {"int8", DType::kInt8},
    {"int16", DType::kInt16},
    {"int32", DType::kInt32},
    {"int64", DType::kInt64},
    {"uint8", DType::kUInt8},
    {"bool", DType::kBool},
    {"float8_e4m3fn", DType::kFloat8E4M3FN},
    {"float8_e5m2", DType::kFloat8E5M2},
}};

// A binary floating format. `has_infinity` false: the largest exponent holds numbers, and only all
// ones is not a number.
struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int smallest_exponent() const { return 1 - bias(); }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {11, 52, true};
    case DType::kFloat16:
      return {5, 10, true};
    case DType::kBFloat16:
      return {8, 7, true};
    case DType::kFloat8E4M3FN:
      return {4, 3, false};
    case DType::kFloat8E5M2:
      return {5, 2, true};
    default:
      return {8, 23, true};
  }
}

double decode(std::uint32_t bits, const Format& format) {
  const std::uint32_t fraction_mask = (1U << format.fraction_bits) - 1U;
  const std::uint32_t exponent_mask = (1U << format.exponent_bits) - 1U;
  const std::uint32_t fraction = bits & fraction_mask;
  const std::uint32_t exponent = (bits >> format.fraction_bits) & exponent_mask;
  const bool negative = ((bits >> (format.fraction_bits + format.exponent_bits)) & 1U) != 0;
  double magnitude = 0.0;
  if (exponent == exponent_mask && (format.has_infinity || fraction == fraction_mask)) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(fraction),
                           format.smallest_exponent() - format.fraction_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(fraction | (1U << format.fraction_bits)),
                           static_cast<int>(exponent) - format.bias() - format.fraction_bits);
  }
  return negative ? -magnitude : magnitude;
}

std::uint32_t encode(double value, const Format& format) {
  const std::uint32_t sign = std::signbit(value) ? 1U : 0U;
  const std::uint32_t exponent_mask = (1U << format.exponent_bits) - 1U;
  const std::uint32_t fraction_mask = (1U << format.fraction_bits) - 1U;
  const std::uint32_t all_ones = (exponent_mask << format.fraction_bits) | fraction_mask;
  const std::uint32_t infinity =
      format.has_infinity ? exponent_mask << format.fraction_bits : all_ones;
  std::uint32_t bits = 0;
  if (std::isnan(value)) {
    bits = all_ones;
  } else if (std::isinf(value)) {
    bits = infinity;
  } else if (value != 0.0) {
    // In units of the last place that the number has in this format; nearbyint rounds to even.
    const int exponent = std::max(std::ilogb(value), format.smallest_exponent());
    const double units =
        std::nearbyint(std::ldexp(std::fabs(value), format.fraction_bits - exponent));
    // A fraction that was rounded up to the next power of two carries into the exponent by itself.
    const auto offset = static_cast<std::int64_t>(exponent - format.smallest_exponent());
    const std::int64_t packed = (offset << format.fraction_bits) + static_cast<std::int64_t>(units);
    bits = packed >= static_cast<std::int64_t>(infinity) ? infinity
                                                         : static_cast<std::uint32_t>(packed);
  }
  return bits | (sign << (format.exponent_bits + format.fraction_bits));
}

template <class T>
T read(const std::byte* data) {
  T value{};
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <class T>
void write(T value, std::byte* data) {
  std::memcpy(data, &value, sizeof value);
}

}  // namespace

std::optional<DType> dtype_of(std::string_view name) {
  for (const auto& [known, dtype] : kNames)
    if (known == name) return dtype;
  return std::nullopt;
}

std::optional<DType> dtype_of(OpmuxDataType dtype) {
  for (const auto& [name, known] : kNames) {
    const OpmuxDataType abi = to_abi(known);
    if (abi.code == dtype.code && abi.bits == dtype.bits && abi.lanes == dtype.lanes) return known;
  }
  return std::nullopt;
}

std::string name_of(DType dtype) {
  for (const auto& [name, known] : kNames)
    if (known == dtype) return std::string{name};
  return {};
}

std::size_t size_of(DType dtype) { return to_abi(dtype).bits / 8U; }

bool is_floating(DType dtype) {
  const std::uint8_t code = to_abi(dtype).code;
  return code == OPMUX_DTYPE_FLOAT || code == OPMUX_DTYPE_BFLOAT ||
         code == OPMUX_DTYPE_FLOAT8_E4M3FN || code == OPMUX_DTYPE_FLOAT8_E5M2;
}

double load(const std::byte* data, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<double>(read<float>(data));
    case DType::kFloat64:
      return read<double>(data);
    case DType::kFloat16:
    case DType::kBFloat16:
      return decode(read<std::uint16_t>(data), format_of(dtype));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return decode(read<std::uint8_t>(data), format_of(dtype));
    case DType::kInt8:
      return read<std::int8_t>(data);
    case DType::kInt16:
      return read<std::int16_t>(data);
    case DType::kInt32:
      return read<std::int32_t>(data);
    case DType::kInt64:
      return static_cast<double>(read<std::int64_t>(data));
    case DType::kUInt8:
    case DType::kBool:
      return read<std::uint8_t>(data);
  }
  return 0.0;
}

void store(double value, std::byte* data, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return write(static_cast<float>(value), data);
    case DType::kFloat64:
      return write(value, data);
    case DType::kFloat16:
    case DType::kBFloat16:
      return write(static_cast<std::uint16_t>(encode(value, format_of(dtype))), data);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return write(static_cast<std::uint8_t>(encode(value, format_of(dtype))), data);
    case DType::kInt8:
      return write(static_cast<std::int8_t>(std::llround(value)), data);
    case DType::kInt16:
      return write(static_cast<std::int16_t>(std::llround(value)), data);
    case DType::kInt32:
      return write(static_cast<std::int32_t>(std::llround(value)), data);
    case DType::kInt64:
      return write(static_cast<std::int64_t>(std::llround(value)), data);
    case DType::kUInt8:
      return write(static_cast<std::uint8_t>(std::llround(value)), data);
    case DType::kBool:
      return write(static_cast<std::uint8_t>(value != 0.0 ? 1 : 0), data);
  }
}

double ulp_at(double value, DType dtype) {
  const Format format = format_of(dtype);
  const int exponent =
      value == 0.0 || !std::isfinite(value) ? format.smallest_exponent() : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, format.smallest_exponent()) - format.fraction_bits);
}

}  // namespace opmux
