// SPDX-License-Identifier: Apache-2.0
//
// Calls whose scores are all equal, so that an output is the mean of the values that are seen.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tests/native/attention_calls.hpp"

namespace opmux::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// 16-bit outputs are exact here; float32 is off by the roundings of a short sum.
inline constexpr double kSum = 0x1p-21;

// `rows` of one head of 16 equal dimensions.
inline std::unique_ptr<TestTensor> equal_rows(Shape shape, const std::vector<double>& rows,
                                              Type type = Type::kFloat32) {
  shape.push_back(16);
  auto result = tensor(type, std::move(shape));
  result->fill([&](int64_t i) { return rows[static_cast<size_t>(i / 16)]; });
  return result;
}

inline std::vector<double> counted(int64_t count, double first = 0.0) {
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(first + static_cast<double>(i));
  return result;
}

// Equal scores, so that a query's output is the mean of the values that it sees.
inline VarlenCall means(int64_t queries, int64_t keys, double first = 0.0) {
  VarlenCall call;
  call.q = equal_rows({queries, 1}, std::vector<double>(static_cast<size_t>(queries), 0.0));
  call.k = equal_rows({keys, 1}, std::vector<double>(static_cast<size_t>(keys), 0.0));
  call.v = equal_rows({keys, 1}, counted(keys, first));
  call.out = tensor(Type::kFloat32, {queries, 1, 16});
  call.cu_q = indices({0, queries});
  call.cu_k = indices({0, keys});
  return call;
}

inline CacheCall cache_means(const std::vector<double>& values, Type type = Type::kFloat32) {
  const auto keys = static_cast<int64_t>(values.size());
  CacheCall call;
  call.q = equal_rows({1, 1, 1}, {0.0}, type);
  call.k = equal_rows({1, keys, 1}, std::vector<double>(values.size(), 0.0), type);
  call.v = equal_rows({1, keys, 1}, values, type);
  call.out = tensor(type, {1, 1, 1, 16});
  return call;
}

inline void expect_rows(const TestTensor& out, const std::vector<double>& rows) {
  for (int64_t i = 0; i < out.count(); ++i) {
    const double exact = rows[static_cast<size_t>(i / 16)];
    ASSERT_NEAR(out.at(i), exact, std::abs(exact) * kSum) << "row " << i / 16;
  }
}

}  // namespace opmux::test
