// SPDX-License-Identifier: Apache-2.0
//
// Calls from views into a fake provider: conversion of every kind of value, results, and providers
// that misbehave.
#include <gmock/gmock.h>

#include <array>
#include <numeric>
#include <thread>

#include "tests/vllm/fake_provider.hpp"

namespace opmux::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DType kF32 = DType::kFloat32;

class Call : public ::testing::Test {
 protected:
  void SetUp() override { fake_provider(); }

  // One operator `f(Tensor x) -> ()` or `f(Tensor(a!) x) -> ()` of the provider.
  static Bound unary(const std::string& name, bool writes) {
    return Bound(writes ? "f(Tensor(a!) x) -> ()" : "f(Tensor x) -> ()",
                 "opmux_fake::" + name + (writes ? "(Tensor! out) -> ()" : "(Tensor input) -> ()"),
                 {from(0)});
  }
};

Bound scale() {
  return Bound("scale(Tensor input, float factor, Tensor(a!) out) -> ()",
               "opmux_fake::scale(Tensor input, float factor, Tensor! out) -> ()",
               {from(0), from(1), from(2)});
}

TEST_F(Call, WritesIntoTheCallersMemory) {
  std::array<float, 6> input{1, 2, 3, 4, 5, 6};
  std::array<float, 6> out{};
  EXPECT_EQ(scale()({value(TensorView(input.data(), kF32, {2, 3})), value(2.0),
                     value(TensorView(out.data(), kF32, {2, 3}))}),
            OPMUX_OK);
  EXPECT_THAT(out, ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST_F(Call, FollowsStridesOffsetsAndNewShapesFromCallToCall) {
  const Bound bound = scale();
  std::vector<float> input(24);
  std::iota(input.begin(), input.end(), 0.0F);
  for (std::int64_t columns = 1; columns <= 4; ++columns) {
    // The first columns of a 4 x 6 matrix, read from its second element on.
    const std::int64_t shape[] = {3, columns};
    const std::int64_t strides[] = {6, 1};
    OpmuxTensor strided = TensorView(input.data(), kF32, shape, strides, 2).abi().tensor;
    strided.shape = const_cast<std::int64_t*>(shape);
    strided.strides = const_cast<std::int64_t*>(strides);
    strided.byte_offset = sizeof(float);
    std::vector<float> out(static_cast<std::size_t>(3 * columns), -1.0F);
    ASSERT_EQ(bound({value(TensorView::borrow(strided)), value(1),
                     value(TensorView(out.data(), kF32, {3, columns}))}),
              OPMUX_OK)
        << take_error();
    for (std::int64_t row = 0; row < 3; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        EXPECT_EQ(out[static_cast<std::size_t>(row * columns + column)],
                  static_cast<float>(1 + row * 6 + column));
      }
    }
  }
}

TEST_F(Call, ReadsNullStridesAsContiguous) {
  std::array<float, 4> input{1, 2, 3, 4};
  std::array<float, 4> out{};
  std::array<std::int64_t, 2> shape{2, 2};
  OpmuxTensor tensor{};
  tensor.data = input.data();
  tensor.device = {OPMUX_DEVICE_CPU, 0};
  tensor.rank = 2;
  tensor.dtype = {OPMUX_DTYPE_FLOAT, 32, 1};
  tensor.shape = shape.data();
  EXPECT_EQ(scale()({value(TensorView::borrow(tensor)), value(3.0),
                     value(TensorView(out.data(), kF32, {2, 2}))}),
            OPMUX_OK);
  EXPECT_THAT(out, ElementsAre(3, 6, 9, 12));
}

TEST_F(Call, TakesEmptyTensorsWithNullDataAndScalars) {
  EXPECT_EQ(scale()({value(TensorView(nullptr, kF32, {0, 3})), value(2.0),
                     value(TensorView(nullptr, kF32, {0, 3}))}),
            OPMUX_OK)
      << take_error();
  float input = 4;
  float out = 0;
  EXPECT_EQ(
      scale()({value(TensorView(&input, kF32, {})), value(2.0), value(TensorView(&out, kF32, {}))}),
      OPMUX_OK)
      << take_error();
  EXPECT_EQ(out, 8);
}

TEST_F(Call, CopiesResultsIntoTheirTargetsInOrder) {
  const Bound bound("f(Tensor x, Tensor(a!) sums, Tensor(b!) next) -> ()",
                    "opmux_fake::split(Tensor input) -> (Tensor, Tensor)", {from(0)},
                    {.results = {2, 1}});
  std::array<float, 4> input{1, 2, 3, 4};
  std::array<float, 4> next{};
  std::array<float, 2> sums{};
  EXPECT_EQ(bound({value(TensorView(input.data(), kF32, {2, 2})),
                   value(TensorView(sums.data(), kF32, {2})),
                   value(TensorView(next.data(), kF32, {2, 2}))}),
            OPMUX_OK)
      << take_error();
  EXPECT_THAT(next, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(sums, ElementsAre(3, 7));
}

TEST_F(Call, DropsAResultWithoutATargetAndAnOptionalTargetThatIsNone) {
  const Bound bound("f(Tensor x, Tensor(a!)? next) -> ()",
                    "opmux_fake::split(Tensor input) -> (Tensor, Tensor)", {from(0)},
                    {.results = {1, -1}});
  std::array<float, 2> input{1, 2};
  std::array<float, 2> next{};
  EXPECT_EQ(bound({value(TensorView(input.data(), kF32, {1, 2})),
                   value(TensorView(next.data(), kF32, {1, 2}))}),
            OPMUX_OK);
  EXPECT_THAT(next, ElementsAre(2, 3));
  EXPECT_EQ(bound({value(TensorView(input.data(), kF32, {1, 2})), none()}), OPMUX_OK);
}

TEST_F(Call, LeavesAResultAloneThatAlreadyIsItsTarget) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()",
                    "opmux_fake::write_and_return(Tensor(a!) out, Tensor input) -> Tensor(a!)",
                    {from(1), from(0)}, {.results = {1}});
  std::array<float, 2> input{1, 2};
  std::array<float, 2> out{};
  EXPECT_EQ(
      bound({value(TensorView(input.data(), kF32, {2})), value(TensorView(out.data(), kF32, {2}))}),
      OPMUX_OK)
      << take_error();
  EXPECT_THAT(out, ElementsAre(1, 2));
}

