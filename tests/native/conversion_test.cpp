// SPDX-License-Identifier: Apache-2.0
//
// The kernels' conversions of 16-bit elements, seen through an operator that adds nothing: the
// residual of fused_add_rms_norm is input + residual, rounded once.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/calls.hpp"

namespace opmux::test {
namespace {

// The residual that adding `left` and `right` leaves, for each element.
std::vector<double> sums(const native::KernelTable* target, Type type,
                         const std::vector<double>& left, const std::vector<double>& right) {
  const auto count = static_cast<int64_t>(left.size());
  TestTensor input(type, {1, count});
  TestTensor residual(type, {1, count});
  input.fill([&](int64_t i) { return left[static_cast<size_t>(i)]; });
  residual.fill([&](int64_t i) { return right[static_cast<size_t>(i)]; });
  EXPECT_EQ(
      run_on(target, "fused_add_rms_norm", {value(input), value(residual), none(), value(1e-6)}),
      OPMUX_OK);
  return residual.values();
}

TEST(Conversion, EverySixteenBitNumberSurvives) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
      std::vector<double> all;
      all.reserve(65536);
      for (int i = 0; i < 65536; ++i) all.push_back(decode16(type, static_cast<uint16_t>(i)));
      const std::vector<double> found = sums(target, type, all, std::vector<double>(65536, 0.0));
      for (size_t i = 0; i < all.size(); ++i) {
        if (std::isnan(all[i])) {
          ASSERT_TRUE(std::isnan(found[i])) << target->target << " " << name_of(type) << " " << i;
        } else {
          ASSERT_EQ(found[i], all[i]) << target->target << " " << name_of(type) << " " << i;
        }
      }
    }
  }
}

TEST(Conversion, SumsRoundToNearestTiesToEven) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
      std::vector<double> left;
      std::vector<double> right;
      for (int i = 0; i < 65536; ++i) {
        const double x = decode16(type, static_cast<uint16_t>(i));
        if (!std::isfinite(x)) continue;
        // Half a last place (a tie), a little less and more, and something unrelated.
        const double half = 0.5 * unit_in_last_place(type, x);
        for (const double y :
             {half, -half, 0.75 * half, 1.25 * half, 3.0 * half, x, 1000.0 * half}) {
          const double stored = round_to(type, y);
          left.push_back(x);
          right.push_back(stored);
        }
      }
      const std::vector<double> found = sums(target, type, left, right);
      for (size_t i = 0; i < left.size(); ++i) {
        ASSERT_EQ(found[i], round_to(type, left[i] + right[i]))
            << target->target << " " << name_of(type) << " " << left[i] << " + " << right[i];
      }
    }
  }
}

}  // namespace
}  // namespace opmux::test
