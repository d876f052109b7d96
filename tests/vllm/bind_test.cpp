// SPDX-License-Identifier: Apache-2.0
//
// What bind() refuses, and how it says so.
#include <gmock/gmock.h>

#include "tests/vllm/fake_provider.hpp"

namespace opmux::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kScaleOperator = "scale(Tensor input, float factor, Tensor(a!) out) -> ()";
constexpr const char* kScale = "opmux_fake::scale(Tensor input, float factor, Tensor! out) -> ()";

class Bind : public ::testing::Test {
 protected:
  void SetUp() override { fake_provider(); }
};

TEST_F(Bind, AcceptsTheRegisteredSchema) {
  const Bound bound(kScaleOperator, kScale, {from(0), from(1), from(2)});
  EXPECT_EQ(bound.status(), OPMUX_OK) << bound.reason();
  EXPECT_EQ(bound.copies(), 0U);
}

TEST_F(Bind, CountsTheCopiesThatACallMakes) {
  const char* two = "f(Tensor x, Tensor(a!) y, Tensor(b!) z) -> ()";
  const char* split = "opmux_fake::split(Tensor input) -> (Tensor, Tensor)";
  EXPECT_EQ(Bound(two, split, {from(0)}, {.results = {1, 2}}).copies(), 2U);
  EXPECT_EQ(Bound(two, split, {from(0)}, {.results = {1, -1}}).copies(), 1U);
  // The result is the argument itself.
  EXPECT_EQ(Bound("f(Tensor x, Tensor(a!) y) -> ()",
                  "opmux_fake::write_and_return(Tensor(a!) out, Tensor input) -> Tensor(a!)",
                  {from(1), from(0)}, {.results = {1}})
                .copies(),
            0U);
}

