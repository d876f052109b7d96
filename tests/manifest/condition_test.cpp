// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

// One operator that has an argument of every kind.
const std::vector<OperatorDeclaration>& declarations() {
  static const std::vector<OperatorDeclaration> read =
      accepted(
          "manifest: 1\ndeclare:\n  op:\n    schema: \"op(Tensor x, Tensor? y, int n, int? m, "
          "float f, bool flag, str kind, str? mode, int[] sizes, ScalarType t, Tensor(a!) out) -> "
          "()\"\n")
          .declarations;
  return read;
}

std::string text(const std::string& conditions) {
  return "manifest: 1\nprovider: p\nplugin: p\noperators:\n  op:\n    module: op\n    when: "
         "{device: cpu, " +
         conditions + "}\n";
}

std::vector<Condition> conditions(const std::string& written) {
  const Manifest manifest = accepted(text(written), declarations());
  if (manifest.operators.size() != 1) return {};
  return manifest.operators[0].alternatives.at(0).when;
}

Condition condition(const std::string& written) {
  std::vector<Condition> all = conditions(written);
  EXPECT_EQ(all.size(), 1U) << written;
  return all.empty() ? Condition{} : all[0];
}

struct KindCase {
  const char* written;
  ConditionKind kind;
  int argument;
  const char* text;
};

class Kind : public testing::TestWithParam<KindCase> {};

