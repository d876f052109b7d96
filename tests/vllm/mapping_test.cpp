// SPDX-License-Identifier: Apache-2.0
//
// Values drawn from an argument (an item of a list, an inverse square root) and providers that
// return one list of tensors.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/vllm/fake_provider.hpp"

namespace opmux::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr DType kF32 = DType::kFloat32;
constexpr const char* kScale = "opmux_fake::scale(Tensor input, float factor, Tensor! out) -> ()";
constexpr const char* kParts = "opmux_fake::parts(Tensor input) -> Tensor[]";

class Mapping : public ::testing::Test {
 protected:
  void SetUp() override { fake_provider(); }

  // The factor is item 1 of `factors`.
  static Bound scale_by_item() {
    return Bound("f(Tensor x, int[] factors, Tensor(a!) y) -> ()", kScale,
                 {from(0), item(1, 1), from(2)});
  }
  static Bound scale_by_root(std::int32_t dimension = -1) {
    return Bound("f(Tensor x, float? factor, Tensor(a!) y) -> ()", kScale,
                 {from(0), inverse_sqrt(1, 0, dimension), from(2)});
  }

  std::array<float, 4> input_{1, 2, 3, 4};
  std::array<float, 4> out_{};
  const TensorView x_{input_.data(), kF32, {1, 4}};
  const TensorView y_{out_.data(), kF32, {1, 4}};
};

TEST_F(Mapping, PassesAnItemOfAList) {
  const std::array<std::int64_t, 2> factors{7, -2};
  EXPECT_EQ(scale_by_item()({value(x_), value(OpmuxIntList{factors.data(), 2}), value(y_)}),
            OPMUX_OK)
      << take_error();
  EXPECT_THAT(out_, ElementsAre(-2, -4, -6, -8));
}