TEST_F(Bind, RefusesAnOperatorThatIsNotThere) {
  const Bound bound(kScaleOperator, "opmux_fake::missing(Tensor input) -> ()", {from(0)});
  EXPECT_EQ(bound.status(), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(bound.reason(),
            "the Dispatcher of this process has no operator opmux_fake::missing; expected "
            "opmux_fake::missing(Tensor input) -> ()");
}

TEST_F(Bind, RefusesAMissingOverload) {
  const Bound bound("f(Tensor x, int value) -> ()",
                    "opmux_fake::overloaded(Tensor input, int value) -> ()", {from(0), from(1)});
  EXPECT_EQ(bound.status(), OPMUX_INCOMPATIBLE);
  EXPECT_THAT(bound.reason(), HasSubstr("has no operator opmux_fake::overloaded;"));
}

TEST_F(Bind, RefusesAMissingDispatchKeyAndListsThoseWithAKernel) {
  const Bound cuda(kScaleOperator, kScale, {from(0), from(1), from(2)}, {.dispatch_key = "CUDA"});
  EXPECT_EQ(cuda.status(), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(cuda.reason(),
            "opmux_fake::scale: expected a kernel for dispatch key CUDA, found kernels for: CPU");
  const Bound none("f(Tensor x) -> ()", "opmux_fake::no_kernel(Tensor input) -> ()", {from(0)});
  EXPECT_EQ(none.reason(),
            "opmux_fake::no_kernel: expected a kernel for dispatch key CPU, found kernels for: "
            "none");
}

TEST_F(Bind, RefusesADispatchKeyThatTorchDoesNotKnow) {
  const Bound bound(kScaleOperator, kScale, {from(0), from(1), from(2)}, {.dispatch_key = "GPU"});
  EXPECT_EQ(bound.status(), OPMUX_INCOMPATIBLE);
  EXPECT_THAT(bound.reason(), HasSubstr("GPU"));
}

struct Difference {
  const char* provider_schema;
  const char* reason;
};

class BindDifference : public ::testing::TestWithParam<Difference> {};

TEST_P(BindDifference, IsNamed) {
  fake_provider();
  const Bound bound(kScaleOperator, GetParam().provider_schema, {from(0), from(1), from(2)});
  EXPECT_EQ(bound.status(), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(bound.reason().rfind(GetParam().reason, 0), 0U) << bound.reason();
}

INSTANTIATE_TEST_SUITE_P(
    Schemas, BindDifference,
    ::testing::Values(
        Difference{"opmux_fake::scale(Tensor input, int factor, Tensor! out) -> ()",
                   "argument 1 `factor`: expected int, found float; expected opmux_fake::scale("},
        Difference{"opmux_fake::scale(Tensor input, float by, Tensor! out) -> ()",
                   "argument 1 `by`: found the name `factor`"},
        Difference{"opmux_fake::scale(Tensor input, float factor, Tensor out) -> ()",
                   "argument 2 `out`: expected not written, found written"},
        Difference{"opmux_fake::scale(Tensor input, float factor) -> ()",
                   "expected 2 arguments, found 3"},
        Difference{"opmux_fake::scale(Tensor input, float factor, Tensor! out) -> Tensor",
                   "expected 1 results, found 0"},
        Difference{"opmux_fake::scale(Tensor? input, float factor, Tensor! out) -> ()",
                   "argument 0 `input`: expected Tensor?, found Tensor"},
        Difference{"opmux_fake::scale(Tensor input", "provider schema `opmux_fake::scale(Tensor"}));

TEST_F(Bind, RefusesAMappingWithTooFewOrTooManyValues) {
  EXPECT_EQ(Bound(kScaleOperator, kScale, {from(0), from(1)}).reason(),
            "argument 2 `out`: the mapping gives no value for it");
  EXPECT_THAT(Bound(kScaleOperator, kScale, {from(0), from(1), from(2), from(2)}).reason(),
              HasSubstr("the mapping gives 4 values for 3 arguments of opmux_fake::scale("));
}

TEST_F(Bind, RefusesAnArgumentOfAnotherType) {
  EXPECT_EQ(Bound(kScaleOperator, kScale, {from(1), from(1), from(2)}).reason(),
            "argument 0 `input`: expected Tensor, found float (`factor` of the operator)");
}

TEST_F(Bind, RefusesASourceThatIsNoArgument) {
  EXPECT_THAT(Bound(kScaleOperator, kScale, {from(3), from(1), from(2)}).reason(),
              HasSubstr("argument 0 `input`: source 3 of kind 0 is no argument of scale"));
}

TEST_F(Bind, RefusesAConstantOfAnotherType) {
  EXPECT_EQ(Bound(kScaleOperator, kScale, {from(0), constant(value("two")), from(2)}).reason(),
            "argument 1 `factor`: expected float, found str");
  EXPECT_EQ(Bound(kScaleOperator, kScale, {constant(none()), from(1), from(2)}).reason(),
            "argument 0 `input`: expected Tensor, found None");
}

TEST_F(Bind, RefusesAResultWithoutATarget) {
  EXPECT_EQ(
      Bound("f(Tensor x) -> ()", "opmux_fake::doubled(Tensor input) -> Tensor", {from(0)}).reason(),
      "expected a target for each of 1 results, found 0");
}

TEST_F(Bind, RefusesATargetThatTheOperatorDoesNotWrite) {
  EXPECT_EQ(Bound("f(Tensor x, Tensor y) -> ()", "opmux_fake::doubled(Tensor input) -> Tensor",
                  {from(0)}, {.results = {1}})
                .reason(),
            "result 0: argument 1 `y` of the operator is not marked as written");
}

TEST_F(Bind, RefusesAnotherContract) {
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DIRECT_SYMBOL;
  OpmuxBound bound{};
  bound.struct_size = sizeof(bound);
  EXPECT_EQ(vllm_module().bind(&request, &bound), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(), "the vllm module binds the dispatcher contract only");
}

}  // namespace
}  // namespace opmux::testing