TEST_F(Call, ReportsAResultOfAnotherShapeOrDtypeAsFailedAfterLaunch) {
  std::array<float, 2> input{1, 2};
  std::array<float, 2> out{};
  for (const auto& [name, found] :
       {std::pair{"wrong_shape", "Float[1, 2]"}, std::pair{"wrong_dtype", "Double[2]"}}) {
    const Bound bound("f(Tensor x, Tensor(a!) y) -> ()",
                      std::string("opmux_fake::") + name + "(Tensor input) -> Tensor", {from(0)},
                      {.results = {1}});
    EXPECT_EQ(bound({value(TensorView(input.data(), kF32, {2})),
                     value(TensorView(out.data(), kF32, {2}))}),
              OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_EQ(take_error(), std::string("opmux_fake::") + name +
                                ": argument 1 `y`: result 0: expected Float[2], found " + found);
    EXPECT_THAT(out, Each(0));
  }
}

TEST_F(Call, PassesOptionalTensors) {
  const Bound bound("f(Tensor x, Tensor? bias, Tensor(a!) y) -> ()",
                    "opmux_fake::optional_bias(Tensor input, Tensor? bias, Tensor! out) -> ()",
                    {from(0), from(1), from(2)});
  std::array<float, 2> input{1, 2};
  std::array<float, 2> bias{10, 20};
  std::array<float, 2> out{};
  const TensorView x(input.data(), kF32, {2});
  const TensorView y(out.data(), kF32, {2});
  EXPECT_EQ(bound({value(x), none(), value(y)}), OPMUX_OK);
  EXPECT_THAT(out, ElementsAre(1, 2));
  EXPECT_EQ(bound({value(x), value(TensorView(bias.data(), kF32, {2})), value(y)}), OPMUX_OK);
  EXPECT_THAT(out, ElementsAre(11, 22));
}

constexpr const char* kDescribe =
    "opmux_fake::describe(Tensor input, int integer, SymInt symbolic, float real, bool flag, str "
    "text, int[] integers, float[] reals, (int, int)? pair, ScalarType? dtype, Scalar number, "
    "Tensor[] tensors, SymInt? maybe) -> ()";

std::string description() {
  return symbol<const char* (*)()>(fake_provider(), "fake_description")();
}

TEST_F(Call, ConvertsEveryKindOfValue) {
  const Bound bound(
      "f(Tensor x, int a, int b, float c, bool d, str e, int[] f, float[] g, int[]? h, ScalarType? "
      "i, float j, Tensor[] k, int? l) -> ()",
      kDescribe,
      {from(0), from(1), from(2), from(3), from(4), from(5), from(6), from(7), from(8), from(9),
       from(10), from(11), from(12)});
  std::array<float, 2> input{1, 2};
  const TensorView x(input.data(), kF32, {1, 2});
  const std::array<std::int64_t, 3> integers{1, -2, 3};
  const std::array<double, 1> reals{0.5};
  const std::array<std::int64_t, 2> pair{128, 64};
  const std::array<const OpmuxTensor*, 2> tensors{&x.abi().tensor, &x.abi().tensor};
  const OpmuxIntList integer_list{integers.data(), integers.size()};
  const OpmuxFloatList real_list{reals.data(), reals.size()};
  const OpmuxIntList pair_list{pair.data(), pair.size()};
  const OpmuxTensorList tensor_list{tensors.data(), tensors.size()};
  OpmuxValue dtype{};
  dtype.tag = OPMUX_VALUE_DTYPE;
  dtype.payload.dtype = {OPMUX_DTYPE_BFLOAT, 16, 1};
  const std::string expected =
      "2 7 8 1.500000 true 'fp8' [1,-2,3,] [0.500000,] (128,64) BFloat16 float 2.500000 sum "
      "3.000000 sum 3.000000 9";
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second call takes kept values again
    ASSERT_EQ(bound({value(x), value(7), value(8), value(1.5), value(true), value("fp8"),
                     value(integer_list), value(real_list), value(pair_list), dtype, value(2.5),
                     value(tensor_list), value(9)}),
              OPMUX_OK)
        << take_error();
    EXPECT_EQ(description(), expected);
  }
  const OpmuxIntList no_integers{nullptr, 0};
  const OpmuxTensorList no_tensors{nullptr, 0};
  ASSERT_EQ(
      bound({value(x), value(-1), value(0), value(3), value(false), value(""), value(no_integers),
             value(real_list), none(), none(), value(2), value(no_tensors), none()}),
      OPMUX_OK)
      << take_error();
  EXPECT_EQ(description(), "2 -1 0 3.000000 false '' [] [0.500000,] None None int 2.000000 None");
}

