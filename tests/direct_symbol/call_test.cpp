// SPDX-License-Identifier: Apache-2.0
//
// Calls of C++ functions by their symbols: every kind of parameter and result, and functions that
// misbehave.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "tests/direct_symbol/example_functions.hpp"

namespace opmux::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr DType kF32 = DType::kFloat32;

class DirectCall : public ::testing::Test {
 protected:
  // One operator `f(Tensor(a!) x) -> ()`, bound to a function of one parameter.
  static Bound unary(const std::string& name, const BindOptions& options = {}) {
    return Bound("f(Tensor(a!) x) -> ()", "example::" + name, {from(0)}, options);
  }

  std::array<float, 4> input_{1, 2, 3, 4};
  std::array<float, 4> out_{};
  const TensorView x_{input_.data(), kF32, {2, 2}};
  const TensorView y_{out_.data(), kF32, {2, 2}};
};

TEST_F(DirectCall, NormalisesInTheCallersMemory) {
  const Bound bound("rms_norm(Tensor input, Tensor weight, float eps, Tensor(a!) out) -> ()",
                    "rms_norm", {from(3), from(0), from(1), from(2)});
  std::array<float, 2> weight{1, 2};
  ASSERT_EQ(bound({value(x_), value(TensorView(weight.data(), kF32, {2})), value(1e-6), value(y_)}),
            OPMUX_OK)
      << take_error();
  const float first = std::sqrt((1.0F + 4.0F) / 2);
  const float second = std::sqrt((9.0F + 16.0F) / 2);
  EXPECT_NEAR(out_[0], 1 / first, 1e-6);
  EXPECT_NEAR(out_[1], 2 * 2 / first, 1e-6);
  EXPECT_NEAR(out_[2], 3 / second, 1e-6);
  EXPECT_NEAR(out_[3], 2 * 4 / second, 1e-6);
}

TEST_F(DirectCall, FollowsNewShapesFromCallToCall) {
  const Bound bound("silu_and_mul(Tensor input, Tensor(a!) out) -> ()", "silu_and_mul",
                    {from(1), from(0)});
  for (std::int64_t half = 1; half <= 4; ++half) {
    std::vector<float> input(static_cast<std::size_t>(2 * half), 1.0F);
    std::vector<float> out(static_cast<std::size_t>(half), -1.0F);
    ASSERT_EQ(bound({value(TensorView(input.data(), kF32, {2 * half})),
                     value(TensorView(out.data(), kF32, {half}))}),
              OPMUX_OK)
        << take_error();
    EXPECT_THAT(out, Each(::testing::FloatNear(0.7310586F, 1e-6F)));
  }
}

TEST_F(DirectCall, PassesEveryScalarWithItsWidthAndSign) {
  const Bound bound(
      "f(bool a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, "
      "float "
      "m, float n) -> ()",
      "example::describe_scalars",
      {from(0), from(1), from(2), from(3), from(4), from(5), from(6), from(7), from(8), from(9),
       from(10), from(11), from(12), from(13)});
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  ASSERT_EQ(bound({value(true), value(65), value(-128), value(255), value(-32768), value(65535),
                   value(std::int64_t{-2147483648}), value(std::int64_t{4294967295}), value(kMin),
                   value(kMax), value(kMin), value(kMax), value(0.5), value(-0.25)}),
            OPMUX_OK)
      << take_error();
  EXPECT_EQ(description(),
            "1 65 -128 255 -32768 65535 -2147483648 4294967295 -9223372036854775808 "
            "9223372036854775807 -9223372036854775808 9223372036854775807 0.500000 -0.250000");
}

TEST_F(DirectCall, RefusesAnIntegerOutOfRangeBeforeLaunch) {
  struct Case {
    const char* type;
    std::int64_t given;
    const char* range;
  };
  for (const Case& given :
       {Case{"signed char", 128, "-128 to 127"}, Case{"unsigned char", -1, "0 to 255"},
        Case{"short", -32769, "-32768 to 32767"}, Case{"unsigned short", 65536, "0 to 65535"},
        Case{"int", std::int64_t{1} << 31, "-2147483648 to 2147483647"},
        Case{"unsigned int", -1, "0 to 4294967295"},
        Case{"unsigned long", -1, "0 to 18446744073709551615"},
        Case{"unsigned long long", -1, "0 to 18446744073709551615"}}) {
    const Bound bound("f(int count) -> ()", "f(" + std::string(given.type) + ")", {from(0)});
    EXPECT_EQ(bound({value(given.given)}), OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error(), "f: argument 0 `count`: expected an int from " +
                                std::string(given.range) + ", found " +
                                std::to_string(given.given) + " (for parameter 0 `" + given.type +
                                "`)");
  }
}