TEST_P(Kind, IsReadAndSaidInWords) {
  const Condition read = condition(GetParam().written);
  EXPECT_EQ(read.kind, GetParam().kind);
  EXPECT_EQ(read.argument, GetParam().argument);
  EXPECT_EQ(read.text, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Kind,
    testing::Values(
        KindCase{"x: empty", ConditionKind::kTensorEmpty, 0, "x: empty"},
        KindCase{"x: {row_alignment: 16}", ConditionKind::kRowAlignment, 0,
                 "x: rows at multiples of 16 bytes"},
        KindCase{"x: not_empty", ConditionKind::kTensorNotEmpty, 0, "x: not empty"},
        KindCase{"y: none", ConditionKind::kNone, 1, "y: not given"},
        KindCase{"y: given", ConditionKind::kGiven, 1, "y: given"},
        KindCase{"m: none", ConditionKind::kNone, 3, "m: not given"},
        KindCase{"mode: none", ConditionKind::kNone, 7, "mode: not given"},
        KindCase{"x: {dtype: float16}", ConditionKind::kDtype, 0, "x: dtype float16"},
        KindCase{"x: {dtype: [float16, bfloat16]}", ConditionKind::kDtype, 0,
                 "x: dtype one of float16, bfloat16"},
        KindCase{"out: {same_dtype: x}", ConditionKind::kSameDtype, 10, "out: same dtype as x"},
        KindCase{"x: {rank: 2}", ConditionKind::kRank, 0, "x: rank 2"},
        KindCase{"x: {rank: [2, 3]}", ConditionKind::kRank, 0, "x: rank one of 2, 3"},
        KindCase{"x: {contiguous: true}", ConditionKind::kContiguous, 0, "x: contiguous"},
        KindCase{"x: {last_dim_contiguous: true}", ConditionKind::kLastDimContiguous, 0,
                 "x: last dimension contiguous"},
        KindCase{"x: {dim: {-1: {multiple_of: 8}}}", ConditionKind::kDimMultipleOf, 0,
                 "x: dimension -1 a multiple of 8"},
        KindCase{"x: {dim: {0: {min: 1, max: 256}}}", ConditionKind::kDimRange, 0,
                 "x: dimension 0 from 1 to 256"},
        KindCase{"x: {dim: {0: {min: 1}}}", ConditionKind::kDimRange, 0,
                 "x: dimension 0 at least 1"},
        KindCase{"x: {dim: {1: {in: [64, 128]}}}", ConditionKind::kDimIn, 0,
                 "x: dimension 1 one of 64, 128"},
        KindCase{"n: 4", ConditionKind::kIntIn, 2, "n: 4"},
        KindCase{"n: [4, 8]", ConditionKind::kIntIn, 2, "n: one of 4, 8"},
        KindCase{"n: {max: -1}", ConditionKind::kIntRange, 2, "n: at most -1"},
        KindCase{"n: {multiple_of: 16}", ConditionKind::kIntMultipleOf, 2, "n: a multiple of 16"},
        KindCase{"f: 1.0", ConditionKind::kFloatIn, 4, "f: 1.0"},
        KindCase{"f: [1, 2.5]", ConditionKind::kFloatIn, 4, "f: one of 1, 2.5"},
        KindCase{"f: {min: 0, max: 1e-3}", ConditionKind::kFloatRange, 4, "f: from 0 to 1e-3"},
        KindCase{"flag: true", ConditionKind::kBoolIs, 5, "flag: true"},
        KindCase{"flag: [true, false]", ConditionKind::kBoolIs, 5, "flag: true or false"},
        KindCase{"kind: none", ConditionKind::kStringIn, 6, "kind: none"},
        KindCase{"kind: [auto, \"4\"]", ConditionKind::kStringIn, 6, "kind: one of auto, 4"},
        KindCase{"sizes: {size: 2}", ConditionKind::kListSize, 8, "sizes: size 2"}));

TEST(Condition, ValuesAreKept) {
  EXPECT_EQ(condition("x: {dtype: [float16, bfloat16]}").names,
            (std::vector<std::string>{"float16", "bfloat16"}));
  EXPECT_EQ(condition("out: {same_dtype: x}").other, 0);
  const Condition range = condition("x: {dim: {-2: {min: 1, max: 256}}}");
  EXPECT_EQ(range.dim, -2);
  EXPECT_EQ(range.low, 1);
  EXPECT_EQ(range.high, 256);
  const Condition multiple = condition("x: {dim: {-1: {multiple_of: 8}}}");
  EXPECT_EQ(multiple.dim, -1);
  EXPECT_EQ(multiple.integers, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(condition("n: [4, 8]").integers, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(condition("f: [1, 2.5]").reals, (std::vector<double>{1.0, 2.5}));
  const Condition reals = condition("f: {min: 0.5}");
  EXPECT_EQ(reals.real_low, 0.5);
  EXPECT_EQ(reals.real_high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(condition("flag: false").integers, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(condition("flag: [false, true]").integers, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(condition("kind: [auto, \"4\"]").names, (std::vector<std::string>{"auto", "4"}));
}

TEST(Condition, SeveralConditionsOfOneArgumentAllCount) {
  const std::vector<Condition> read = conditions(
      "x: {dtype: float32, rank: 2, contiguous: true, dim: {-1: {multiple_of: 8, max: "
      "256}, 0: {in: 1}}}");
  ASSERT_EQ(read.size(), 6U);
  EXPECT_EQ(conditions("n: {min: 1, max: 8, multiple_of: 2}").size(), 2U);
}

TEST(Condition, GivenStandsBeforeOtherConditionsOfAnOptionalArgument) {
  const std::vector<Condition> tensor = conditions("y: [given, {dtype: int32}]");
  ASSERT_EQ(tensor.size(), 2U);
  EXPECT_EQ(tensor[0].kind, ConditionKind::kGiven);
  EXPECT_EQ(tensor[1].kind, ConditionKind::kDtype);
  const std::vector<Condition> integer = conditions("m: [given, 4, 8]");
  ASSERT_EQ(integer.size(), 2U);
  EXPECT_EQ(integer[1].integers, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(conditions("m: [given, {min: 4}]").at(1).kind, ConditionKind::kIntRange);
}

struct FaultCase {
  const char* written;
  const char* rule;
  const char* expected;
  const char* found;
};

class ConditionFault : public testing::TestWithParam<FaultCase> {};

TEST_P(ConditionFault, IsNamed) {
  const Rejection rejection = refused_once(text(GetParam().written), declarations());
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject.substr(0, 9), "m.yaml:7:");
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ConditionFault,
    testing::Values(
        FaultCase{
            "z: empty", "manifest.reference",
            "device, compute_capability, any_of or an argument of `op`: x, y, n, m, f, flag, kind, "
            "mode, sizes, t, out",
            "`z`"},
        FaultCase{"x: none", "manifest.condition",
                  "argument `x` of type Tensor: a condition other than none and given, since it "
                  "is always given",
                  "`none`"},
        FaultCase{"x: emty", "manifest.condition",
                  "argument `x` of type Tensor: empty, not_empty, or a map of conditions",
                  "`emty`"},
        FaultCase{"x:", "manifest.condition",
                  "argument `x` of type Tensor: empty, not_empty, or a map of conditions",
                  "nothing (null)"},
        FaultCase{"x: {}", "manifest.condition",
                  "argument `x` of type Tensor: at least one of dtype, same_dtype, rank, "
                  "contiguous, last_dim_contiguous, row_alignment, dim",
                  "an empty map"},
        FaultCase{"x: {min: 1}", "manifest.condition",
                  "a condition for type Tensor: dtype, same_dtype, rank, contiguous, "
                  "last_dim_contiguous, row_alignment, dim",
                  "`min`, which tests another type"},
        FaultCase{"n: {dtype: int32}", "manifest.condition",
                  "a condition for type int: min, max, multiple_of",
                  "`dtype`, which tests another type"},
        FaultCase{"x: {dtyp: int32}", "yaml.unknown_key",
                  "a condition for type Tensor: dtype, same_dtype, rank, contiguous, "
                  "last_dim_contiguous, row_alignment, dim",
                  "`dtyp`"},
        FaultCase{"n: four", "manifest.condition",
                  "argument `n` of type int: an integer in decimal digits", "`four`"},
        FaultCase{"n: [4, 010]", "manifest.condition",
                  "argument `n` of type int: an integer in decimal digits", "`010`"},
        FaultCase{"n: []", "manifest.condition", "argument `n` of type int: at least one value",
                  "an empty list"},
        FaultCase{"n: {min: 5, max: 4}", "manifest.condition",
                  "argument `n` of type int: `min` not above `max`", "5 and 4"},
        FaultCase{"n: {multiple_of: 0}", "manifest.condition",
                  "argument `n` of type int: `multiple_of`: an integer of at least 1", "`0`"},
        FaultCase{"f: yes", "manifest.condition",
                  "argument `f` of type float: a number such as 1e-6", "`yes`"},
        FaultCase{"flag: 1", "manifest.condition",
                  "argument `flag` of type bool: true, false or [true, false]", "`1`"},
        FaultCase{"flag: [true, true]", "manifest.condition",
                  "argument `flag` of type bool: true, false or [true, false]", "a list"},
        FaultCase{"flag: [true]", "manifest.condition",
                  "argument `flag` of type bool: true, false or [true, false]", "a list"},
        FaultCase{"kind: {min: 1}", "manifest.condition",
                  "argument `kind` of type str: a text or a list of texts", "a map"},
        FaultCase{"sizes: [1, 2]", "manifest.condition",
                  "argument `sizes` of type int[]: a map with `size`", "a list"},
        FaultCase{"t: float32", "manifest.condition",
                  "argument `t` of type ScalarType: no condition, since none is known",
                  "`float32`"},
        FaultCase{"x: {contiguous: false}", "manifest.condition",
                  "argument `x` of type Tensor: `contiguous`: true", "`false`"},
        FaultCase{"x: {same_dtype: n}", "manifest.condition",
                  "argument `x` of type Tensor: `same_dtype`: an argument that is a tensor", "`n`"},
        FaultCase{"x: {rank: -1}", "manifest.condition",
                  "argument `x` of type Tensor: `rank`: values that are not negative", "-1"},
        FaultCase{"x: {dim: {last: {min: 1}}}", "manifest.condition",
                  "argument `x` of type Tensor: `dim`: a dimension's number, negative from the end",
                  "`last`"},
        FaultCase{"x: {dim: {0: 4}}", "manifest.condition",
                  "argument `x` of type Tensor: dimension 0: a map with multiple_of, min, max or "
                  "in",
                  "`4`"},
        FaultCase{"compute_capability: new", "yaml.wrong_form",
                  "`compute_capability`: a range as PEP 440 writes it, e.g. \">=2.11,!=2.12.0\" "
                  "or \"13.*\"",
                  "`new`: `new` is no version"}));

TEST(Condition, AnUnknownDeviceIsRefused) {
  const Rejection rejection = refused_once(
      "manifest: 1\nprovider: p\nplugin: p\noperators:\n  op: {module: op, when: {device: gpu}}\n",
      declarations());
  EXPECT_EQ(rejection.rule, "manifest.condition");
  EXPECT_EQ(rejection.expected, "`device`: cpu or cuda");
  EXPECT_EQ(rejection.found, "`gpu`");
}

}  // namespace
}  // namespace opmux
