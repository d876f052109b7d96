// SPDX-License-Identifier: Apache-2.0
#include "core/registry/condition.hpp"
#include "opmux/operator.hpp"
#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

std::string silu(const std::string& any_of) {
  return "{module: attend, when: {device: cpu, any_of: " + any_of + "}}";
}

TEST(AnyOf, IsOneConditionWithItsBranchesInWords) {
  const Alternative read = accepted_alternative(
      "attend", silu("[{scale: none, q: {rank: 3}}, {scale: given, q: {rank: 4}}]"));
  ASSERT_EQ(read.when.size(), 1U);
  const Condition& any = read.when[0];
  EXPECT_EQ(any.kind, ConditionKind::kAnyOf);
  EXPECT_EQ(any.text, "either scale: not given and q: rank 3, or scale: given and q: rank 4");
  ASSERT_EQ(any.branches.size(), 2U);
  EXPECT_EQ(any.branches[1][1].kind, ConditionKind::kRank);
}

TEST(AnyOf, HoldsWhenAllOfOneBranchHolds) {
  const Alternative read = accepted_alternative(
      "attend", silu("[{scale: none, q: {rank: 3}}, {scale: given, q: {rank: 4}}]"));
  ASSERT_EQ(read.when.size(), 1U);
  const CompiledCondition condition = compile_condition(read.when[0]);
  float data = 0.0f;
  const TensorView three(&data, DType::kFloat32, {1, 1, 1});
  const TensorView four(&data, DType::kFloat32, {1, 1, 1, 1});
  const auto with = [](const TensorView& q, OpmuxValue scale) {
    return std::vector<OpmuxValue>{detail::tensor_value(q), scale};
  };
  EXPECT_TRUE(holds(condition, with(three, detail::none_value()).data()));
  EXPECT_TRUE(holds(condition, with(four, detail::float_value(0.5)).data()));
  EXPECT_FALSE(holds(condition, with(four, detail::none_value()).data()));
  const std::vector<OpmuxValue> neither = with(three, detail::float_value(0.5));
  EXPECT_FALSE(holds(condition, neither.data()));
  EXPECT_EQ(describe_value(condition, neither.data()),
            "`scale: not given`: 0.5; `q: rank 4`: float32 [1, 1, 1]");
}

TEST(AnyOf, OfOneBranchOrOfNoneIsRefused) {
  const Rejection one = refused_alternative("attend", silu("[{scale: none}]"));
  EXPECT_EQ(one.rule, "yaml.wrong_form");
  EXPECT_EQ(one.expected,
            "`any_of`: a list of at least two maps of conditions, or a list of such lists");
  const Rejection map = refused_alternative("attend", silu("{scale: none}"));
  EXPECT_EQ(map.rule, "yaml.wrong_form");
  const Rejection empty = refused_alternative("attend", silu("[{scale: none}, {}]"));
  EXPECT_EQ(empty.rule, "yaml.wrong_form");
  EXPECT_EQ(empty.found, "an empty map");
}

TEST(AnyOf, OfSeveralGroupsEachMustHold) {
  const Alternative read = accepted_alternative(
      "attend", silu("[[{scale: none}, {causal: true}], [{lse: none}, {causal: false}]]"));
  ASSERT_EQ(read.when.size(), 2U);
  EXPECT_EQ(read.when[0].text, "either scale: not given, or causal: true");
  EXPECT_EQ(read.when[1].text, "either lse: not given, or causal: false");
}

TEST(AnyOf, HoldsConditionsOnArgumentsOnly) {
  const Rejection device =
      refused_alternative("attend", silu("[{device: cpu, scale: none}, {scale: given}]"));
  EXPECT_EQ(device.rule, "manifest.reference");
  const Rejection nested = refused_alternative(
      "attend", silu("[{any_of: [{scale: none}, {scale: given}]}, {scale: given}]"));
  EXPECT_EQ(nested.rule, "manifest.reference");
}

// What holds in one branch only is no promise for every call.
TEST(AnyOf, DoesNotMakeAnOptionalArgumentGiven) {
  const Rejection rejection = refused_alternative(
      "attend",
      "{library: c, schema: \"n::attend(Tensor q, float scale, int[] window, int[]? sizes, bool "
      "causal, Tensor! out) -> ()\", dispatch_key: CPU, call: [q, scale, window, sizes, causal, "
      "out], when: {lse: none, any_of: [{scale: given, q: {rank: 3}}, {scale: given, q: {rank: "
      "4}}]}}");
  EXPECT_EQ(rejection.rule, "manifest.mapping");
  EXPECT_EQ(rejection.hint, "Add `when: {scale: given}`.");
}

}  // namespace
}  // namespace opmux
