// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "core/schema/schema.hpp"

namespace opmux::schema {
namespace {

std::string compared(const std::string& expected, const std::string& found) {
  const auto left = parse(expected);
  const auto right = parse(found);
  EXPECT_TRUE(left.ok()) << expected;
  EXPECT_TRUE(right.ok()) << found;
  return left.ok() && right.ok() ? difference(*left, *right) : "unparsed";
}

TEST(SchemaDifference, IsEmptyForEqualMeaning) {
  EXPECT_EQ(compared("_C::silu_and_mul(Tensor! result, Tensor input) -> ()",
                     "_C::silu_and_mul(Tensor($0! -> ) result, Tensor input) -> ()"),
            "");
  EXPECT_EQ(compared("f(Tensor! x) -> ()", "f(Tensor(a!) x) -> ()"), "");
  EXPECT_EQ(compared("f(Tensor(a!) x) -> Tensor(a!)", "f(Tensor(z!) x) -> Tensor(z!)"), "");
  EXPECT_EQ(compared("f(float e=1e-6) -> ()", "f(float e=0.000001) -> ()"), "");
  EXPECT_EQ(compared("f(float e=1) -> ()", "f(float e=1.0) -> ()"), "");
  EXPECT_EQ(compared("f(str s='auto') -> ()", "f(str s=\"auto\") -> ()"), "");
  EXPECT_EQ(compared("f(ScalarType t=float32) -> ()", "f(ScalarType t=6) -> ()"), "");
  EXPECT_EQ(compared("f(int[2] s=1) -> ()", "f(int[2] s=[1, 1]) -> ()"), "");
  EXPECT_EQ(compared("f(float x=nan) -> ()", "f(float x=nan) -> ()"), "");
  EXPECT_EQ(compared("f(int x) -> int", "f(int x) -> int _0"), "");
  EXPECT_EQ(compared("f(int x) -> int n", "f(int x) -> int"), "");
}

TEST(SchemaDifference, NamesTypes) {
  EXPECT_EQ(compared("f(int a, int b, Tensor perm) -> ()", "f(int a, int b, SymInt perm) -> ()"),
            "argument 3 `perm`: expected Tensor, found SymInt");
  EXPECT_EQ(compared("f(int n) -> ()", "f(SymInt n) -> ()"),
            "argument 1 `n`: expected int, found SymInt");
  EXPECT_EQ(compared("f(Tensor w) -> ()", "f(Tensor? w) -> ()"),
            "argument 1 `w`: expected Tensor, found Tensor?");
  EXPECT_EQ(compared("f((int, int)? g) -> ()", "f(int[]? g) -> ()"),
            "argument 1 `g`: expected (int, int)?, found int[]?");
  EXPECT_EQ(compared("f(int[2] s) -> ()", "f(int[] s) -> ()"),
            "argument 1 `s`: expected int[2], found int[]");
  EXPECT_EQ(compared("f(ScalarType t) -> ()", "f(int t) -> ()"),
            "argument 1 `t`: expected ScalarType, found int");
}

TEST(SchemaDifference, NamesArgumentNames) {
  EXPECT_EQ(compared("f(Tensor result) -> ()", "f(Tensor out) -> ()"),
            "argument 1 `result`: expected name `result`, found `out`");
}

TEST(SchemaDifference, NamesMissingAndSurplusArguments) {
  EXPECT_EQ(
      compared("_C::r(Tensor b_q_weight, Tensor perm, SymInt size_k, SymInt size_n) -> Tensor",
               "_C::r(Tensor b_q_weight, SymInt size_k, SymInt size_n) -> Tensor"),
      "expected 4 arguments, found 3; argument 2 `perm` is missing");
  EXPECT_EQ(
      compared("f(int a) -> ()", "f(int a, float scale, bool b) -> ()"),
      "expected 1 argument, found 3; argument 2 `scale` is surplus; argument 3 `b` is surplus");
  EXPECT_EQ(compared("f(int a, int b, int c) -> ()", "f(float a, int c) -> ()"),
            "expected 3 arguments, found 2; argument 1 `a`: expected int, found float; argument 2 "
            "`b` is missing");
  EXPECT_EQ(compared("f(Tensor q, Tensor s) -> ()", "f() -> ()"),
            "expected 2 arguments, found 0; argument 1 `q` is missing; argument 2 `s` is missing");
}

TEST(SchemaDifference, NamesDefaults) {
  EXPECT_EQ(compared("f(int o=0) -> ()", "f(int o=1) -> ()"),
            "argument 1 `o`: expected default 0, found default 1");
  EXPECT_EQ(compared("f(int o=0) -> ()", "f(int o) -> ()"),
            "argument 1 `o`: expected default 0, found no default");
  EXPECT_EQ(compared("f(Tensor? o) -> ()", "f(Tensor? o=None) -> ()"),
            "argument 1 `o`: expected no default, found default None");
  EXPECT_EQ(compared("f(bool o=False) -> ()", "f(bool o=True) -> ()"),
            "argument 1 `o`: expected default False, found default True");
  EXPECT_EQ(compared("f(str o='auto') -> ()", "f(str o='fp8') -> ()"),
            "argument 1 `o`: expected default \"auto\", found default \"fp8\"");
  EXPECT_EQ(compared("f(ScalarType t=float32) -> ()", "f(ScalarType t=5) -> ()"),
            "argument 1 `t`: expected default float32, found default 5");
  EXPECT_EQ(compared("f(int[2] s=[0, 1]) -> ()", "f(int[2] s=[0, 2]) -> ()"),
            "argument 1 `s`: expected default [0, 1], found default [0, 2]");
}

TEST(SchemaDifference, NamesMarks) {
  EXPECT_EQ(compared("f(Tensor(a!) out) -> ()", "f(Tensor out) -> ()"),
            "argument 1 `out`: expected written (!), found read-only");
  EXPECT_EQ(compared("f(Tensor(a) out) -> ()", "f(Tensor($0! -> ) out) -> ()"),
            "argument 1 `out`: expected read-only, found written (!)");
}

TEST(SchemaDifference, NamesKeywordOnlyArguments) {
  EXPECT_EQ(compared("f(int a, *, int b) -> ()", "f(int a, int b) -> ()"),
            "argument 2 `b`: expected keyword-only, found positional");
}

TEST(SchemaDifference, NamesReturns) {
  EXPECT_EQ(compared("f() -> Tensor", "f() -> int"), "return 1: expected Tensor, found int");
  EXPECT_EQ(compared("f() -> Tensor", "f() -> (Tensor, Tensor)"), "expected 1 return, found 2");
  EXPECT_EQ(compared("f() -> (int, int)", "f() -> ()"), "expected 2 returns, found 0");
  EXPECT_EQ(
      compared("f() -> (Tensor out, Tensor lse)", "f() -> (Tensor lse, Tensor out)"),
      "return 1 `out`: expected name `out`, found `lse`; return 2 `lse`: expected name `lse`, "
      "found `out`");
  EXPECT_EQ(compared("f(Tensor(a) x) -> Tensor(a)", "f(Tensor(a) x) -> Tensor"),
            "return 1: expected an alias of argument 1 `x`, found a new value");
  EXPECT_EQ(compared("f(Tensor(a) x, Tensor(b) y) -> Tensor(a)",
                     "f(Tensor(a) x, Tensor(b) y) -> Tensor(b)"),
            "return 1: expected an alias of argument 1 `x`, found an alias of argument 2 `y`");
  EXPECT_EQ(compared("f(Tensor x) -> Tensor", "f(Tensor(a -> *) x) -> Tensor(*)"),
            "return 1: expected a new value, found an alias of anything");
  EXPECT_EQ(compared("f(Tensor(a!) x) -> Tensor(a!)", "f(Tensor(a!) x) -> Tensor(a)"),
            "return 1: expected written (!), found read-only");
}

TEST(SchemaDifference, NamesTheOperatorAndVariadicForms) {
  EXPECT_EQ(compared("_C::f() -> ()", "_moe_C::f.out() -> ()"),
            "name: expected _C::f, found _moe_C::f.out");
  EXPECT_EQ(compared("f(...) -> ()", "f() -> ()"),
            "arguments: expected `...` at the end, found none");
  EXPECT_EQ(compared("f() -> ()", "f() -> ..."), "returns: expected no `...`, found `...`");
}

TEST(SchemaDifference, JoinsSeveral) {
  EXPECT_EQ(
      compared("_C::f(Tensor! out, int n=1) -> Tensor", "_C::f(Tensor out, float m=1) -> ()"),
      "argument 1 `out`: expected written (!), found read-only; argument 2 `n`: expected name "
      "`n`, found `m`; argument 2 `n`: expected int, found float; expected 1 return, found 0");
}

// Empty registrations of a CPU build must not pass as the operator of the same name.
TEST(SchemaDifference, RefusesAnEmptyRegistration) {
  EXPECT_EQ(
      compared("_C::q(Tensor! out, Tensor scale) -> ()", "_C::q() -> ()"),
      "expected 2 arguments, found 0; argument 1 `out` is missing; argument 2 `scale` is missing");
}

}  // namespace
}  // namespace opmux::schema