TEST_F(Mapping, NamesTheListThatIsTooShortAndItsSizeBeforeLaunch) {
  const std::array<std::int64_t, 1> factors{7};
  EXPECT_EQ(scale_by_item()({value(x_), value(OpmuxIntList{factors.data(), 1}), value(y_)}),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "opmux_fake::scale: argument 1 `factors`: expected int[] of at least 2, found int[] of "
            "1");
  EXPECT_EQ(scale_by_item()({value(x_), value(2), value(y_)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "opmux_fake::scale: argument 1 `factors`: expected int[] of at least 2, found int");
  EXPECT_THAT(out_, Each(0));
}

TEST_F(Mapping, PassesTheInverseSquareRootOfADimensionWhereTheFloatIsNone) {
  EXPECT_EQ(scale_by_root()({value(x_), none(), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(0.5F, 1.0F, 1.5F, 2.0F));
  EXPECT_EQ(scale_by_root(0)({value(x_), none(), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(scale_by_root()({value(x_), value(3.0), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(3, 6, 9, 12));
}

TEST_F(Mapping, RefusesAnInverseSquareRootOfADimensionThatIsNotThere) {
  EXPECT_EQ(scale_by_root(-3)({value(x_), none(), value(y_)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "opmux_fake::scale: argument 0 `x`: expected at least one element in dimension -3, as "
            "`factor` is None, found rank 2");
  const TensorView empty(nullptr, kF32, {2, 0});
  EXPECT_EQ(scale_by_root()({value(empty), none(), value(empty)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "opmux_fake::scale: argument 0 `x`: expected at least one element in dimension -1, as "
            "`factor` is None, found size 0");
  EXPECT_EQ(scale_by_root()({none(), none(), value(y_)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_THAT(out_, Each(0));
}

TEST_F(Mapping, RefusesSourcesThatTheArgumentCannotYield) {
  EXPECT_EQ(
      Bound("f(Tensor x, float factor, Tensor(a!) y) -> ()", kScale, {from(0), item(1, 0), from(2)})
          .reason(),
      "argument 1 `factor`: expected an item from 0 of int[], found an item of float "
      "(`factor` of the operator)");
  EXPECT_EQ(Bound("f(Tensor x, int[] factors, Tensor(a!) y) -> ()", kScale,
                  {from(0), item(1, -1), from(2)})
                .reason(),
            "argument 1 `factor`: expected an item from 0 of int[], found an item of int[] "
            "(`factors` of the operator)");
  EXPECT_EQ(Bound("f(Tensor x, int[] factors, Tensor(a!) y) -> ()", kScale,
                  {item(1, 0), item(1, 1), from(2)})
                .reason(),
            "argument 0 `input`: expected Tensor, found an item of int[] (`factors` of the "
            "operator)");
  EXPECT_EQ(Bound("f(Tensor x, int factor, Tensor(a!) y) -> ()", kScale,
                  {from(0), inverse_sqrt(1, 0, 0), from(2)})
                .reason(),
            "argument 1 `factor`: expected an inverse square root for a float, of a Tensor's "
            "dimension, found an inverse square root for int (`factor` of the operator)");
  EXPECT_EQ(Bound("f(Tensor x, float? factor, Tensor(a!) y) -> ()", kScale,
                  {from(0), inverse_sqrt(1, 3, 0), from(2)})
                .reason(),
            "argument 1 `factor`: source 3 of kind 3 is no argument of f");
  EXPECT_EQ(Bound("f(Tensor x, float? factor, Tensor(a!) y) -> ()", kScale,
                  {from(0), source(4, 1), from(2)})
                .reason(),
            "argument 1 `factor`: source 1 of kind 4 is no argument of f");
}

TEST_F(Mapping, CopiesItemsOfAListByTheirIndexAndDropsTheRest) {
  const Bound bound("f(Tensor x, Tensor(a!) next, Tensor(b!)? sums) -> ()", kParts, {from(0)},
                    {.results = {1, 2}});
  EXPECT_EQ(bound.copies(), 2U);
  std::array<float, 1> sums{};
  EXPECT_EQ(bound({value(x_), value(y_), value(TensorView(sums.data(), kF32, {1}))}), OPMUX_OK)
      << take_error();
  EXPECT_THAT(out_, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(sums, ElementsAre(10));
  EXPECT_EQ(bound({value(x_), value(y_), none()}), OPMUX_OK) << take_error();
  const Bound last("f(Tensor x, Tensor(a!) twice) -> ()", kParts, {from(0)},
                   {.results = {-1, -1, 1}});
  EXPECT_EQ(last.copies(), 1U);
  EXPECT_EQ(last({value(x_), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(Bound("f(Tensor x) -> ()", kParts, {from(0)})({value(x_)}), OPMUX_OK);
}

TEST_F(Mapping, TurnsPositiveInfinityIntoNegativeWhereTheManifestSaysSo) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, 4> in{kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3};
  const TensorView x(in.data(), kF32, {1, 4});
  const char* const schema = "f(Tensor x, Tensor(a!) next) -> ()";
  const Bound turned(schema, kParts, {from(0)},
                     {.results = {1}, .result_flags = OPMUX_RESULT_NEGATIVE_INFINITY});
  EXPECT_EQ(turned({value(x), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_EQ(out_[0], -kInfinity);
  EXPECT_EQ(out_[1], -kInfinity);
  EXPECT_TRUE(std::isnan(out_[2]));
  EXPECT_EQ(out_[3], 4);
  const Bound kept(schema, kParts, {from(0)}, {.results = {1}});
  EXPECT_EQ(kept({value(x), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_EQ(out_[0], kInfinity);
}

TEST_F(Mapping, ReportsAListThatIsTooShortForATargetAsFailedAfterLaunch) {
  const Bound bound("f(Tensor x, Tensor(a!)? y) -> ()",
                    "opmux_fake::no_parts(Tensor input) -> Tensor[]", {from(0)},
                    {.results = {-1, 1}});
  EXPECT_EQ(bound({value(x_), value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(),
            "opmux_fake::no_parts: argument 1 `y`: expected at least 2 items in the provider's "
            "list, found 0");
  EXPECT_EQ(bound({value(x_), none()}), OPMUX_OK) << take_error();  // nothing is wanted
}

TEST_F(Mapping, ReportsAnItemOfAnotherShapeAsFailedAfterLaunch) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()", kParts, {from(0)}, {.results = {-1, 1}});
  EXPECT_EQ(bound({value(x_), value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(),
            "opmux_fake::parts: argument 1 `y`: result 1: expected Float[1, 4], found Float[1]");
}

TEST_F(Mapping, CountsNoCopyForAnItemWhoseTargetTheProviderIsHanded) {
  const Bound bound("f(Tensor x, Tensor(a!) y, Tensor(b!) sums) -> ()",
                    "opmux_fake::fill_parts(Tensor! out, Tensor input) -> Tensor[]",
                    {from(1), from(0)}, {.results = {1, 2}});
  EXPECT_EQ(bound.copies(), 1U);
  std::array<float, 1> sums{};
  EXPECT_EQ(bound({value(x_), value(y_), value(TensorView(sums.data(), kF32, {1}))}), OPMUX_OK)
      << take_error();
  EXPECT_THAT(out_, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sums, ElementsAre(10));
}

TEST_F(Mapping, RefusesATargetOfAListThatTheOperatorDoesNotWrite) {
  EXPECT_EQ(Bound("f(Tensor x, Tensor y) -> ()", kParts, {from(0)}, {.results = {1}}).reason(),
            "result 0: argument 1 `y` of the operator is not marked as written");
}

TEST_F(Mapping, IsNotLeftToTheModule) {
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DISPATCHER;
  request.device_type = OPMUX_DEVICE_CPU;
  request.flags = OPMUX_BIND_MODULE_MAPS;
  OpmuxBound bound{};
  bound.struct_size = sizeof(bound);
  EXPECT_EQ(vllm_module().bind(&request, &bound), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(),
            "the vllm module maps no arguments itself: the manifest must give `call`");
}

}  // namespace
}  // namespace opmux::testing
