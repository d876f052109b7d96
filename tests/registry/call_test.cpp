// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/base/rules.hpp"
#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

using test::OneOperator;
using test::Script;
using ::testing::HasSubstr;

constexpr const char* kSilu = "silu_and_mul(Tensor input, Tensor(a!) out) -> ()";

class CallTest : public ::testing::Test {
 protected:
  Operator<void(Tensor, Tensor)> silu() { return Operator<void(Tensor, Tensor)>(op_.op().state()); }

  OneOperator op_{kSilu};
  std::array<float, 8> data_{};
  TensorView input_{data_.data(), DType::kFloat32, {2, 4}};
  TensorView out_{data_.data(), DType::kFloat32, {2, 2}};
};

Condition rank_is(int rank) {
  Condition condition;
  condition.kind = ConditionKind::kRank;
  condition.argument = 0;
  condition.integers = {rank};
  condition.text = "input: rank " + std::to_string(rank);
  return condition;
}

TEST_F(CallTest, ReachesTheFirstBindingWithTheValuesInSchemaOrder) {
  Script& first = op_.add("vllm");
  Script& second = op_.add("native");
  op_.publish();
  ASSERT_TRUE(silu()(input_, out_).ok());
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(second.calls, 0);
  ASSERT_EQ(first.values.size(), 2u);
  EXPECT_EQ(first.values[0].payload.tensor, &input_.abi().tensor);
  EXPECT_EQ(first.values[1].payload.tensor, &out_.abi().tensor);
  EXPECT_EQ(first.call.stream_kind, std::uint32_t{OPMUX_STREAM_NONE});
  EXPECT_EQ(first.call.flags, std::uint32_t{OPMUX_CALL_OWNED_TENSORS});
  EXPECT_EQ(op_.op().last_provider(), "vllm");
}

TEST_F(CallTest, FallsBackWhenABindingSaysUnsupported) {
  Script& first = op_.add("vllm");
  first.answer = OPMUX_UNSUPPORTED;
  Script& second = op_.add("native");
  op_.publish();
  ASSERT_TRUE(silu()(input_, out_).ok());
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(op_.op().last_provider(), "native");
  EXPECT_EQ(op_.registry().counters().sum(0).refused_by_provider, 1u);
  EXPECT_EQ(op_.registry().counters().sum(1).calls, 1u);
}

TEST_F(CallTest, FallsBackWhenAConditionRefusesWithoutCallingTheBinding) {
  Script& first = op_.add("vllm", {rank_is(3)});
  Script& second = op_.add("native");
  op_.publish();
  ASSERT_TRUE(silu()(input_, out_).ok());
  EXPECT_EQ(first.calls, 0);
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(op_.registry().counters().sum(0).refused_by_condition, 1u);
}

TEST_F(CallTest, NeverRetriesAfterAnErrorThatFollowsALaunch) {
  Script& first = op_.add("vllm");
  first.answer = OPMUX_ERROR_AFTER_LAUNCH;
  first.error = "illegal memory access";
  Script& second = op_.add("native");
  op_.publish();
  const Status status = silu()(input_, out_);
  EXPECT_EQ(status.code(), StatusCode::kFailedInFlight);
  EXPECT_THAT(status.message(), HasSubstr("illegal memory access"));
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "call.failed");
  EXPECT_EQ(second.calls, 0);
  EXPECT_EQ(op_.registry().counters().sum(0).errors, 1u);
}

TEST_F(CallTest, NeverRetriesAnErrorBeforeLaunchOrAnInvalidArgument) {
  for (const OpmuxStatus answer :
       {OpmuxStatus{OPMUX_ERROR_BEFORE_LAUNCH}, OpmuxStatus{OPMUX_INVALID_ARGUMENT}}) {
    OneOperator op(kSilu);
    Script& first = op.add("vllm");
    first.answer = answer;
    first.error = "`out`: expected shape [2, 2]";
    Script& second = op.add("native");
    op.publish();
    const Status status = Operator<void(Tensor, Tensor)>(op.op().state())(input_, out_);
    EXPECT_EQ(status.code(), answer == OPMUX_INVALID_ARGUMENT ? StatusCode::kInvalidArgument
                                                              : StatusCode::kFailed);
    EXPECT_THAT(status.message(), HasSubstr("`out`: expected shape [2, 2]"));
    EXPECT_EQ(second.calls, 0);
  }
}

TEST_F(CallTest, NamesEveryReasonWhenNoBindingTakesTheCall) {
  op_.add("vllm", {rank_is(3)});
  Script& native = op_.add("native");
  native.answer = OPMUX_UNSUPPORTED;
  native.error = "strides of 0";
  op_.publish();
  const Status status = silu()(input_, out_);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("input: rank 3, found float32 [2, 4]"));
  EXPECT_THAT(status.message(), HasSubstr("strides of 0"));
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "call.condition");
  EXPECT_EQ(status.rejection()->expected, "input: rank 3");
  EXPECT_EQ(status.rejection()->found, "float32 [2, 4]");
}

TEST_F(CallTest, RepeatsTheStoredRejectionWhenNothingIsBound) {
  op_.skip("vllm", reject(rules::kProbeSignal, "/x/_C.abi3.so", "no signal", "SIGILL"), true);
  op_.publish();
  const Status status = silu()(input_, out_);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "probe.signal");
  EXPECT_EQ(status.rejection()->found, "SIGILL");
}

TEST_F(CallTest, SaysNoNativeKernelWhenNobodyServesTheOperator) {
  op_.publish();
  const Status status = silu()(input_, out_);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "registry.no_native");
}

