// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

using test::OneOperator;

constexpr const char* kSchema =
    "op(Tensor(a!) x, Tensor? w, float eps, int? n, str mode, int[] sizes, bool flag=False) -> ()";

template <class Signature>
Status check(const OneOperator& op) {
  return Operator<Signature>::check(op.op().state());
}

TEST(SignatureTest, AcceptsTheTypesOfTheSchema) {
  const OneOperator op(kSchema);
  using Whole =
      void(Tensor, OptionalTensor, double, std::optional<std::int64_t>, const char*, IntList, bool);
  EXPECT_TRUE(check<Whole>(op).ok());
  using WithoutDefault =
      void(Tensor, OptionalTensor, double, std::optional<std::int64_t>, const char*, IntList);
  EXPECT_TRUE(check<WithoutDefault>(op).ok());
  using AlwaysGiven = void(Tensor, Tensor, double, std::int64_t, const char*, IntList);
  EXPECT_TRUE(check<AlwaysGiven>(op).ok());
}

TEST(SignatureTest, NamesTheSchemaAndTheSignatureWhenTheyDiffer) {
  const OneOperator op(kSchema);
  using Wrong =
      void(Tensor, OptionalTensor, std::int64_t, std::optional<std::int64_t>, const char*, IntList);
  const Status status = check<Wrong>(op);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "registry.signature");
  EXPECT_EQ(status.rejection()->expected, std::string("a C++ signature for ") + kSchema);
  EXPECT_EQ(status.rejection()->found, "(Tensor, Tensor?, int, int?, str, int[])");
}

TEST(SignatureTest, RefusesTooFewAndTooManyArguments) {
  const OneOperator op(kSchema);
  EXPECT_FALSE(check<void(Tensor)>(op).ok());
  using TooMany = void(Tensor, OptionalTensor, double, std::optional<std::int64_t>, const char*,
                       IntList, bool, bool);
  EXPECT_FALSE(check<TooMany>(op).ok());
}

TEST(SignatureTest, RefusesAnOptionalWhereTheSchemaWantsAValue) {
  const OneOperator op("op(Tensor x) -> ()");
  EXPECT_FALSE(check<void(OptionalTensor)>(op).ok());
}

TEST(SignatureTest, RefusesDeclarationsThatACallCannotCarry) {
  for (const char* schema :
       {"op(Generator g) -> ()", "op(Tensor x) -> Tensor", "op(bool? b) -> ()"}) {
    std::vector<Rejection> rejections;
    const OperatorList declared = Registry::create().declare({test::declare(schema)}, rejections);
    ASSERT_EQ(rejections.size(), 1u) << schema;
    EXPECT_EQ(rejections[0].rule, "manifest.schema");
    EXPECT_EQ(declared, OperatorList{nullptr});
  }
}

}  // namespace
}  // namespace opmux
