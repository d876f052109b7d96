// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a call when providers report errors (case 58).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

using test::OneOperator;
using test::Script;
using ::testing::HasSubstr;

class ErrorsTest : public ::testing::Test {
 protected:
  Status call() { return Operator<void(Tensor, Tensor)>(op_.op().state())(input_, out_); }
  Script& fails(const std::string& provider, const char* error, OpmuxStatus answer) {
    Script& script = op_.add(provider);
    script.answer = answer;
    script.error = error;
    return script;
  }

  OneOperator op_{"silu_and_mul(Tensor input, Tensor(a!) out) -> ()"};
  std::array<float, 8> data_{};
  TensorView input_{data_.data(), DType::kFloat32, {2, 4}};
  TensorView out_{data_.data(), DType::kFloat32, {2, 2}};
};

TEST_F(ErrorsTest, AnErrorBeforeLaunchIsRaisedByDefault) {
  fails("acme", "no stream", OPMUX_ERROR_BEFORE_LAUNCH);
  const Script& next = op_.add("native");
  op_.publish();
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kFailed);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "call.failed");
  EXPECT_EQ(status.rejection()->found, "no stream");
  EXPECT_EQ(next.calls, 0);
}

// Case 58: chains of 0, 1 and 8 fallbacks.
class Case58ChainTest : public ErrorsTest, public ::testing::WithParamInterface<int> {};

TEST_P(Case58ChainTest, TheOrderIsKeptEachStepIsCountedAndTheLastOneServes) {
  std::vector<Script*> failing;
  for (int at = 0; at < GetParam(); ++at)
    failing.push_back(&fails("p" + std::to_string(at), "no stream", OPMUX_ERROR_BEFORE_LAUNCH));
  const Script& last = op_.add("native");
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  ASSERT_TRUE(call().ok());
  for (std::size_t at = 0; at < failing.size(); ++at) {
    EXPECT_EQ(failing[at]->calls, 1);
    EXPECT_EQ(op_.counts(at).errors, 1U);
    EXPECT_EQ(op_.counts(at).calls, 0U);
  }
  EXPECT_EQ(last.calls, 1);
  EXPECT_EQ(op_.op().last_provider(), "native");
}

TEST_P(Case58ChainTest, WhenAllFailTheErrorOfTheFirstIsKeptAndAllAreNamedInOrder) {
  std::vector<std::string> errors;
  for (int at = 0; at <= GetParam(); ++at) errors.push_back("error " + std::to_string(at));
  for (int at = 0; at <= GetParam(); ++at)
    fails("p" + std::to_string(at), errors[static_cast<std::size_t>(at)].c_str(),
          OPMUX_ERROR_BEFORE_LAUNCH);
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kFailed);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "call.failed");
  EXPECT_EQ(status.rejection()->subject, "silu_and_mul: p0");
  EXPECT_EQ(status.rejection()->found, "error 0");
  std::size_t at = 0;
  for (const std::string& error : errors) {
    const std::size_t next = status.message().find(error, at);
    ASSERT_NE(next, std::string::npos) << error << " in " << status.message();
    at = next;
  }
}

INSTANTIATE_TEST_SUITE_P(Fallbacks, Case58ChainTest, ::testing::Values(0, 1, 8));

// Case 58: no retry after side effects.
TEST_F(ErrorsTest, AnErrorAfterLaunchIsNeverTriedElsewhere) {
  fails("acme", "illegal address", OPMUX_ERROR_AFTER_LAUNCH);
  const Script& next = op_.add("native");
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kFailedInFlight);
  EXPECT_EQ(status.rejection()->found, "illegal address");
  EXPECT_EQ(next.calls, 0);
}

TEST_F(ErrorsTest, AnUnknownStatusCountsAsAfterLaunch) {
  fails("acme", "?", 99);
  const Script& next = op_.add("native");
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  EXPECT_EQ(call().code(), StatusCode::kFailedInFlight);
  EXPECT_EQ(next.calls, 0);
}

TEST_F(ErrorsTest, AnInvalidArgumentIsInvalidForAll) {
  fails("acme", "bad shape", OPMUX_INVALID_ARGUMENT);
  const Script& next = op_.add("native");
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  EXPECT_EQ(call().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(next.calls, 0);
}

TEST_F(ErrorsTest, AnErrorAfterLaunchEndsAChainAndTellsWhatCameBefore) {
  fails("acme", "no stream", OPMUX_ERROR_BEFORE_LAUNCH);
  fails("other", "illegal address", OPMUX_ERROR_AFTER_LAUNCH);
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kFailedInFlight);
  EXPECT_EQ(status.rejection()->found, "illegal address");
  EXPECT_THAT(status.message(), HasSubstr("before that:\n  acme: "));
  EXPECT_THAT(status.message(), HasSubstr("no stream"));
}

TEST_F(ErrorsTest, AnErrorIsToldBeforeARefusal) {
  fails("refuses", "not this shape", OPMUX_UNSUPPORTED);
  fails("acme", "no stream", OPMUX_ERROR_BEFORE_LAUNCH);
  fails("native", "nor this one", OPMUX_UNSUPPORTED);
  op_.handling.on_error = OnError::kNext;
  op_.publish();
  const Status status = call();
  EXPECT_EQ(status.code(), StatusCode::kFailed);
  EXPECT_EQ(status.rejection()->found, "no stream");
  EXPECT_THAT(status.message(), HasSubstr("not this shape"));
  EXPECT_THAT(status.message(), HasSubstr("nor this one"));
}

TEST_F(ErrorsTest, StrictLetsNoErrorBePassedBy) {
  fails("acme", "no stream", OPMUX_ERROR_BEFORE_LAUNCH);
  const Script& next = op_.add("native");
  op_.handling.on_error = OnError::kNext;
  op_.handling.strict = true;  // of this operator, not of the generation
  op_.publish(/*strict=*/false);
  EXPECT_EQ(call().code(), StatusCode::kFailed);
  EXPECT_EQ(next.calls, 0);
}

}  // namespace
}  // namespace opmux