TEST_F(Call, PassesConstantsOfTheManifest) {
  const std::array<std::int64_t, 2> pair{1, 2};
  const OpmuxIntList pair_list{pair.data(), pair.size()};
  const std::array<const OpmuxTensor*, 0> no_tensors{};
  const OpmuxTensorList tensor_list{no_tensors.data(), 0};
  const Bound bound("f(Tensor x, Tensor[] t) -> ()", kDescribe,
                    {from(0), constant(value(1)), constant(value(2)), constant(value(3)),
                     constant(value(true)), constant(value("auto")), constant(value(pair_list)),
                     constant(value(pair_list)), constant(value(pair_list)), constant(none()),
                     constant(value(4)), from(1), constant(none())});
  std::array<float, 2> input{1, 2};
  ASSERT_EQ(bound({value(TensorView(input.data(), kF32, {2})), value(tensor_list)}), OPMUX_OK)
      << take_error();
  EXPECT_EQ(description(),
            "1 1 2 3.000000 true 'auto' [1,2,] [1.000000,2.000000,] (1,2) None int 4.000000 None");
}

TEST_F(Call, RefusesWhatTorchCannotExpressBeforeLaunch) {
  std::array<float, 4> data{};
  const TensorView good(data.data(), kF32, {2});
  const std::int64_t two[] = {2};
  const std::int64_t back[] = {-1};
  const auto refused = [&](const TensorView& input) {
    EXPECT_EQ(scale()({value(input), value(1.0), value(good)}), OPMUX_INVALID_ARGUMENT);
    return take_error();
  };
  EXPECT_EQ(refused(TensorView(data.data(), kF32, two, back, 1)),
            "opmux_fake::scale: argument 0 `input`: stride -1 of dimension 0 is negative, which "
            "torch cannot express");
  EXPECT_EQ(refused(TensorView(nullptr, kF32, {2})),
            "opmux_fake::scale: argument 0 `input`: data is null though the tensor has elements");
  EXPECT_EQ(refused(TensorView(data.data(), kF32, {-2})),
            "opmux_fake::scale: argument 0 `input`: size -2 of dimension 0 is negative");
  EXPECT_EQ(refused(TensorView(data.data(), kF32, {std::int64_t{1} << 40, std::int64_t{1} << 40})),
            "opmux_fake::scale: argument 0 `input`: strides reach past 2^56 elements");
  const std::int64_t huge[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  const std::int64_t still[] = {0, 0};
  EXPECT_EQ(refused(TensorView(data.data(), kF32, huge, still, 2)),
            "opmux_fake::scale: argument 0 `input`: shape has more than 2^56 elements");
  OpmuxTensor odd = good.abi().tensor;
  odd.dtype = {OPMUX_DTYPE_FLOAT, 24, 1};
  EXPECT_EQ(refused(TensorView::borrow(odd)),
            "opmux_fake::scale: argument 0 `input`: dtype code 2 with 24 bits and 1 lanes is none "
            "of torch's");
}

TEST_F(Call, NamesTheArgumentThatLiesOnAnotherDevice) {
  std::array<float, 2> data{};
  EXPECT_EQ(scale()({value(TensorView(data.data(), kF32, {2})), value(1.0),
                     value(TensorView(data.data(), kF32, {2}, Device::cuda(1)))}),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "opmux_fake::scale: argument 2 `out`: expected cpu, found cuda:1");
}

TEST_F(Call, NamesTheArgumentOfAnotherType) {
  std::array<float, 2> data{};
  const TensorView x(data.data(), kF32, {2});
  EXPECT_EQ(scale()({value(x), value("2"), value(x)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "opmux_fake::scale: argument 1 `factor`: expected float, found str");
  EXPECT_EQ(scale()({none(), value(2.0), value(x)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "opmux_fake::scale: argument 0 `input`: expected a Tensor, found None");
  EXPECT_EQ(scale()({value(x), value(2.0)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "opmux_fake::scale: expected 3 values on cpu, found 2 on cpu");
}

TEST_F(Call, TurnsExceptionsIntoAStatusAndStaysUsable) {
  std::array<float, 2> out{};
  const TensorView x(out.data(), kF32, {2});
  EXPECT_EQ(unary("throw_before", true)({value(x)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(), "opmux_fake::throw_before: refused before anything was written");
  EXPECT_EQ(unary("throw_after", true)({value(x)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(), "opmux_fake::throw_after: failed half way");
  EXPECT_THAT(out, Each(7));
  EXPECT_EQ(unary("throw_foreign", true)({value(x)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(), "opmux_fake::throw_foreign: an exception that is no std::exception");
  const Bound bound = unary("throw_after", true);
  for (int repeat = 0; repeat < 3; ++repeat) {  // nothing is left on the stack
    EXPECT_EQ(bound({value(x)}), OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_EQ(take_error(), "opmux_fake::throw_after: failed half way");
  }
}

TEST_F(Call, NoticesAKernelThatLeavesTheWrongNumberOfResults) {
  std::array<float, 2> data{};
  const Bound bound = unary("leave_too_much", false);
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(bound({value(TensorView(data.data(), kF32, {2}))}), OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_EQ(take_error(), "opmux_fake::leave_too_much: expected 0 results, found 1");
  }
}

TEST_F(Call, NeverRedirectsATensorThatTheProviderKept) {
  const auto kept = symbol<float (*)()>(fake_provider(), "fake_kept_value");
  for (const char* name : {"keep", "keep_view"}) {
    const Bound bound = unary(name, false);
    std::array<float, 2> first{1, 1};
    std::array<float, 2> second{2, 2};
    EXPECT_EQ(bound({value(TensorView(first.data(), kF32, {2}))}), OPMUX_OK);
    EXPECT_EQ(kept(), 1);
    // Were the tensor used again for the second memory, the kept one would show 2.
    const Bound other = unary("record_modes", false);
    EXPECT_EQ(other({value(TensorView(second.data(), kF32, {2}))}), OPMUX_OK);
    EXPECT_EQ(kept(), 1);
    EXPECT_EQ(bound({value(TensorView(second.data(), kF32, {2}))}), OPMUX_OK);
    EXPECT_EQ(kept(), 2);
    EXPECT_EQ(unary("forget", false)({value(TensorView(first.data(), kF32, {2}))}), OPMUX_OK);
  }
  // The same binding, several times in a row: only the last call's tensor is held by the provider.
  const Bound bound = unary("keep", false);
  std::array<float, 1> one{1};
  std::array<float, 1> two{2};
  EXPECT_EQ(bound({value(TensorView(one.data(), kF32, {1}))}), OPMUX_OK);
  const Bound forget = unary("forget", false);
  EXPECT_EQ(bound({value(TensorView(two.data(), kF32, {1}))}), OPMUX_OK);
  EXPECT_EQ(kept(), 2);
  EXPECT_EQ(forget({value(TensorView(one.data(), kF32, {1}))}), OPMUX_OK);
}

TEST_F(Call, ReportsAProviderThatGivesAnOutputOtherMemoryOrAnotherShape) {
  std::array<float, 4> out{5, 5, 5, 5};
  const TensorView x(out.data(), kF32, {2, 2});
  const Bound good = scale();
  for (const char* name : {"replace_storage", "shrink", "transpose"}) {
    const TensorView target =
        std::string_view(name) == "transpose" ? TensorView(out.data(), kF32, {4, 1}) : x;
    const Bound bound = unary(name, true);
    for (int repeat = 0; repeat < 2; ++repeat) {
      EXPECT_EQ(bound({value(target)}), OPMUX_ERROR_AFTER_LAUNCH) << name;
      EXPECT_EQ(take_error(),
                std::string("opmux_fake::") + name +
                    ": argument 0 `x`: the provider gave it other memory or another shape, so the "
                    "result is not in the caller's memory");
    }
  }
  EXPECT_EQ(unary("grow", true)({value(x)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_THAT(take_error(), HasSubstr("not resizable"));
  EXPECT_THAT(out, Each(5));
}

TEST_F(Call, DoesNotCarryWhatAProviderDidToATensorIntoTheNextCall) {
  std::array<float, 2> data{1, 2};
  std::array<float, 2> out{};
  const Bound bound = unary("require_grad", false);
  // Inside inference mode torch refuses or ignores it; either way the next call works.
  for (int repeat = 0; repeat < 2; ++repeat) {
    const OpmuxStatus status = bound({value(TensorView(data.data(), kF32, {2}))});
    EXPECT_TRUE(status == OPMUX_OK || status == OPMUX_ERROR_AFTER_LAUNCH);
    take_error();
  }
  EXPECT_EQ(scale()({value(TensorView(data.data(), kF32, {2})), value(2.0),
                     value(TensorView(out.data(), kF32, {2}))}),
            OPMUX_OK)
      << take_error();
  EXPECT_THAT(out, ElementsAre(2, 4));
}

TEST_F(Call, RunsInInferenceModeAndRestoresTheThreadsMode) {
  std::array<float, 2> data{};
  const Bound bound = unary("record_modes", false);
  EXPECT_EQ(bound({value(TensorView(data.data(), kF32, {2}))}), OPMUX_OK);
  EXPECT_EQ(symbol<int (*)()>(fake_provider(), "fake_saw_inference_mode")(), 1);
  EXPECT_EQ(symbol<int (*)()>(fake_provider(), "fake_saw_grad_mode")(), 0);
}

struct Nested {
  const Bound* bound;
  std::array<float, 2> input{30, 40};
  std::array<float, 2> out{};
  int depth = 0;
};

TEST_F(Call, MayBeEnteredAgainFromTheProvider) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()",
                    "opmux_fake::call_back(Tensor input, Tensor! out) -> ()", {from(0), from(1)});
  Nested nested{&bound};
  const auto set_callback =
      symbol<void (*)(void (*)(void*), void*)>(fake_provider(), "fake_set_callback");
  set_callback(
      [](void* context) {
        auto& inner = *static_cast<Nested*>(context);
        if (inner.depth++ < 2) {
          EXPECT_EQ((*inner.bound)({value(TensorView(inner.input.data(), kF32, {2})),
                                    value(TensorView(inner.out.data(), kF32, {2}))}),
                    OPMUX_OK)
              << take_error();
        }
      },
      &nested);
  std::array<float, 2> input{1, 2};
  std::array<float, 2> out{};
  EXPECT_EQ(
      bound({value(TensorView(input.data(), kF32, {2})), value(TensorView(out.data(), kF32, {2}))}),
      OPMUX_OK)
      << take_error();
  set_callback(nullptr, nullptr);
  EXPECT_EQ(nested.depth, 3);
  EXPECT_THAT(nested.out, ElementsAre(30, 40));
  EXPECT_THAT(out, ElementsAre(1, 2));
}

TEST_F(Call, MayBeMadeFromManyThreadsThroughOneBinding) {
  const Bound bound = scale();
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (std::size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&bound, &wrong, thread] {
      for (int repeat = 0; repeat < 2000; ++repeat) {
        const std::int64_t size = 1 + repeat % 5;
        std::vector<float> input(static_cast<std::size_t>(size), static_cast<float>(thread));
        std::vector<float> out(static_cast<std::size_t>(size), -1.0F);
        const OpmuxStatus status = bound({value(TensorView(input.data(), kF32, {size})), value(2.0),
                                          value(TensorView(out.data(), kF32, {size}))});
        for (const float found : out) {
          wrong[thread] += status != OPMUX_OK || found != 2.0F * static_cast<float>(thread);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(wrong, Each(0));
}

TEST_F(Call, RefusesCudaWhereTorchHasNoCudaPart) {
  // A CUDA binding of an operator whose kernel serves any device.
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()",
                    "opmux_fake::composite(Tensor input) -> Tensor", {from(0)},
                    {.dispatch_key = "CompositeImplicitAutograd",
                     .device_type = OPMUX_DEVICE_CUDA,
                     .results = {1}});
  std::array<float, 2> data{};
  const TensorView x(data.data(), kF32, {2}, Device::cuda());
  const OpmuxDevice device{OPMUX_DEVICE_CUDA, 0};
  EXPECT_EQ(bound.call({value(x), value(x)}, OPMUX_CALL_OWNED_TENSORS, device, OPMUX_STREAM_NONE),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "opmux_fake::composite: expected a CUDA stream, found none; the default stream must be "
            "asked for by name");
  for (void* handle : {static_cast<void*>(nullptr), reinterpret_cast<void*>(1)}) {
    EXPECT_EQ(bound.call({value(x), value(x)}, OPMUX_CALL_OWNED_TENSORS, device,
                         OPMUX_STREAM_HANDLE, handle),
              OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error(),
              "opmux_fake::composite: expected a CUDA stream, found kind 1 with no such handle");
  }
  EXPECT_EQ(bound.call({value(x), value(x)}, OPMUX_CALL_OWNED_TENSORS, device,
                       OPMUX_STREAM_LEGACY_DEFAULT),
            OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(), "opmux_fake::composite: no CUDA part of torch is mapped in this process");
}

TEST_F(Call, OffersMemoryOnTheCpuAndRefusesCudaWithoutItsPartOfTorch) {
  const OpmuxDeviceServices& services = *vllm_module().device_services;
  const OpmuxDevice cpu{OPMUX_DEVICE_CPU, 0};
  void* data = nullptr;
  ASSERT_EQ(services.allocate(cpu, 8, &data), OPMUX_OK);
  const std::array<float, 2> in{1, 2};
  std::array<float, 2> out{};
  EXPECT_EQ(services.copy_in(cpu, data, in.data(), sizeof(in)), OPMUX_OK);
  EXPECT_EQ(services.copy_out(cpu, out.data(), data, sizeof(out)), OPMUX_OK);
  EXPECT_EQ(out, in);
  services.release(cpu, data);
  void* stream = nullptr;
  EXPECT_EQ(services.new_stream(cpu, &stream), OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(), "the cpu has no streams");
  EXPECT_EQ(services.allocate({OPMUX_DEVICE_CUDA, 0}, 8, &data), OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(), "no CUDA part of torch is mapped in this process");
}

}  // namespace
}  // namespace opmux::testing