TEST_F(DirectCall, PassesOptionalScalarsByValueAndReference) {
  const Bound bound("f(bool? a, int? b, int? c, float? d) -> ()", "example::describe_optionals",
                    {from(0), from(1), from(2), from(3), from(0), from(1), from(2), from(3)});
  ASSERT_EQ(bound({value(true), value(-2), value(std::int64_t{1} << 40), value(0.5)}), OPMUX_OK)
      << take_error();
  EXPECT_EQ(description(), "true -2 1099511627776 0.500000 true -2 1099511627776 0.500000");
  ASSERT_EQ(bound({none(), none(), none(), none()}), OPMUX_OK) << take_error();
  EXPECT_EQ(description(), "none none none none none none none none");
  EXPECT_EQ(bound({value(true), value(std::int64_t{1} << 40), value(1), value(0.5)}),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "example::describe_optionals: argument 1 `b`: expected an int from -2147483648 to "
            "2147483647 or None, found 1099511627776 (for parameter 1 `std::optional<int>`)");
}

TEST_F(DirectCall, PassesListsAndTextAgainAfterTheFunctionMovedThemAway) {
  const Bound bound("f(int[] a, str b) -> ()", "example::describe_lists",
                    {from(0), from(0), from(0), from(0), from(1), from(1)});
  const std::array<std::int64_t, 3> integers{1, -2, 3};
  const char* const text = "a text that is too long for a string to hold in place";
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_EQ(bound({value(OpmuxIntList{integers.data(), 3}), value(text)}), OPMUX_OK)
        << take_error();
    EXPECT_EQ(description(),
              "[1,-2,3,] [1,-2,3,] [1,-2,3,] [1,-2,3,] " + std::string(text) + " " + text);
  }
  ASSERT_EQ(bound({value(OpmuxIntList{nullptr, 0}), value("")}), OPMUX_OK) << take_error();
  EXPECT_EQ(description(), "[] [] [] []  ");
}

TEST_F(DirectCall, PassesConstantsThatOutliveTheRequest) {
  const auto bind = [] {
    const std::vector<std::int64_t> integers{4, 5};
    const OpmuxIntList list{integers.data(), integers.size()};
    const std::string text = "another text that is too long for a string to hold in place";
    const OpmuxCallSource a_list = constant(value(list));
    const OpmuxCallSource a_text = constant(value(text.c_str()));
    return Bound("f() -> ()", "example::describe_lists",
                 {a_list, a_list, a_list, a_list, a_text, a_text});
  };
  const Bound bound = bind();
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(bound({}), OPMUX_OK) << take_error();
    EXPECT_EQ(description(),
              "[4,5,] [4,5,] [4,5,] [4,5,] another text that is too long for a string to hold in "
              "place another text that is too long for a string to hold in place");
  }
}

TEST_F(DirectCall, DrawsValuesFromListsAndDimensions) {
  const Bound bound("f(int[] window, Tensor q, float? scale) -> ()", "example::describe_optionals",
                    {constant(none()), item(0, 0), item(0, 1), inverse_sqrt(2, 1, -1),
                     constant(value(false)), item(0, 1), constant(value(7)), constant(value(1))});
  std::array<float, 16> q{};
  const std::array<std::int64_t, 2> window{-1, 8};
  const TensorView view(q.data(), kF32, {1, 16});
  ASSERT_EQ(bound({value(OpmuxIntList{window.data(), 2}), value(view), none()}), OPMUX_OK)
      << take_error();
  EXPECT_EQ(description(), "none -1 8 0.250000 false 8 7 1.000000");
  EXPECT_EQ(bound({value(OpmuxIntList{window.data(), 1}), value(view), none()}),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "example::describe_optionals: argument 0 `window`: expected int[] of at least 2, found "
            "int[] of 1");
}

