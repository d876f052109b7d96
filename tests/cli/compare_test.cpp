// SPDX-License-Identifier: Apache-2.0
#include "cli/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/compare/floats.hpp"

namespace opmux::cli {
namespace {

HostTensor tensor(DType dtype, const std::vector<double>& values) {
  HostTensor made;
  made.dtype = dtype;
  made.shape = {static_cast<std::int64_t>(values.size())};
  made.bytes.resize(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    store(values[i], made.bytes.data() + i * size_of(dtype), dtype);
  return made;
}

Comparison compare(const HostTensor& expected, const HostTensor& found, Tolerance tolerance) {
  const Result<schema::Schema> schema = schema::parse("f(Tensor input, Tensor(a!) out) -> ()");
  EXPECT_TRUE(schema.ok());
  // The input differs too, and must not count.
  return compare_written(*schema, ExampleCall{{tensor(DType::kFloat32, {1.0}), expected}},
                         ExampleCall{{tensor(DType::kFloat32, {2.0}), found}}, tolerance);
}

TEST(Compare, CountsUlpsOfTheOutputsDtype) {
  const Comparison result = compare(tensor(DType::kBFloat16, {1.0, 2.0}),
                                    tensor(DType::kBFloat16, {1.0 + 2.0 / 128.0, 2.0}), {2.0, 0.0});
  EXPECT_TRUE(result.within);
  EXPECT_EQ(result.max_ulps, 2.0);
  EXPECT_EQ(result.max_absolute, 2.0 / 128.0);
  EXPECT_EQ(result.elements, 2U);
}

TEST(Compare, BeyondTheToleranceNamesTheFirst) {
  const Comparison result = compare(tensor(DType::kFloat32, {1.0, 1.0, 1.0}),
                                    tensor(DType::kFloat32, {1.0, 2.0, 3.0}), {2.0, 0.0});
  EXPECT_FALSE(result.within);
  EXPECT_EQ(result.outside, 2U);
  EXPECT_EQ(result.worst, "out[1]: expected 1, found 2");
}

TEST(Compare, AbsoluteToleranceIsOnTop) {
  EXPECT_TRUE(
      compare(tensor(DType::kFloat32, {0.0}), tensor(DType::kFloat32, {1e-7}), {0.0, 2e-7}).within);
  EXPECT_FALSE(
      compare(tensor(DType::kFloat32, {0.0}), tensor(DType::kFloat32, {1e-7}), {2.0, 0.0}).within);
}

TEST(Compare, IntegersMustBeEqual) {
  EXPECT_FALSE(
      compare(tensor(DType::kInt32, {5.0}), tensor(DType::kInt32, {6.0}), {100.0, 100.0}).within);
}

TEST(Compare, NotANumberEqualsItselfOnly) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(compare(tensor(DType::kFloat16, {nan}), tensor(DType::kFloat16, {nan}), {}).within);
  EXPECT_FALSE(
      compare(tensor(DType::kFloat16, {1.0}), tensor(DType::kFloat16, {nan}), {1e9, 1e9}).within);
  EXPECT_FALSE(
      compare(tensor(DType::kFloat16, {nan}), tensor(DType::kFloat16, {1.0}), {1e9, 1e9}).within);
}

}  // namespace
}  // namespace opmux::cli
