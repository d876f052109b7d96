// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

std::string declare(const std::string& schema, const std::string& lines) {
  return "manifest: 1\ndeclare:\n  op:\n    schema: \"" + schema + "\"\n" + lines;
}

const char* const kSchema =
    "op(Tensor x, Tensor? y, int n, float eps, bool flag, str kind, int[] sizes, int m=3, float "
    "scale=1, Tensor(a!) out) -> ()";

std::string example(const std::string& out) {
  return declare(kSchema,
                 "    dtypes: [float16, float32]\n"
                 "    example:\n"
                 "      dims: {tokens: 16, hidden: 256}\n"
                 "      x: {shape: [tokens, 2*hidden], dtype: $dtype}\n"
                 "      y: none\n"
                 "      n: (tokens + 2) * hidden / 2\n"
                 "      eps: 1e-6\n"
                 "      flag: true\n"
                 "      kind: \"none\"\n"
                 "      sizes: [1, -1]\n"
                 "      out: " +
                     out + "\n");
}

TEST(Declaration, EveryKeyIsRead) {
  const Manifest manifest = accepted(
      "manifest: 1\ndeclare:\n  op.int:\n    schema: \"op.int(int x, Tensor(a!) out) -> ()\"\n"
      "    summary: what it does\n    dtypes: [bfloat16, float8_e4m3fn]\n"
      "    tolerance: {ulps: 3, absolute: 1e-5}\n");
  ASSERT_EQ(manifest.declarations.size(), 1U);
  const OperatorDeclaration& declaration = manifest.declarations[0];
  EXPECT_EQ(declaration.name, "op.int");
  EXPECT_EQ(declaration.schema.overload, "int");
  EXPECT_EQ(declaration.schema_text, "op.int(int x, Tensor(a!) out) -> ()");
  EXPECT_EQ(declaration.summary, "what it does");
  EXPECT_EQ(declaration.dtypes, (std::vector<std::string>{"bfloat16", "float8_e4m3fn"}));
  EXPECT_EQ(declaration.tolerance_ulps, 3.0);
  EXPECT_EQ(declaration.tolerance_absolute, 1e-5);
  EXPECT_FALSE(declaration.example);
  EXPECT_EQ(to_string(declaration.location), "m.yaml:3:3");
}

TEST(Declaration, AnExampleGivesEveryArgumentAValue) {
  const Manifest manifest =
      accepted(example("{shape: [], dtype: int32, fill: integers, low: 2, high: 2 * hidden}"));
  ASSERT_TRUE(manifest.declarations.at(0).example);
  const Example& read = *manifest.declarations[0].example;
  EXPECT_EQ(read.dims,
            (std::vector<std::pair<std::string, std::int64_t>>{{"tokens", 16}, {"hidden", 256}}));
  ASSERT_EQ(read.arguments.size(), 10U);
  const auto& x = std::get<ExampleTensor>(read.arguments[0]);
  EXPECT_EQ(x.shape, (std::vector<std::string>{"tokens", "2*hidden"}));
  EXPECT_EQ(x.dtype, "$dtype");
  EXPECT_EQ(x.fill, FillKind::kNormal);
  EXPECT_EQ(x.low, 0.0);
  EXPECT_EQ(x.high, 1.0);
  const auto literal = [&](std::size_t i) { return std::get<Literal>(read.arguments[i]); };
  EXPECT_TRUE(std::holds_alternative<NoneLiteral>(literal(1)));
  EXPECT_EQ(std::get<ExampleExpression>(read.arguments[2]).text, "(tokens + 2) * hidden / 2");
  EXPECT_EQ(std::get<double>(literal(3)), 1e-6);
  EXPECT_EQ(std::get<bool>(literal(4)), true);
  EXPECT_EQ(std::get<std::string>(literal(5)), "none");
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(literal(6)), (std::vector<std::int64_t>{1, -1}));
  EXPECT_EQ(std::get<std::int64_t>(literal(7)), 3);
  EXPECT_EQ(std::get<double>(literal(8)), 1.0) << "an integer as default of a float";
  const auto& out = std::get<ExampleTensor>(read.arguments[9]);
  EXPECT_TRUE(out.shape.empty());
  EXPECT_EQ(out.fill, FillKind::kIntegers);
  EXPECT_EQ(out.low, 2.0);
  EXPECT_EQ(out.high, 511.0);
  EXPECT_EQ(out.high_expression, "2 * hidden");
}

