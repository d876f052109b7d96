// SPDX-License-Identifier: Apache-2.0
//
// Shadow calls: the second binding sees what the first one saw, and the caller sees nothing of it.
#include "core/registry/shadow.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "core/base/log.hpp"
#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

using test::OneOperator;
using test::Script;

const OpmuxTensor& tensor(const OpmuxCall& call, std::size_t index) {
  return *call.values[index].payload.tensor;
}
float* floats(const OpmuxTensor& tensor) {
  return reinterpret_cast<float*>(static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
}

// add_(Tensor(a!) x, Tensor y): x += y, in place, on contiguous tensors of four.
void add_in_place(const OpmuxCall& call) {
  for (int at = 0; at < 4; ++at) floats(tensor(call, 0))[at] += floats(tensor(call, 1))[at];
}

class ShadowTest : public ::testing::Test {
 protected:
  ShadowTest() {
    first_.work = add_in_place;
    second_.work = [this](const OpmuxCall& call) {
      seen_ = {tensor(call, 0).data, tensor(call, 1).data};
      add_in_place(call);
    };
    op_.handling.shadow.sample = 1.0;
    op_.publish();
  }

  Status call(const TensorView& x, const TensorView& y) {
    return Operator<void(Tensor, Tensor)>(op_.op().state())(x, y);
  }
  Status call() {
    return call(TensorView(x_.data(), DType::kFloat32, {4}),
                TensorView(y_.data(), DType::kFloat32, {4}));
  }

  OneOperator op_{"add_(Tensor(a!) x, Tensor y) -> ()"};
  Script& first_{op_.add("acme")};
  Script& second_{op_.add("native")};
  std::array<float, 4> x_{1, 2, 3, 4};
  std::array<float, 4> y_{10, 20, 30, 40};
  std::array<void*, 2> seen_{};  // memory that the second binding was given
};

TEST_F(ShadowTest, AnInPlaceOperatorIsComparedOnACopy) {
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(x_, (std::array<float, 4>{11, 22, 33, 44}));
  EXPECT_EQ(first_.calls, 1);
  EXPECT_EQ(second_.calls, 1);
  EXPECT_NE(seen_[0], x_.data());
  EXPECT_EQ(seen_[1], y_.data());  // only read: not copied
  EXPECT_EQ(op_.counts(0).shadow_calls, 1U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
  EXPECT_EQ(op_.counts(0).shadow_errors, 0U);
  EXPECT_EQ(op_.counts(1).calls, 0U);
  EXPECT_EQ(op_.op().last_provider(), "acme");
}

TEST_F(ShadowTest, ADifferenceIsCountedAndTheResultStays) {
  second_.work = [](const OpmuxCall& call) {
    add_in_place(call);
    floats(tensor(call, 0))[2] += 1.0F;
  };
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(x_, (std::array<float, 4>{11, 22, 33, 44}));
  EXPECT_EQ(op_.counts(0).shadow_calls, 1U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 1U);
}

TEST_F(ShadowTest, TheOperatorsToleranceDecides) {
  second_.work = [](const OpmuxCall& call) {
    add_in_place(call);
    floats(tensor(call, 0))[0] = std::nextafterf(floats(tensor(call, 0))[0], 100.0F);
  };
  op_.handling.shadow.tolerance = {1.0, 0.0};
  op_.publish();
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
  op_.handling.shadow.tolerance = {0.5, 0.0};
  op_.publish();
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(op_.counts(0).shadow_differences, 1U);
}

TEST_F(ShadowTest, AShadowThatFailsSurfacesNowhere) {
  second_.error = "fake: broken";
  for (const OpmuxStatus answer : std::initializer_list<OpmuxStatus>{
           OPMUX_ERROR_BEFORE_LAUNCH, OPMUX_ERROR_AFTER_LAUNCH, OPMUX_INVALID_ARGUMENT, 77}) {
    second_.answer = answer;
    ASSERT_TRUE(call().ok());
  }
  EXPECT_EQ(op_.counts(0).calls, 4U);
  EXPECT_EQ(op_.counts(0).shadow_calls, 4U);
  EXPECT_EQ(op_.counts(0).shadow_errors, 4U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
  EXPECT_EQ(op_.counts(1).errors, 0U);
  EXPECT_EQ(take_module_error(), "");  // nor in the error of a later call
}

TEST_F(ShadowTest, AShadowThatDoesNotTakeTheCallIsNotCounted) {
  second_.answer = OPMUX_UNSUPPORTED;
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(second_.calls, 1);
  EXPECT_EQ(op_.counts(0).shadow_calls, 0U);
  EXPECT_EQ(op_.counts(1).refused_by_provider, 0U);
}

TEST_F(ShadowTest, ACallThatIsNotServedIsNotCompared) {
  first_.answer = OPMUX_ERROR_BEFORE_LAUNCH;
  EXPECT_FALSE(call().ok());
  EXPECT_EQ(second_.calls, 0);
  first_.answer = OPMUX_UNSUPPORTED;
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(second_.calls, 1);  // it served, and nothing stands behind it
  EXPECT_EQ(op_.counts(1).calls, 1U);
  EXPECT_EQ(op_.counts(1).shadow_calls, 0U);
}

TEST_F(ShadowTest, ANamedShadowNeedNotBeInTheOrder) {
  Script& named = op_.add("reference");
  named.work = add_in_place;
  op_.handling.shadow.binding = op_.binding(2);
  op_.leave_out(2);
  op_.publish();
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(named.calls, 1);
  EXPECT_EQ(second_.calls, 0);
  EXPECT_EQ(op_.counts(0).shadow_calls, 1U);
}

TEST_F(ShadowTest, ABindingIsNotItsOwnShadow) {
  op_.handling.shadow.binding = op_.binding(0);
  op_.publish();
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 1);
  EXPECT_EQ(op_.counts(0).shadow_calls, 0U);
}

// y is x itself: the shadow must read it as it was.
TEST_F(ShadowTest, TensorsThatShareMemoryShareItInTheCopyToo) {
  const TensorView x(x_.data(), DType::kFloat32, {4});
  ASSERT_TRUE(call(x, x).ok());
  EXPECT_EQ(x_, (std::array<float, 4>{2, 4, 6, 8}));
  EXPECT_NE(seen_[0], x_.data());
  EXPECT_EQ(seen_[0], seen_[1]);
  EXPECT_EQ(op_.counts(0).shadow_calls, 1U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
}

// y overlaps x by half.
TEST_F(ShadowTest, AReadTensorThatOverlapsIsCopiedWithIt) {
  std::array<float, 6> memory{1, 2, 3, 4, 5, 6};
  const TensorView x(memory.data(), DType::kFloat32, {4});
  const TensorView y(memory.data() + 2, DType::kFloat32, {4});
  ASSERT_TRUE(call(x, y).ok());
  EXPECT_EQ(op_.counts(0).shadow_calls, 1U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
  EXPECT_NE(seen_[1], memory.data() + 2);
  EXPECT_EQ(static_cast<float*>(seen_[1]) - static_cast<float*>(seen_[0]), 2);
}

TEST_F(ShadowTest, GapsBetweenRowsAreNeitherReadNorCompared) {
  // [2, 2] of rows that lie 4 apart; what lies between belongs to somebody else.
  std::array<float, 8> memory{1, 2, -1, -1, 3, 4, -1, -1};
  const std::array<std::int64_t, 2> shape{2, 2};
  const std::array<std::int64_t, 2> strides{4, 1};
  const auto increment = [](const OpmuxCall& call) {
    for (const int at : {0, 1, 4, 5}) floats(tensor(call, 0))[at] += 1.0F;
  };
  first_.work = [&](const OpmuxCall& call) {
    increment(call);
    memory[2] = 7.0F;  // another thread
  };
  second_.work = increment;
  ASSERT_TRUE(call(TensorView(memory.data(), DType::kFloat32, shape.data(), strides.data(), 2),
                   TensorView(y_.data(), DType::kFloat32, {4}))
                  .ok());
  EXPECT_EQ(memory, (std::array<float, 8>{2, 3, 7, -1, 4, 5, -1, -1}));
  EXPECT_EQ(op_.counts(0).shadow_calls, 1U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
}

TEST_F(ShadowTest, WhatSpansTooMuchIsCountedAndNotCopied) {
  const std::array<std::int64_t, 2> shape{2, 2};
  const std::array<std::int64_t, 2> strides{std::int64_t{1} << 40, 1};
  first_.work = nullptr;  // the memory is not there
  ASSERT_TRUE(call(TensorView(x_.data(), DType::kFloat32, shape.data(), strides.data(), 2),
                   TensorView(y_.data(), DType::kFloat32, {4}))
                  .ok());
  EXPECT_EQ(second_.calls, 0);
  EXPECT_EQ(op_.counts(0).shadow_calls, 0U);
  EXPECT_EQ(op_.counts(0).shadow_errors, 1U);
}

TEST_F(ShadowTest, EmptyAndScalarTensorsAreCompared) {
  first_.work = second_.work = nullptr;
  ASSERT_TRUE(call(TensorView(nullptr, DType::kFloat32, {0, 4}),
                   TensorView(y_.data(), DType::kFloat32, {4}))
                  .ok());
  first_.work = second_.work = [](const OpmuxCall& call) { floats(tensor(call, 0))[0] = 3.0F; };
  ASSERT_TRUE(
      call(TensorView(x_.data(), DType::kFloat32, {}), TensorView(y_.data(), DType::kFloat32, {4}))
          .ok());
  EXPECT_EQ(x_[0], 3.0F);
  EXPECT_EQ(op_.counts(0).shadow_calls, 2U);
  EXPECT_EQ(op_.counts(0).shadow_differences, 0U);
}

TEST_F(ShadowTest, TheSampleIsAShareOfTheCalls) {
  op_.handling.shadow.sample = 0.25;
  op_.publish();
  for (int at = 0; at < 400; ++at) ASSERT_TRUE(call().ok());
  EXPECT_EQ(op_.counts(0).calls, 400U);
  EXPECT_EQ(op_.counts(0).shadow_calls, 100U);
}

TEST_F(ShadowTest, ThreadsBeginTheirSamplesAtDifferentPlaces) {
  constexpr int kThreads = 50;
  int sampled = 0;
  for (int at = 0; at < kThreads; ++at)
    std::thread([&] { sampled += is_sampled(0, 0.1) ? 1 : 0; }).join();
  // Short-lived threads are sampled like long-lived ones.
  EXPECT_GE(sampled, 3);
  EXPECT_LE(sampled, 8);
}

TEST_F(ShadowTest, WithoutASampleTheFastPathIsTaken) {
  const auto is_fast = [&] {
    return op_.registry().current().routes[op_.op().state()->index]->first[0].call.load() !=
           nullptr;
  };
  EXPECT_FALSE(is_fast());
  op_.handling.shadow.sample = 0.0;
  op_.publish();
  EXPECT_TRUE(is_fast());
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(second_.calls, 0);
}

}  // namespace
}  // namespace opmux
