// SPDX-License-Identifier: Apache-2.0
#include "core/compare/floats.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace opmux {
namespace {

std::uint32_t bits_of(double value, DType dtype) {
  std::array<std::byte, 8> bytes{};
  store(value, bytes.data(), dtype);
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data(), size_of(dtype));
  return bits;
}

TEST(Floats, HalfIsRoundedToNearestEven) {
  EXPECT_EQ(bits_of(1.0, DType::kFloat16), 0x3C00U);
  EXPECT_EQ(bits_of(-2.0, DType::kFloat16), 0xC000U);
  EXPECT_EQ(bits_of(1.0 + std::ldexp(1.0, -11), DType::kFloat16), 0x3C00U);  // tie, down to even
  EXPECT_EQ(bits_of(1.0 + 3 * std::ldexp(1.0, -11), DType::kFloat16), 0x3C02U);  // tie, up to even
  EXPECT_EQ(bits_of(65504.0, DType::kFloat16), 0x7BFFU);
  EXPECT_EQ(bits_of(65519.0, DType::kFloat16), 0x7BFFU);
  EXPECT_EQ(bits_of(65520.0, DType::kFloat16), 0x7C00U);  // infinity
  EXPECT_EQ(bits_of(std::ldexp(1.0, -24), DType::kFloat16), 0x0001U);
  EXPECT_EQ(bits_of(std::ldexp(1.0, -25), DType::kFloat16), 0x0000U);  // tie, down to even
  EXPECT_EQ(bits_of(-0.0, DType::kFloat16), 0x8000U);
}

TEST(Floats, BrainFloatIsRoundedToNearestEven) {
  EXPECT_EQ(bits_of(1.0, DType::kBFloat16), 0x3F80U);
  EXPECT_EQ(bits_of(1.0 + std::ldexp(1.0, -8), DType::kBFloat16), 0x3F80U);
  EXPECT_EQ(bits_of(1.0 + 3 * std::ldexp(1.0, -8), DType::kBFloat16), 0x3F82U);
  EXPECT_EQ(bits_of(std::numeric_limits<double>::infinity(), DType::kBFloat16), 0x7F80U);
}

TEST(Floats, EightBitFormatsKnowTheirLimits) {
  EXPECT_EQ(bits_of(448.0, DType::kFloat8E4M3FN), 0x7EU);
  EXPECT_EQ(bits_of(1e9, DType::kFloat8E4M3FN), 0x7FU);  // it has no infinity
  EXPECT_EQ(bits_of(57344.0, DType::kFloat8E5M2), 0x7BU);
  EXPECT_EQ(bits_of(1e9, DType::kFloat8E5M2), 0x7CU);
}

TEST(Floats, EveryNarrowNumberSurvivesTheWayThroughDouble) {
  for (const DType dtype :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E5M2}) {
    const std::uint32_t count = size_of(dtype) == 1 ? 0x100U : 0x10000U;
    for (std::uint32_t bits = 0; bits < count; ++bits) {
      std::array<std::byte, 8> bytes{};
      std::memcpy(bytes.data(), &bits, size_of(dtype));
      const double value = load(bytes.data(), dtype);
      if (std::isnan(value)) continue;
      ASSERT_EQ(bits_of(value, dtype), bits) << name_of(dtype);
    }
  }
}

TEST(Floats, UlpIsTheDistanceToTheNeighbour) {
  EXPECT_EQ(ulp_at(1.0, DType::kFloat32), std::ldexp(1.0, -23));
  EXPECT_EQ(ulp_at(-1.5, DType::kBFloat16), std::ldexp(1.0, -7));
  EXPECT_EQ(ulp_at(0.0, DType::kFloat16), std::ldexp(1.0, -24));
  EXPECT_EQ(ulp_at(std::ldexp(1.0, -20), DType::kFloat16), std::ldexp(1.0, -24));
}

TEST(Floats, NamesAndSizes) {
  EXPECT_EQ(dtype_of("bfloat16"), DType::kBFloat16);
  EXPECT_EQ(dtype_of("bf16"), std::nullopt);
  EXPECT_EQ(size_of(DType::kInt64), 8U);
  EXPECT_FALSE(is_floating(DType::kInt32));
  EXPECT_TRUE(is_floating(DType::kFloat8E4M3FN));
}

}  // namespace
}  // namespace opmux