struct FillCase {
  const char* tensor;
  FillKind fill;
  double low;
  double high;
};

class Fill : public testing::TestWithParam<FillCase> {};

TEST_P(Fill, IsRead) {
  const Manifest manifest = accepted(example(GetParam().tensor));
  ASSERT_TRUE(manifest.declarations.at(0).example);
  const auto& out = std::get<ExampleTensor>(manifest.declarations[0].example->arguments.at(9));
  EXPECT_EQ(out.fill, GetParam().fill);
  EXPECT_EQ(out.low, GetParam().low);
  EXPECT_EQ(out.high, GetParam().high);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Fill,
    testing::Values(
        FillCase{"{shape: [2], dtype: $dtype, fill: zeros}", FillKind::kZeros, 0, 1},
        FillCase{"{shape: [2], dtype: bool, fill: ones}", FillKind::kOnes, 0, 1},
        FillCase{"{shape: [2], dtype: float32, mean: 2, deviation: 0.5}", FillKind::kNormal, 2,
                 0.5},
        FillCase{"{shape: [2], dtype: float32, fill: uniform, low: -1, high: 3}",
                 FillKind::kUniform, -1, 3},
        FillCase{"{shape: [2], dtype: int64, fill: permutation}", FillKind::kPermutation, 0, 1},
        FillCase{"{shape: [2], dtype: int64, fill: range}", FillKind::kRange, 0, 1},
        FillCase{"{shape: [2], dtype: uint8, fill: constant, value: 7}", FillKind::kConstant, 7, 1},
        FillCase{"{shape: [2], dtype: int32, fill: bits}", FillKind::kBits, 0, 1},
        FillCase{"{shape: [2], dtype: int32, fill: integers, high: 8}", FillKind::kIntegers, 0,
                 7}));

struct FaultCase {
  const char* tensor;
  const char* rule;
  const char* expected;
  const char* found;
};

class ExampleTensorFault : public testing::TestWithParam<FaultCase> {};

TEST_P(ExampleTensorFault, IsNamed) {
  const Rejection rejection = refused_once(example(GetParam().tensor));
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject.substr(0, 10), "m.yaml:15:");
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExampleTensorFault,
    testing::Values(
        FaultCase{"none", "manifest.example",
                  "argument `out` of type Tensor: a map with shape, dtype and fill", "`none`"},
        FaultCase{"{dtype: float32}", "yaml.missing_key", "the key `shape` in argument `out`",
                  "no such key"},
        FaultCase{"{shape: 4, dtype: float32}", "manifest.example",
                  "`shape`: a list of integers and expressions over the dims", "`4`"},
        FaultCase{"{shape: [token], dtype: float32}", "manifest.example",
                  "`shape`: one of the dims tokens, hidden in the expression `token`", "`token`"},
        FaultCase{"{shape: [tokens / 3], dtype: float32}", "manifest.example",
                  "`shape`: a division without remainder in the expression `tokens / 3`", "16 / 3"},
        FaultCase{"{shape: [1 - tokens], dtype: float32}", "manifest.example",
                  "`shape`: sizes that are not negative", "-15"},
        FaultCase{"{shape: [2], dtype: f16}", "yaml.wrong_form",
                  "`dtype`: one of float32, float16, bfloat16, float64, int8, int16, int32, int64, "
                  "uint8, bool, float8_e4m3fn, float8_e5m2, $dtype",
                  "`f16`"},
        FaultCase{"{shape: [2], dtype: int32}", "manifest.example",
                  "a `fill` that fits int32: zeros, ones, integers, permutation, range, constant "
                  "or bits",
                  "`normal`, the default"},
        FaultCase{"{shape: [2], dtype: float32, fill: gauss}", "manifest.example",
                  "`fill`: one of zeros, ones, normal, uniform, integers, permutation, range, "
                  "constant, bits",
                  "`gauss`"},
        FaultCase{"{shape: [2], dtype: float32, fill: zeros, low: 1}", "manifest.example",
                  "only keys that `fill: zeros` takes", "`low`"},
        FaultCase{"{shape: [2], dtype: float32, fill: constant}", "yaml.missing_key",
                  "the key `value` in argument `out`", "no such key"},
        FaultCase{"{shape: [2], dtype: int32, fill: integers, high: 0}", "manifest.example",
                  "`high`, which is exclusive, above `low`, 0", "0"},
        FaultCase{"{shape: [2], dtype: float32, fil: ones}", "yaml.unknown_key",
                  "a key of argument `out`: shape, dtype, fill, low, high, value, mean, deviation",
                  "`fil`"}));

