// SPDX-License-Identifier: Apache-2.0
#include "cli/example_inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <variant>
#include <vector>

namespace opmux::cli {
namespace {

OperatorDeclaration declaration() {
  constexpr const char* kText = R"yaml(
manifest: 1
declare:
  f:
    schema: "f(Tensor a, Tensor? b, int n, float x, bool flag, str word, int[] list, Tensor(w!) out) -> ()"
    summary: "for this test"
    dtypes: [float32, bfloat16]
    example:
      dims: {rows: 100, width: 4}
      a: {shape: [rows, 2 * width], dtype: $dtype, fill: normal, mean: 3.0, deviation: 0.5}
      b: none
      n: rows - 1
      x: 0.5
      flag: true
      word: auto
      list: [-1, 2]
      out: {shape: [rows], dtype: int64, fill: permutation}
)yaml";
  auto parsed = parse_manifest(kText, "test.yaml", {});
  if (auto* manifest = std::get_if<Manifest>(&parsed)) return manifest->declarations.at(0);
  throw std::runtime_error(to_string(std::get<std::vector<Rejection>>(parsed).at(0)));
}

TEST(ExampleInputs, HaveTheDeclaredForms) {
  const OperatorDeclaration declared = declaration();
  const auto call = make_example(declared, declared.example->dims, DType::kBFloat16, 1);
  ASSERT_TRUE(call.ok()) << to_string(call.rejection());
  const auto& a = std::get<HostTensor>(call->arguments[0]);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{100, 8}));
  EXPECT_EQ(a.dtype, DType::kBFloat16);
  EXPECT_TRUE(std::holds_alternative<NoneLiteral>(call->arguments[1]));
  EXPECT_EQ(std::get<std::int64_t>(call->arguments[2]), 99);
  EXPECT_EQ(std::get<double>(call->arguments[3]), 0.5);
  EXPECT_TRUE(std::get<bool>(call->arguments[4]));
  EXPECT_EQ(std::get<std::string>(call->arguments[5]), "auto");
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(call->arguments[6]),
            (std::vector<std::int64_t>{-1, 2}));
}

TEST(ExampleInputs, NormalHasItsMeanAndDeviation) {
  const OperatorDeclaration declared = declaration();
  const auto call = make_example(declared, declared.example->dims, DType::kFloat32, 1);
  ASSERT_TRUE(call.ok());
  const auto& a = std::get<HostTensor>(call->arguments[0]);
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < a.count(); ++i) {
    sum += a.at(i);
    squares += std::pow(a.at(i) - 3.0, 2.0);
  }
  const auto count = static_cast<double>(a.count());
  EXPECT_NEAR(sum / count, 3.0, 5.0 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.1);
}

TEST(ExampleInputs, PermutationHoldsEachNumberOnce) {
  const OperatorDeclaration declared = declaration();
  const auto call = make_example(declared, declared.example->dims, DType::kFloat32, 1);
  ASSERT_TRUE(call.ok());
  const auto& out = std::get<HostTensor>(call->arguments[7]);
  std::vector<double> values;
  for (std::size_t i = 0; i < out.count(); ++i) values.push_back(out.at(i));
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<double>(i));
}

TEST(ExampleInputs, SeedDecides) {
  const OperatorDeclaration declared = declaration();
  const auto bytes = [&](std::uint64_t seed) {
    return std::get<HostTensor>(
               make_example(declared, declared.example->dims, DType::kFloat32, seed)->arguments[0])
        .bytes;
  };
  EXPECT_EQ(bytes(1), bytes(1));
  EXPECT_NE(bytes(1), bytes(2));
}

TEST(ExampleInputs, TooLargeIsRefused) {
  const OperatorDeclaration declared = declaration();
  const auto call =
      make_example(declared, {{"rows", 2}, {"width", std::int64_t{1} << 40}}, DType::kFloat32, 1);
  ASSERT_FALSE(call.ok());
  EXPECT_EQ(call.rejection().rule, "manifest.example");
  EXPECT_EQ(call.rejection().subject, "argument `a`");
  EXPECT_EQ(call.rejection().expected, "tensors of 4 GiB in all at most");
}

}  // namespace
}  // namespace opmux::cli