TEST_F(DirectCall, PassesTensorsInEveryFormAndForgetsWhatTheFunctionPutInTheirPlace) {
  const Bound bound("f(Tensor x, Tensor? y) -> ()", "example::describe_tensors",
                    {from(0), from(0), from(0), from(1), from(1), from(1), from(1), from(1),
                     from(1), constant(none())});
  ASSERT_EQ(bound.status(), OPMUX_OK) << bound.reason();
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(bound({value(x_), value(x_)}), OPMUX_OK) << take_error();
    EXPECT_EQ(description(),
              "10.000000 10.000000 10.000000 10.000000 10.000000 10.000000 10.000000 10.000000 "
              "10.000000 none");
    ASSERT_EQ(bound({value(x_), none()}), OPMUX_OK) << take_error();
    EXPECT_EQ(description(), "10.000000 10.000000 10.000000 none none none none none none none");
  }
  EXPECT_EQ(bound({none(), none()}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "example::describe_tensors: argument 0 `x`: expected a Tensor, found None");
}

TEST_F(DirectCall, PassesConstantNoneForOptionalTensors) {
  const OpmuxCallSource nothing = constant(none());
  const Bound bound(
      "f(Tensor x) -> ()", "example::describe_tensors",
      {from(0), from(0), from(0), nothing, nothing, nothing, nothing, nothing, nothing, nothing});
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(bound({value(x_)}), OPMUX_OK) << take_error();
    EXPECT_EQ(description(), "10.000000 10.000000 10.000000 none none none none none none none");
  }
}