TEST(Declaration, DtypeAliasesNameTheCanonicalName) {
  for (const auto& [alias, name] :
       std::vector<std::pair<std::string, std::string>>{{"f32", "float32"},
                                                        {"f16", "float16"},
                                                        {"bf16", "bfloat16"},
                                                        {"half", "float16"},
                                                        {"bfloat", "bfloat16"},
                                                        {"Float32", "float32"}}) {
    const Rejection rejection =
        refused_once(declare("op(Tensor x) -> ()", "    dtypes: [" + alias + "]\n"));
    EXPECT_EQ(rejection.rule, "yaml.wrong_form");
    EXPECT_EQ(rejection.hint, "Did you mean `" + name + "`?");
  }
}

TEST(Declaration, AnExampleWithoutAValueForAnArgumentIsRefused) {
  const Rejection rejection = refused_once(
      declare("op(Tensor x, int n) -> ()", "    example: {x: {shape: [1], dtype: float32}}\n"));
  EXPECT_EQ(rejection.rule, "manifest.example");
  EXPECT_EQ(rejection.subject, "m.yaml:5:14");
  EXPECT_EQ(rejection.expected, "a value for the argument `n` of type int");
}

TEST(Declaration, AnExampleOfAnUnknownArgumentNamesTheNearest) {
  const Rejection rejection =
      refused_once(declare("op(int hidden=1) -> ()", "    example: {hiden: 1}\n"));
  EXPECT_EQ(rejection.rule, "manifest.reference");
  EXPECT_EQ(rejection.found, "`hiden`");
  EXPECT_EQ(rejection.hint, "Did you mean `hidden`?");
}

TEST(Declaration, AWrongFormOfAnExampleValueIsNamed) {
  const Rejection rejection =
      refused_once(declare("op(bool flag) -> ()", "    example: {flag: yes}\n"));
  EXPECT_EQ(rejection.rule, "manifest.example");
  EXPECT_EQ(rejection.expected, "argument `flag` of type bool: true or false");
  EXPECT_EQ(rejection.found, "`yes`");
}

TEST(Declaration, DtypeVariableNeedsDtypes) {
  const Rejection rejection = refused_once(
      declare("op(Tensor x) -> ()", "    example: {x: {shape: [1], dtype: $dtype}}\n"));
  EXPECT_EQ(rejection.rule, "manifest.example");
  EXPECT_EQ(rejection.expected, "`dtypes` in the declaration, which $dtype stands for");
}

TEST(Declaration, AMalformedSchemaIsRefusedWithItsColumn) {
  const Rejection rejection = refused_once(declare("op(Tensor x, Tensr y) -> ()", ""));
  EXPECT_EQ(rejection.rule, "manifest.schema");
  EXPECT_EQ(rejection.subject, "m.yaml:4:13");
  EXPECT_EQ(rejection.expected.substr(0, 27), "at column 14 of the schema:");
}

