// SPDX-License-Identifier: Apache-2.0
#include "core/registry/condition.hpp"

#include <gtest/gtest.h>

#include <array>

#include "opmux/operator.hpp"

namespace opmux {
namespace {

struct Case {
  const char* name;
  Condition condition;
  OpmuxValue good;
  OpmuxValue bad;
};

Condition make(ConditionKind kind) {
  Condition condition;
  condition.kind = kind;
  condition.argument = 0;
  return condition;
}

class ConditionTest : public ::testing::Test {
 protected:
  static void expect(const Condition& condition, const OpmuxValue& good, const OpmuxValue& bad) {
    const CompiledCondition compiled = compile_condition(condition);
    EXPECT_TRUE(holds(compiled, &good));
    EXPECT_FALSE(holds(compiled, &bad));
  }

  static inline std::array<float, 64> data_{};
  TensorView matrix_{data_.data(), DType::kFloat32, {4, 8}};
  TensorView vector_{data_.data(), DType::kBFloat16, {7}};
  TensorView empty_{nullptr, DType::kInt32, {0, 4}};
};

TEST_F(ConditionTest, EmptyAndNotEmpty) {
  expect(make(ConditionKind::kTensorEmpty), detail::tensor_value(empty_),
         detail::tensor_value(matrix_));
  expect(make(ConditionKind::kTensorNotEmpty), detail::tensor_value(matrix_),
         detail::tensor_value(empty_));
}

TEST_F(ConditionTest, NoneAndGiven) {
  expect(make(ConditionKind::kNone), detail::none_value(), detail::tensor_value(matrix_));
  expect(make(ConditionKind::kGiven), detail::tensor_value(matrix_), detail::none_value());
}

TEST_F(ConditionTest, DtypeIsOneOfTheNames) {
  Condition condition = make(ConditionKind::kDtype);
  condition.names = {"float16", "float32"};
  expect(condition, detail::tensor_value(matrix_), detail::tensor_value(vector_));
}

TEST_F(ConditionTest, SameDtypeComparesTwoArguments) {
  Condition condition = make(ConditionKind::kSameDtype);
  condition.other = 1;
  const CompiledCondition compiled = compile_condition(condition);
  const OpmuxValue same[] = {detail::tensor_value(matrix_), detail::tensor_value(matrix_)};
  const OpmuxValue other[] = {detail::tensor_value(matrix_), detail::tensor_value(vector_)};
  const OpmuxValue absent[] = {detail::tensor_value(matrix_), detail::none_value()};
  EXPECT_TRUE(holds(compiled, same));
  EXPECT_FALSE(holds(compiled, other));
  EXPECT_TRUE(holds(compiled, absent));
}

TEST_F(ConditionTest, RankAndDims) {
  Condition rank = make(ConditionKind::kRank);
  rank.integers = {2, 3};
  expect(rank, detail::tensor_value(matrix_), detail::tensor_value(vector_));

  Condition multiple = make(ConditionKind::kDimMultipleOf);
  multiple.dim = -1;
  multiple.integers = {8};
  expect(multiple, detail::tensor_value(matrix_), detail::tensor_value(vector_));

  Condition range = make(ConditionKind::kDimRange);
  range.dim = -1;
  range.low = 8;
  range.high = 8;
  expect(range, detail::tensor_value(matrix_), detail::tensor_value(vector_));

  Condition in = make(ConditionKind::kDimIn);
  in.dim = 0;
  in.integers = {4};
  expect(in, detail::tensor_value(matrix_), detail::tensor_value(vector_));

  Condition absent = make(ConditionKind::kDimIn);
  absent.dim = 1;
  absent.integers = {8};
  expect(absent, detail::tensor_value(matrix_), detail::tensor_value(vector_));
}

TEST_F(ConditionTest, Contiguity) {
  const std::int64_t shape[] = {4, 8};
  const std::int64_t row_strides[] = {16, 1};
  const std::int64_t column_strides[] = {1, 4};
  const TensorView rows(data_.data(), DType::kFloat32, shape, row_strides, 2);
  const TensorView columns(data_.data(), DType::kFloat32, shape, column_strides, 2);
  expect(make(ConditionKind::kContiguous), detail::tensor_value(matrix_),
         detail::tensor_value(rows));
  expect(make(ConditionKind::kLastDimContiguous), detail::tensor_value(rows),
         detail::tensor_value(columns));
}

TEST_F(ConditionTest, RowsBeginAtMultiplesOfSoManyBytes) {
  alignas(64) std::array<std::uint16_t, 64> memory{};
  Condition aligned = make(ConditionKind::kRowAlignment);
  aligned.integers = {16};
  const auto view = [&](std::size_t offset, std::int64_t pitch) {
    const std::int64_t shape[] = {2, 8};
    const std::int64_t strides[] = {pitch, 1};
    return TensorView(memory.data() + offset, DType::kFloat16, shape, strides, 2);
  };
  const TensorView good = view(8, 16);
  const TensorView moved = view(1, 16);
  const TensorView odd_pitch = view(0, 12);
  expect(aligned, detail::tensor_value(good), detail::tensor_value(moved));
  expect(aligned, detail::tensor_value(good), detail::tensor_value(odd_pitch));
  const OpmuxValue value = detail::tensor_value(odd_pitch);
  EXPECT_EQ(describe_value(compile_condition(aligned), &value),
            "float16 [2, 8] strided, rows at multiples of 8 bytes");
  // The distance to a second row that is not there does not matter.
  const std::int64_t shape[] = {1, 8};
  const std::int64_t strides[] = {3, 1};
  const TensorView one(memory.data(), DType::kFloat16, shape, strides, 2);
  const OpmuxValue single = detail::tensor_value(one);
  EXPECT_TRUE(holds(compile_condition(aligned), &single));
}

// torch gives an empty tensor of shape [3, 0] the strides 1, 1.
TEST_F(ConditionTest, ATensorWithoutElementsIsContiguousWhateverItsStrides) {
  const std::int64_t shape[] = {3, 0};
  const std::int64_t strides[] = {1, 1};
  const TensorView view(data_.data(), DType::kFloat32, shape, strides, 2);
  const OpmuxValue value = detail::tensor_value(view);
  EXPECT_TRUE(holds(compile_condition(make(ConditionKind::kContiguous)), &value));
}

TEST_F(ConditionTest, Integers) {
  Condition in = make(ConditionKind::kIntIn);
  in.integers = {4, 8};
  expect(in, detail::int_value(8), detail::int_value(2));
  Condition range = make(ConditionKind::kIntRange);
  range.low = 1;
  range.high = 16;
  expect(range, detail::int_value(16), detail::int_value(17));
  Condition multiple = make(ConditionKind::kIntMultipleOf);
  multiple.integers = {16};
  expect(multiple, detail::int_value(64), detail::int_value(65));
}

TEST_F(ConditionTest, FloatsBoolsStringsAndLists) {
  Condition in = make(ConditionKind::kFloatIn);
  in.reals = {1.0};
  expect(in, detail::float_value(1.0), detail::float_value(1.5));
  Condition range = make(ConditionKind::kFloatRange);
  range.real_low = 0.0;
  range.real_high = 1.0;
  expect(range, detail::float_value(0.5), detail::float_value(-0.5));

  Condition is = make(ConditionKind::kBoolIs);
  is.integers = {1};
  expect(is, detail::ArgumentTraits<bool>::pack(true), detail::ArgumentTraits<bool>::pack(false));

  Condition text = make(ConditionKind::kStringIn);
  text.names = {"auto", "fp8"};
  expect(text, detail::ArgumentTraits<const char*>::pack("fp8"),
         detail::ArgumentTraits<const char*>::pack("fp4"));

  Condition size = make(ConditionKind::kListSize);
  size.integers = {2};
  const std::vector<std::int64_t> two{1, 2};
  const std::vector<std::int64_t> three{1, 2, 3};
  const IntList good(two);
  const IntList bad(three);
  expect(size, detail::list_value(good), detail::list_value(bad));
}

TEST_F(ConditionTest, AnAbsentOptionalMeetsEveryConditionButGiven) {
  Condition range = make(ConditionKind::kIntRange);
  range.low = 1;
  range.high = 2;
  const OpmuxValue none = detail::none_value();
  EXPECT_TRUE(holds(compile_condition(range), &none));
}

TEST_F(ConditionTest, DescribesTheValueInWords) {
  const CompiledCondition condition = compile_condition(make(ConditionKind::kGiven));
  const OpmuxValue tensor = detail::tensor_value(matrix_);
  EXPECT_EQ(describe_value(condition, &tensor), "float32 [4, 8]");
  const OpmuxValue none = detail::none_value();
  EXPECT_EQ(describe_value(condition, &none), "none");
  const OpmuxValue epsilon = detail::float_value(1e-7);
  EXPECT_EQ(describe_value(condition, &epsilon), "1e-07");
}

}  // namespace
}  // namespace opmux