TEST_F(DirectCall, PassesMoreValuesThanThereAreRegisters) {
  const Bound bound("f(Tensor x, int[] list, Tensor(a!) y, Tensor(b!) z) -> ()",
                    "example::describe_crowd",
                    {constant(value(0)), constant(value(1)), constant(value(2)), constant(value(3)),
                     constant(value(4)), constant(value(0.5)), constant(value(1.5)),
                     constant(value(2.5)), constant(value(3.5)), constant(value(4.5)),
                     constant(value(5.5)), constant(value(6.5)), constant(value(7.5)), from(0),
                     from(1), constant(value(true)), constant(none()), constant(value(8.5))},
                    {.returns = "std::tuple<at::Tensor, at::Tensor>", .results = {2, 3}});
  ASSERT_EQ(bound.status(), OPMUX_OK) << bound.reason();
  const std::array<std::int64_t, 2> list{9, 10};
  std::array<float, 4> second{};
  ASSERT_EQ(bound({value(x_), value(OpmuxIntList{list.data(), 2}), value(y_),
                   value(TensorView(second.data(), kF32, {2, 2}))}),
            OPMUX_OK)
      << take_error();
  EXPECT_EQ(description(),
            "0 1 2 3 4 0.500000 1.500000 2.500000 3.500000 4.500000 5.500000 6.500000 7.500000 "
            "10.000000 [9,10,] true none 8.500000");
  EXPECT_THAT(out_, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(second, ElementsAre(3, 4, 5, 6));
}

TEST_F(DirectCall, CopiesATensorThatIsReturned) {
  const Bound bound("f(Tensor x, Tensor(a!)? y) -> ()", "example::doubled", {from(0)},
                    {.returns = "at::Tensor", .results = {1}});
  ASSERT_EQ(bound({value(x_), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(bound({value(x_), none()}), OPMUX_OK) << take_error();
  EXPECT_EQ(bound({value(x_), value(TensorView(out_.data(), kF32, {4}))}),
            OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(),
            "example::doubled: argument 1 `y`: result 0: expected Float[4], found Float[2, 2]");
}

TEST_F(DirectCall, LeavesAResultAloneThatAlreadyIsItsTarget) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()", "example::write_and_return",
                    {from(1), from(0)}, {.returns = "at::Tensor", .results = {1}});
  ASSERT_EQ(bound({value(x_), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(1, 2, 3, 4));
}

TEST_F(DirectCall, CopiesItemsOfAListThatIsReturned) {
  const Bound bound("f(Tensor x, Tensor(a!) sums) -> ()", "example::parts", {from(0)},
                    {.returns = "std::vector<at::Tensor>", .results = {-1, 1}});
  std::array<float, 2> sums{};
  ASSERT_EQ(bound({value(x_), value(TensorView(sums.data(), kF32, {2}))}), OPMUX_OK)
      << take_error();
  EXPECT_THAT(sums, ElementsAre(3, 7));
  const Bound first("f(Tensor x, Tensor(a!) next) -> ()", "example::parts", {from(0)},
                    {.returns = "std::vector<at::Tensor>", .results = {1}});
  ASSERT_EQ(first({value(x_), value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(2, 3, 4, 5));
  const Bound none_there("f(Tensor x, Tensor(a!) y) -> ()", "example::no_parts", {from(0)},
                         {.returns = "std::vector<at::Tensor>", .results = {1}});
  EXPECT_EQ(none_there({value(x_), value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(),
            "example::no_parts: argument 1 `y`: expected at least 1 items in the provider's list, "
            "found 0");
}

TEST_F(DirectCall, CopiesTheTensorsOfATupleInTheirOrder) {
  const char* schema = "f(Tensor x, Tensor(a!) first, Tensor(b!) last) -> ()";
  std::array<float, 4> last{};
  const TensorView z(last.data(), kF32, {2, 2});
  const Bound two(schema, "example::two", {from(0)},
                  {.returns = "std::tuple<at::Tensor, at::Tensor>", .results = {1, 2}});
  ASSERT_EQ(two({value(x_), value(y_), value(z)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(last, ElementsAre(3, 4, 5, 6));
  const Bound three(
      schema, "example::three", {from(0)},
      {.returns = "std::tuple<at::Tensor, at::Tensor, at::Tensor>", .results = {1, -1, 2}});
  ASSERT_EQ(three({value(x_), value(y_), value(z)}), OPMUX_OK) << take_error();
  EXPECT_THAT(last, ElementsAre(4, 5, 6, 7));
  const Bound four(schema, "example::four", {from(0)},
                   {.returns = "std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>",
                    .results = {-1, 1, -1, 2}});
  ASSERT_EQ(four({value(x_), value(y_), value(z)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(last, ElementsAre(5, 6, 7, 8));
}

TEST_F(DirectCall, ReportsAnUndefinedResultAsFailedAfterLaunch) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()", "example::undefined", {from(0)},
                    {.returns = "at::Tensor", .results = {1}});
  EXPECT_EQ(bound({value(x_), value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(), "example::undefined: result 0 is no tensor");
}

TEST_F(DirectCall, IgnoresScalarsThatAreReturned) {
  float expected = 1;
  for (const char* type : {"bool", "int", "long", "double", "float"}) {
    for (const std::vector<std::int32_t>& results :
         {std::vector<std::int32_t>{}, std::vector<std::int32_t>{-1}}) {
      out_.fill(0);
      const Bound bound = unary("fill_" + std::string(type), {.returns = type, .results = results});
      ASSERT_EQ(bound({value(y_)}), OPMUX_OK) << take_error() << bound.reason();
      EXPECT_THAT(out_, Each(expected));
    }
    ++expected;
  }
}

TEST_F(DirectCall, ReportsAWrittenArgumentThatWasReboundToOtherMemory) {
  for (const char* name :
       {"rebind", "rebind_to_nothing", "rebind_optional", "reset_optional", "replace_storage"}) {
    const Bound bound = unary(name);
    for (int repeat = 0; repeat < 2; ++repeat) {
      EXPECT_EQ(bound({value(y_)}), OPMUX_ERROR_AFTER_LAUNCH) << name;
      EXPECT_EQ(take_error(),
                "example::" + std::string(name) +
                    ": argument 0 `x`: the provider gave it other memory or another shape, so the "
                    "result is not in the caller's memory");
    }
  }
  EXPECT_THAT(out_, Each(0));
}

TEST_F(DirectCall, AllowsAReferenceToBeReboundWhereTheCallerLosesNothing) {
  ASSERT_EQ(unary("rebind_to_view")({value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, Each(6));
  ASSERT_EQ(unary("rebind_value")({value(y_)}), OPMUX_OK) << take_error();
  EXPECT_THAT(out_, Each(6));
  // An input that the operator does not write.
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()", "example::rebind_input", {from(1), from(0)});
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(bound({value(x_), value(y_)}), OPMUX_OK) << take_error();
    EXPECT_THAT(out_, ElementsAre(2, 3, 4, 5));
    EXPECT_THAT(input_, ElementsAre(1, 2, 3, 4));
  }
}

TEST_F(DirectCall, TurnsExceptionsIntoAStatusAndStaysUsable) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(unary("throw_before")({value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_EQ(take_error(), "example::throw_before: refused before anything was written");
    EXPECT_EQ(unary("throw_foreign")({value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_EQ(take_error(), "example::throw_foreign: an exception that is no std::exception");
    EXPECT_THAT(out_, Each(0));
  }
  const Bound bound = unary("throw_after", {.returns = "at::Tensor", .results = {-1}});
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(bound({value(y_)}), OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_EQ(take_error(), "example::throw_after: failed half way");
    EXPECT_THAT(out_, Each(7));
  }
}

TEST_F(DirectCall, NeverRedirectsATensorThatTheFunctionKept) {
  const auto kept = symbol<float (*)()>(example_functions(), "example_kept_value");
  const Bound bound = unary("keep");
  std::array<float, 2> first{1, 1};
  std::array<float, 2> second{2, 2};
  ASSERT_EQ(bound({value(TensorView(first.data(), kF32, {2}))}), OPMUX_OK) << take_error();
  EXPECT_EQ(kept(), 1);
  // The second call's kept tensor is another one; the first would show 2 had it been aimed again.
  const Bound rebind = unary("rebind_value");
  ASSERT_EQ(rebind({value(TensorView(second.data(), kF32, {2}))}), OPMUX_OK) << take_error();
  EXPECT_EQ(kept(), 1);
  ASSERT_EQ(bound({value(TensorView(second.data(), kF32, {2}))}), OPMUX_OK) << take_error();
  EXPECT_EQ(kept(), 2);
  const Bound forget("f() -> ()", "example::forget", {});
  EXPECT_EQ(forget({}), OPMUX_OK) << take_error();
  EXPECT_EQ(kept(), -1);
}

TEST_F(DirectCall, NamesTheArgumentThatIsOnAnotherDeviceOrOfAnotherType) {
  const Bound bound("silu_and_mul(Tensor input, Tensor(a!) out) -> ()", "silu_and_mul",
                    {from(1), from(0)});
  EXPECT_EQ(bound({value(TensorView(input_.data(), kF32, {4}, Device::cuda(1))), value(y_)}),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "silu_and_mul: argument 0 `input`: expected cpu, found cuda:1");
  EXPECT_EQ(bound({value(1.0), value(y_)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "silu_and_mul: argument 0 `input`: expected a Tensor, found float");
  EXPECT_EQ(bound({value(x_)}), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "silu_and_mul: expected 2 values on cpu, found 1 on cpu");
}

TEST_F(DirectCall, RunsInInferenceMode) {
  const Bound bound("f() -> ()", "example::record_modes", {});
  ASSERT_EQ(bound({}), OPMUX_OK) << take_error();
  EXPECT_EQ(description(), "inference no grad");
}

struct Nested {
  const Bound* bound;
  std::array<float, 2> input{30, 40};
  std::array<float, 2> out{};
  int depth = 0;
};

TEST_F(DirectCall, MayBeEnteredAgainFromTheFunction) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()", "example::call_back", {from(1), from(0)});
  Nested nested{&bound};
  const auto set_callback =
      symbol<void (*)(void (*)(void*), void*)>(example_functions(), "example_set_callback");
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
  EXPECT_EQ(bound({value(x_), value(y_)}), OPMUX_OK) << take_error();
  set_callback(nullptr, nullptr);
  EXPECT_EQ(nested.depth, 3);
  EXPECT_THAT(nested.out, ElementsAre(30, 40));
  EXPECT_THAT(out_, ElementsAre(1, 2, 3, 4));
}

TEST_F(DirectCall, MayBeMadeFromManyThreadsThroughOneBinding) {
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()", "example::doubled", {from(0)},
                    {.returns = "at::Tensor", .results = {1}});
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (std::size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&bound, &wrong, thread] {
      for (int repeat = 0; repeat < 1000; ++repeat) {
        const std::int64_t size = 1 + repeat % 5;
        std::vector<float> input(static_cast<std::size_t>(size), static_cast<float>(thread));
        std::vector<float> out(static_cast<std::size_t>(size), -1.0F);
        const OpmuxStatus status = bound({value(TensorView(input.data(), kF32, {size})),
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

TEST_F(DirectCall, RefusesCudaWhereTorchHasNoCudaPart) {
  const Bound bound = unary("record_stream", {.device_type = OPMUX_DEVICE_CUDA});
  const TensorView x(out_.data(), kF32, {4}, Device::cuda());
  const OpmuxDevice device{OPMUX_DEVICE_CUDA, 0};
  EXPECT_EQ(
      call_bound(bound.bound(), {value(x)}, OPMUX_CALL_OWNED_TENSORS, device, OPMUX_STREAM_NONE),
      OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "example::record_stream: expected a CUDA stream, found none; the default stream must "
            "be asked for by name");
  EXPECT_EQ(call_bound(bound.bound(), {value(x)}, OPMUX_CALL_OWNED_TENSORS, device,
                       OPMUX_STREAM_LEGACY_DEFAULT),
            OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(),
            "example::record_stream: no CUDA part of torch is mapped in this process");
}

}  // namespace
}  // namespace opmux::testing