struct SchemaCase {
  const char* schema;
  const char* expected;
  const char* found;
};

class SchemaFault : public testing::TestWithParam<SchemaCase> {};

TEST_P(SchemaFault, IsNamed) {
  const Rejection rejection = refused_once(declare(GetParam().schema, ""));
  EXPECT_EQ(rejection.rule, "manifest.schema");
  EXPECT_EQ(rejection.subject, "m.yaml:4:13");
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Table, SchemaFault,
    testing::Values(
        SchemaCase{"other(Tensor x) -> ()", "the schema of `op`, under which it is declared",
                   "a schema named `other`"},
        SchemaCase{"op.int(Tensor x) -> ()", "the schema of `op`, under which it is declared",
                   "a schema named `op.int`"},
        SchemaCase{"_C::op(Tensor x) -> ()", "an operator's name without a namespace",
                   "the namespace `_C`"},
        SchemaCase{"op(Tensor x) -> Tensor",
                   "`-> ()`: an operator writes its results into arguments", "1 returns"},
        SchemaCase{"op(Tensor x, int x) -> ()", "argument names that differ",
                   "the argument `x` twice"},
        SchemaCase{"op(Tensor x, int device) -> ()",
                   "argument names other than device, compute_capability, any_of and dims",
                   "the argument `device`"}));

TEST(Declaration, AMissingSchemaIsNamed) {
  const Rejection rejection = refused_once("manifest: 1\ndeclare:\n  op: {summary: x}\n");
  EXPECT_EQ(rejection.rule, "yaml.missing_key");
  EXPECT_EQ(rejection.expected, "the key `schema` in the declaration of `op`");
}

TEST(Declaration, ANegativeToleranceIsRefused) {
  const Rejection rejection =
      refused_once(declare("op(Tensor x) -> ()", "    tolerance: {ulps: -1}\n"));
  EXPECT_EQ(rejection.rule, "yaml.wrong_form");
  EXPECT_EQ(rejection.expected, "`ulps`: a number that is not negative");
}

TEST(Expression, IsEvaluatedOverTheDims) {
  const std::vector<std::pair<std::string, std::int64_t>> dims{{"m", 4}, {"hidden_size", 256}};
  for (const auto& [text, value] : std::vector<std::pair<std::string, std::int64_t>>{
           {"7", 7},
           {"m", 4},
           {" 2 * m + 1 ", 9},
           {"2*(m+1)", 10},
           {"hidden_size/m/2", 32},
           {"m-1-1", 2},
           {"-m*-2", 8},
           {"9223372036854775807", std::numeric_limits<std::int64_t>::max()}}) {
    const Result<std::int64_t> result = evaluate_expression(text, dims);
    ASSERT_TRUE(result.ok()) << to_string(result.rejection());
    EXPECT_EQ(*result, value) << text;
  }
}

TEST(Expression, FaultsAreNamed) {
  const std::vector<std::pair<std::string, std::int64_t>> dims{{"m", 4}, {"zero", 0}};
  for (const auto& [text, found] : std::vector<std::pair<std::string, std::string>>{
           {"", "the end"},
           {"m +", "the end"},
           {"(m", "the end"},
           {"m)", "`)`"},
           {"m n", "`n`"},
           {"n", "`n`"},
           {"m / 3", "4 / 3"},
           {"m / zero", "a division by zero"},
           {"9223372036854775807 + 1", "an overflow"},
           {"9223372036854775808", "an overflow"},
           {"(-9223372036854775807 - 1) / -1", "an overflow"},
           {"m % 2", "`% 2`"}}) {
    const Result<std::int64_t> result = evaluate_expression(text, dims);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.rejection().rule, "manifest.example");
    EXPECT_EQ(result.rejection().found, found) << text;
  }
  EXPECT_FALSE(evaluate_expression(std::string(200, '(') + "1" + std::string(200, ')'), {}).ok());
  EXPECT_FALSE(evaluate_expression(std::string(100, '-') + "1", {}).ok());
}

}  // namespace
}  // namespace opmux
