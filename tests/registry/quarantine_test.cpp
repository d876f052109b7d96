// SPDX-License-Identifier: Apache-2.0
//
// Bindings that fail time and again are left out until it is time to try them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

using namespace std::chrono_literals;
using test::OneOperator;
using test::Script;
using ::testing::HasSubstr;

std::atomic<std::int64_t> clock_seconds{1000};
MonotonicTime test_clock() { return MonotonicTime(std::chrono::seconds(clock_seconds.load())); }

class QuarantineTest : public ::testing::Test {
 protected:
  QuarantineTest() {
    op_.registry().set_clock(&test_clock);
    op_.handling.quarantine = {3, 30s};
    op_.publish();
  }

  Status call() { return Operator<void(Tensor, Tensor)>(op_.op().state())(input_, out_); }
  void call_times(int count) {
    for (int at = 0; at < count; ++at) (void)call();
  }
  void fail(OpmuxStatus answer = OPMUX_ERROR_BEFORE_LAUNCH) {
    first_.answer = answer;
    first_.error = "no stream";
  }
  void recover() {
    first_.answer = OPMUX_OK;
    first_.error = nullptr;
  }
  const OperatorRoute& route() { return *op_.registry().current().routes[op_.op().state()->index]; }
  bool is_fast() { return route().first[0].call.load() != nullptr; }
  std::optional<Rejection> standing() {
    return op_.binding(0)->record->health.rejection("silu_and_mul: acme", test_clock());
  }

  OneOperator op_{"silu_and_mul(Tensor input, Tensor(a!) out) -> ()"};
  Script& first_{op_.add("acme")};
  Script& second_{op_.add("native")};
  std::array<float, 8> data_{};
  TensorView input_{data_.data(), DType::kFloat32, {2, 4}};
  TensorView out_{data_.data(), DType::kFloat32, {2, 2}};
};

TEST_F(QuarantineTest, AfterThatManyFailuresInARowCallsGoOnWithTheNext) {
  fail();
  call_times(2);
  EXPECT_EQ(call().code(), StatusCode::kFailed);
  EXPECT_EQ(first_.calls, 3);
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 3);
  EXPECT_EQ(second_.calls, 1);
  EXPECT_EQ(op_.op().last_provider(), "native");
  EXPECT_EQ(op_.counts(0).errors, 3U);
  EXPECT_EQ(op_.counts(0).quarantined, 1U);
  EXPECT_EQ(op_.counts(1).calls, 1U);
}

TEST_F(QuarantineTest, ASuccessInBetweenBeginsTheCountAnew) {
  fail();
  call_times(2);
  recover();
  call_times(1);
  fail();
  call_times(2);
  EXPECT_EQ(first_.calls, 5);
  EXPECT_EQ(second_.calls, 0);
  EXPECT_FALSE(standing());
  call_times(1);
  EXPECT_TRUE(standing());
}

TEST_F(QuarantineTest, ErrorsAfterLaunchCountAndAreStillRaised) {
  fail(OPMUX_ERROR_AFTER_LAUNCH);
  call_times(2);
  EXPECT_EQ(call().code(), StatusCode::kFailedInFlight);
  EXPECT_TRUE(call().ok());
}

TEST_F(QuarantineTest, RefusalsAndInvalidArgumentsSayNothingOfABinding) {
  fail(OPMUX_UNSUPPORTED);
  call_times(5);
  fail(OPMUX_INVALID_ARGUMENT);
  call_times(5);
  EXPECT_EQ(first_.calls, 10);
  EXPECT_FALSE(standing());
}

TEST_F(QuarantineTest, IsOffWithoutTheSetting) {
  op_.handling.quarantine = {};
  op_.publish();
  fail();
  call_times(10);
  EXPECT_EQ(first_.calls, 10);
  EXPECT_FALSE(standing());
}

// What keeps routes without quarantine, and healthy bindings, as fast as before.
TEST_F(QuarantineTest, TheFastPathIsTakenWhileTheBindingIsHealthy) {
  EXPECT_TRUE(is_fast());
  fail();
  call_times(3);
  EXPECT_FALSE(is_fast());
  clock_seconds += 31;
  recover();
  call_times(1);
  EXPECT_TRUE(is_fast());
}