TEST_F(CallTest, StrictModeTurnsASkippedFirstBindingIntoItsStoredRejection) {
  op_.skip("vllm", reject(rules::kDiscoveryNoMatch, "vllm", "one file", "none"), true);
  Script& native = op_.add("native");
  op_.publish(/*strict=*/true);
  const Status status = silu()(input_, out_);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "discovery.no_match");
  EXPECT_EQ(native.calls, 0);
}

TEST_F(CallTest, StrictModeTurnsARefusedConditionIntoAnError) {
  op_.add("vllm", {rank_is(3)});
  Script& native = op_.add("native");
  op_.publish(/*strict=*/true);
  const Status status = silu()(input_, out_);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "call.condition");
  EXPECT_EQ(native.calls, 0);
}

TEST_F(CallTest, StrictModeTurnsUnsupportedIntoAnError) {
  Script& first = op_.add("vllm");
  first.answer = OPMUX_UNSUPPORTED;
  Script& native = op_.add("native");
  op_.publish(/*strict=*/true);
  EXPECT_EQ(silu()(input_, out_).rejection()->rule, "call.unsupported");
  EXPECT_EQ(native.calls, 0);
}

TEST_F(CallTest, StrictModeLetsTheFirstBindingServe) {
  Script& first = op_.add("vllm");
  op_.publish(/*strict=*/true);
  EXPECT_TRUE(silu()(input_, out_).ok());
  EXPECT_EQ(first.calls, 1);
}

TEST_F(CallTest, ACpuCallWithAStreamIsRefused) {
  Script& first = op_.add("vllm");
  op_.publish();
  const Status status = silu().on(Stream::legacy_default(), input_, out_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.rejection()->rule, "call.stream");
  EXPECT_EQ(first.calls, 0);
}

TEST_F(CallTest, ACudaCallMustNameItsStream) {
  const TensorView input(data_.data(), DType::kFloat32, {2, 4}, Device::cuda());
  op_.publish();
  EXPECT_EQ(silu()(input, out_).rejection()->rule, "call.stream");
  EXPECT_EQ(silu().on(Stream::of(nullptr), input, out_).rejection()->rule, "call.stream");
  EXPECT_EQ(silu().on(Stream{OPMUX_STREAM_HANDLE, nullptr}, input, out_).rejection()->found,
            "a null handle");
  EXPECT_EQ(silu().on(Stream{9, nullptr}, input, out_).rejection()->found, "a stream of kind 9");
  // With a stream the call gets as far as the route, which is empty on cuda.
  EXPECT_EQ(silu().on(Stream::legacy_default(), input, out_).rejection()->rule,
            "registry.no_native");
}

TEST_F(CallTest, CallProviderTriesOnlyThatProvider) {
  Script& first = op_.add("vllm");
  Script& native = op_.add("native");
  op_.publish();
  const OpmuxValue values[] = {detail::tensor_value(input_), detail::tensor_value(out_)};
  EXPECT_TRUE(op_.op().call_provider("native", values, 2, {}, OPMUX_CALL_OWNED_TENSORS).ok());
  EXPECT_EQ(first.calls, 0);
  EXPECT_EQ(native.calls, 1);
  EXPECT_EQ(op_.op().call_provider("flash_attn", values, 2).rejection()->rule,
            "registry.not_routed");
}

TEST_F(CallTest, BoxedCallsCheckCountAndTypes) {
  Script& first = op_.add("vllm");
  op_.publish();
  const OpmuxValue values[] = {detail::tensor_value(input_), detail::int_value(1)};
  const Status wrong_type = op_.op().call(values, 2);
  EXPECT_EQ(wrong_type.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong_type.message(), HasSubstr("argument 2 `out`: expected Tensor"));
  const Status wrong_count = op_.op().call(values, 1);
  EXPECT_THAT(wrong_count.message(), HasSubstr("expected 2 to 2 arguments, found 1"));
  EXPECT_EQ(first.calls, 0);
}

TEST(DefaultsTest, LeftOutArgumentsGetTheSchemasDefaults) {
  OneOperator op(
      "rotary(Tensor(a!) query, int head, int offset=3, bool inverse=True, float x=2, int[]? w=[4, "
      "5], Tensor? k=None) -> ()");
  Script& binding = op.add("native");
  op.publish();
  float data = 0;
  const TensorView query(&data, DType::kFloat32, {1});
  const Operator<void(Tensor, std::int64_t, std::int64_t)> rotary(op.op().state());
  ASSERT_TRUE(rotary(query, 64, 7).ok());
  ASSERT_EQ(binding.values.size(), 7u);
  EXPECT_EQ(binding.values[1].payload.integer, 64);
  EXPECT_EQ(binding.values[2].payload.integer, 7);
  EXPECT_EQ(binding.values[3].tag, std::int32_t{OPMUX_VALUE_BOOL});
  EXPECT_EQ(binding.values[3].payload.integer, 1);
  EXPECT_EQ(binding.values[4].tag, std::int32_t{OPMUX_VALUE_FLOAT});
  EXPECT_EQ(binding.values[4].payload.real, 2.0);
  ASSERT_EQ(binding.values[5].tag, std::int32_t{OPMUX_VALUE_INT_LIST});
  ASSERT_EQ(binding.values[5].payload.int_list->size, 2u);
  EXPECT_EQ(binding.values[5].payload.int_list->data[1], 5);
  EXPECT_EQ(binding.values[6].tag, std::int32_t{OPMUX_VALUE_NONE});
}

}  // namespace
}  // namespace opmux