TEST_F(QuarantineTest, ItIsTriedAgainAfterItsTimeAndASuccessBringsItBack) {
  fail();
  call_times(3);
  clock_seconds += 29;
  call_times(2);
  EXPECT_EQ(first_.calls, 3);
  clock_seconds += 1;
  recover();
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 4);
  EXPECT_EQ(op_.op().last_provider(), "acme");
  EXPECT_FALSE(standing());
  call_times(1);
  EXPECT_EQ(first_.calls, 5);
}

TEST_F(QuarantineTest, AFailedTryIsRaisedAndBeginsTheTimeAnew) {
  fail();
  call_times(3);
  clock_seconds += 30;
  EXPECT_EQ(call().code(), StatusCode::kFailed);
  EXPECT_EQ(first_.calls, 4);
  clock_seconds += 29;
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 4);
}

TEST_F(QuarantineTest, ATryThatSaysNothingLeavesTheNextOneToTry) {
  fail();
  call_times(3);
  clock_seconds += 30;
  fail(OPMUX_UNSUPPORTED);
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 4);
  recover();
  call_times(1);
  EXPECT_EQ(first_.calls, 5);
  EXPECT_FALSE(standing());
}

// While one caller tries, a call inside that one goes on with the next.
TEST_F(QuarantineTest, OneCallerTriesAndTheOthersGoOn) {
  fail();
  call_times(3);
  clock_seconds += 30;
  recover();
  first_.work = [&](const OpmuxCall&) {
    first_.work = nullptr;
    ASSERT_TRUE(call().ok());
    EXPECT_EQ(op_.op().last_provider(), "native");
    EXPECT_THAT(standing()->found, HasSubstr("being tried again"));
  };
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(op_.op().last_provider(), "acme");
  EXPECT_EQ(first_.calls, 4);
}

TEST_F(QuarantineTest, ItOutlivesAGeneration) {
  fail();
  call_times(3);
  op_.skip("other", Rejection{}, false);
  op_.publish();
  EXPECT_EQ(op_.registry().current().number, 2U);
  EXPECT_FALSE(is_fast());
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 3);
}

TEST_F(QuarantineTest, ARouteWithoutItCallsTheBindingAllTheSame) {
  fail();
  call_times(3);
  op_.handling.quarantine = {};
  op_.publish();
  EXPECT_TRUE(is_fast());
  call_times(1);
  EXPECT_EQ(first_.calls, 4);
}

TEST_F(QuarantineTest, StrictRepeatsTheRejection) {
  op_.handling.strict = true;
  op_.publish();
  fail();
  call_times(3);
  clock_seconds += 12;
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "call.quarantined");
  EXPECT_EQ(status.rejection()->subject, "silu_and_mul: acme");
  EXPECT_EQ(status.rejection()->expected, "a binding that does not keep failing");
  EXPECT_EQ(status.rejection()->found,
            "3 failures in a row, the last: no stream; tried again in 18.0 s");
  EXPECT_EQ(second_.calls, 0);
}

TEST_F(QuarantineTest, WithoutAnotherBindingTheErrorSaysWhy) {
  op_.leave_out(1);
  op_.publish();
  fail();
  call_times(3);
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.rejection()->rule, "call.quarantined");
}

TEST_F(QuarantineTest, OnErrorNextAndQuarantineGoTogether) {
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  fail();
  for (int at = 0; at < 5; ++at) ASSERT_TRUE(call().ok());
  EXPECT_EQ(first_.calls, 3);
  EXPECT_EQ(second_.calls, 5);
}

TEST_F(QuarantineTest, AProviderThatIsAskedForByNameIsCalled) {
  fail();
  call_times(3);
  const std::array<OpmuxValue, 2> values{detail::tensor_value(input_), detail::tensor_value(out_)};
  EXPECT_EQ(
      op_.op()
          .call_provider("acme", values.data(), values.size(), Stream(), OPMUX_CALL_OWNED_TENSORS)
          .code(),
      StatusCode::kFailed);
  EXPECT_EQ(first_.calls, 4);
}

}  // namespace
}  // namespace opmux
