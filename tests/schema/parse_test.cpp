// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/schema/schema.hpp"

namespace opmux::schema {
namespace {

Schema parsed(const std::string& text) {
  auto schema = parse(text);
  EXPECT_TRUE(schema.ok()) << text << ": " << to_string(schema.rejection());
  return schema.ok() ? *schema : Schema{};
}

std::string printed(const std::string& text) { return to_string(parsed(text)); }

void expect_refused(const std::string& text, const std::string& subject,
                    const std::string& expected, const std::string& found) {
  const auto schema = parse(text);
  ASSERT_FALSE(schema.ok()) << text.substr(0, 200);
  const Rejection& rejection = schema.rejection();
  EXPECT_EQ(rejection.rule, "manifest.schema");
  EXPECT_EQ(rejection.subject, subject);
  EXPECT_EQ(rejection.expected, expected);
  EXPECT_EQ(rejection.found, found);
  EXPECT_FALSE(rejection.hint.empty());
}

TEST(SchemaParse, ReadsNamespaceNameAndOverload) {
  const Schema schema = parsed("flash::attn_with_kvcache.int(Tensor q) -> ()");
  EXPECT_EQ(schema.name_space, "flash");
  EXPECT_EQ(schema.name, "attn_with_kvcache");
  EXPECT_EQ(schema.overload, "int");
  EXPECT_EQ(schema.qualified_name(), "flash::attn_with_kvcache.int");
  EXPECT_EQ(parsed("silu(Tensor x) -> Tensor").qualified_name(), "silu");
}

TEST(SchemaParse, ReadsEveryFormOfAliasMark) {
  const Schema schema = parsed(
      "f(Tensor plain, Tensor(a) read, Tensor(a!) written, Tensor! bare, Tensor(a -> *) escapes, "
      "Tensor(a! -> a|b) moves, Tensor($0! -> ) printed, Tensor($1! -> )? printed_optional, "
      "int($2! -> )? number, Tensor(b!)? optional, Tensor(c!)[] list, Tensor(a|b) two) -> ()");
  ASSERT_EQ(schema.arguments.size(), 12u);
  EXPECT_FALSE(schema.arguments[0].alias.has_value());
  EXPECT_FALSE(is_written(schema.arguments[1]));
  EXPECT_EQ(schema.arguments[1].alias->labels, std::vector<std::string>{"a"});
  EXPECT_TRUE(is_written(schema.arguments[2]));
  EXPECT_TRUE(is_written(schema.arguments[3]));
  EXPECT_TRUE(schema.arguments[3].alias->labels.empty());
  EXPECT_FALSE(is_written(schema.arguments[4]));
  EXPECT_EQ(schema.arguments[4].alias->after, std::vector<std::string>{"*"});
  EXPECT_TRUE(is_written(schema.arguments[5]));
  EXPECT_EQ(schema.arguments[5].alias->after, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(is_written(schema.arguments[6]));
  EXPECT_TRUE(schema.arguments[6].alias->labels.empty());
  EXPECT_TRUE(is_written(schema.arguments[7]));
  EXPECT_TRUE(is_optional(schema.arguments[7].type));
  EXPECT_TRUE(is_tensor(schema.arguments[7].type));
  EXPECT_TRUE(is_written(schema.arguments[8]));
  EXPECT_EQ(to_string(schema.arguments[8].type), "int?");
  EXPECT_TRUE(is_written(schema.arguments[9]));
  EXPECT_TRUE(is_written(schema.arguments[10]));
  EXPECT_EQ(to_string(schema.arguments[10].type), "Tensor[]");
  EXPECT_FALSE(is_tensor(schema.arguments[10].type));
  EXPECT_EQ(schema.arguments[11].alias->labels, (std::vector<std::string>{"a", "b"}));
}

TEST(SchemaParse, ReadsEveryTypeForm) {
  const std::string text =
      "f(Tensor? a, Tensor[] b, Tensor?[] c, Tensor[]? d, int[2] e, int[2]? f, SymInt[] g, "
      "(int, int)? h, (Tensor, int[])[] i, Scalar j, ScalarType? k, Layout l, Device m, "
      "MemoryFormat n, Generator? o, Dimname[] p, Storage q, Stream r, Any s, str t, bool u, "
      "float v) -> ()";
  EXPECT_EQ(printed(text), text);
  EXPECT_EQ(parsed(text).arguments[4].type.list_size, 2);
  EXPECT_EQ(printed("f(number x) -> ()"), "f(Scalar x) -> ()");
}

TEST(SchemaParse, ReadsKeywordOnlyAndVariadicArguments) {
  const Schema schema = parsed("f(int a, *, int b, int c=1, ...) -> ...");
  EXPECT_FALSE(schema.arguments[0].keyword_only);
  EXPECT_TRUE(schema.arguments[1].keyword_only);
  EXPECT_TRUE(schema.arguments[2].keyword_only);
  EXPECT_TRUE(schema.is_variadic);
  EXPECT_TRUE(schema.has_variadic_returns);
  EXPECT_EQ(to_string(schema), "f(int a, *, int b, int c=1, ...) -> (...)");
  EXPECT_TRUE(parsed("f(...) -> ()").is_variadic);
}

TEST(SchemaParse, ReadsEveryFormOfDefault) {
  const Schema schema = parsed(
      "f(int a=0, int b=-1, float c=1e-6, float d=7., float e=-.5, float f=1.5E+3, Tensor? g=None, "
      "bool h=True, bool i=False, str j='auto', str k=\"a\\n\\\"\\x41\\101\", ScalarType "
      "l=float32, "
      "int[] m=[0, -1], float[] n=[], float o=inf, float p=-inf, float q=100000000000000000000) -> "
      "()");
  const auto value = [&](std::size_t i) { return schema.arguments[i].default_value->value; };
  EXPECT_EQ(std::get<std::int64_t>(value(0)), 0);
  EXPECT_EQ(std::get<std::int64_t>(value(1)), -1);
  EXPECT_EQ(std::get<double>(value(2)), 1e-6);
  EXPECT_EQ(std::get<double>(value(3)), 7.0);
  EXPECT_EQ(std::get<double>(value(4)), -0.5);
  EXPECT_EQ(std::get<double>(value(5)), 1500.0);
  EXPECT_TRUE(std::holds_alternative<NoneValue>(value(6)));
  EXPECT_TRUE(std::get<bool>(value(7)));
  EXPECT_FALSE(std::get<bool>(value(8)));
  EXPECT_EQ(std::get<std::string>(value(9)), "auto");
  EXPECT_EQ(std::get<std::string>(value(10)), "a\n\"AA");
  EXPECT_EQ(std::get<NamedValue>(value(11)).name, "float32");
  const auto list = std::get<DefaultList>(value(12));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(list[1].value), -1);
  EXPECT_TRUE(std::get<DefaultList>(value(13)).empty());
  EXPECT_TRUE(std::isinf(std::get<double>(value(14))));
  EXPECT_LT(std::get<double>(value(15)), 0.0);
  EXPECT_EQ(std::get<double>(value(16)), 1e20);
}

TEST(SchemaParse, ReadsEveryFormOfReturns) {
  EXPECT_TRUE(parsed("f() -> ()").returns.empty());
  EXPECT_EQ(parsed("f() -> Tensor").returns.size(), 1u);
  EXPECT_EQ(parsed("f() -> (Tensor)").returns.size(), 1u);
  EXPECT_EQ(parsed("f() -> (Tensor, int)").returns.size(), 2u);
  const Schema named = parsed("f() -> (Tensor(a!) out, Tensor lse)");
  EXPECT_EQ(named.returns[0].name, "out");
  EXPECT_TRUE(is_written(named.returns[0]));
  EXPECT_EQ(named.returns[1].name, "lse");
  EXPECT_EQ(printed("f() -> ((int, int))"), "f() -> ((int, int))");
  EXPECT_EQ(printed("f() -> ((int, int)?)"), "f() -> ((int, int)?)");
}

TEST(SchemaParse, TakesBlanksAnywhereBetweenWords) {
  EXPECT_EQ(printed(" ns::f.o ( Tensor ( a ! ) ?  x = None ,int\t[ 2 ] y ,\n*, int z ) -> ( ) "),
            "ns::f.o(Tensor(a!)? x=None, int[2] y, *, int z) -> ()");
}

TEST(SchemaParse, NamesTheColumnWhatWasExpectedAndWhatStandsThere) {
  expect_refused("", "column 1", "an operator's name", "the end");
  expect_refused("ns::(Tensor x) -> ()", "column 5", "an operator's name after `::`", "`(`");
  expect_refused("f.(Tensor x) -> ()", "column 3", "an overload's name after `.`", "`(`");
  expect_refused("f", "column 2", "`(`", "the end");
  expect_refused("f(Tensr x) -> ()", "column 3", "a type", "`Tensr`");
  expect_refused("f(Tensor) -> ()", "column 9", "an argument's name", "`)`");
  expect_refused("f(Tensor x Tensor y) -> ()", "column 12", "`,` or `)`", "`Tensor`");
  expect_refused("f(Tensor x)", "column 12", "`->`", "the end");
  expect_refused("f(Tensor x) -> () x", "column 19", "the end of the schema", "`x`");
  expect_refused("f(Tensor x,) -> ()", "column 12", "a type", "`)`");
  expect_refused("f(Tensor(a! x) -> ()", "column 13", "`)` of an alias mark", "`x`");
  expect_refused("f(Tensor() x) -> ()", "column 10", "an alias label", "`)`");
  expect_refused("f(Tensor($a!) x) -> ()", "column 11", "a number after `$`", "`a`");
  expect_refused("f(int[2 x) -> ()", "column 9", "`]`", "`x`");
  expect_refused("f(Tensor?? x) -> ()", "column 10", "an argument's name", "`?`");
  expect_refused("f((int, int x) -> ()", "column 13", "`,` or `)` in a tuple", "`x`");
  expect_refused("f(int x=) -> ()", "column 9", "a default value", "`)`");
  expect_refused("f(int x=1.2.3) -> ()", "column 9", "a number", "`1.2.3`");
  expect_refused("f(int x=-) -> ()", "column 9", "a number", "`-`");
  expect_refused("f(int[] x=[1) -> ()", "column 13", "`,` or `]` in a list", "`)`");
  expect_refused("f(int a, *, *, int b) -> ()", "column 13", "a type", "`*`");
  expect_refused("f(..., int a) -> ()", "column 6", "`)` after `...`", "`,`");
  expect_refused("f() -> (Tensor", "column 15", "`,` or `)`", "the end");
  expect_refused("f(\x01) -> ()", "column 3", "a type", "`\\x01`");
}

TEST(SchemaParse, RefusesStringsThatDoNotEnd) {
  expect_refused("f(str x='auto) -> ()", "column 9", "a string that ends", "no closing quote");
  expect_refused("f(str x=\"auto", "column 9", "a string that ends", "no closing quote");
  expect_refused("f(str x='a\\", "column 12", "an escape that Python knows", "the end");
  expect_refused("f(str x='a\\q') -> ()", "column 12", "an escape that Python knows", "`q`");
  expect_refused("f(str x='\\x4') -> ()", "column 12", "the code of a byte", "another");
  expect_refused("f(str x='\\777') -> ()", "column 11", "the code of a byte", "another");
}

TEST(SchemaParse, RefusesNumbersThatDoNotFit) {
  expect_refused("f(int x=9223372036854775808) -> ()", "column 9", "an integer of at most 64 bits",
                 "a larger one");
  EXPECT_EQ(printed("f(int x=-9223372036854775808) -> ()"), "f(int x=-9223372036854775808) -> ()");
  expect_refused("f(float x=1e999) -> ()", "column 11", "a number that a double holds",
                 "one out of its range");
  expect_refused("f(float x=" + std::string(5000, '9') + ") -> ()", "column 11",
                 "a number that a double holds", "one out of its range");
  expect_refused("f(int[99999999999999999999] x) -> ()", "column 7",
                 "a list size of at most 64 bits", "a larger one");
}

TEST(SchemaParse, RefusesHostileNestingAndLength) {
  expect_refused("f(" + std::string(10000, '(') + "int", "column 19",
                 "at most 16 levels of nesting", "`(`");
  std::string lists = "f(int";
  for (int i = 0; i < 10000; ++i) lists += "[]";
  expect_refused(lists + " x) -> ()", "column 37", "at most 16 levels of nesting", "`]`");
  expect_refused("f(int[] x=" + std::string(10000, '['), "column 27",
                 "at most 16 levels of nesting", "`[`");
  std::string many = "f(int a";
  for (int i = 0; i < 5000; ++i) many += ",int a";
  expect_refused(many + ") -> ()", "column 6147", "at most 1024 arguments", "`int`");
  expect_refused(std::string(70000, 'f'), "column 1", "at most 65536 bytes", "70000 bytes");
}

TEST(SchemaPrint, WritesStringsSoThatTheyReadBack) {
  const Schema schema = parsed("f(str x='it\\'s \\\\ \\x01\\xff\\t') -> ()");
  EXPECT_EQ(to_string(schema), "f(str x=\"it's \\\\ \\001\\377\\t\") -> ()");
  EXPECT_EQ(difference(schema, parsed(to_string(schema))), "");
}

TEST(SchemaPrint, WritesNumbersShortestAndRealsAsReals) {
  EXPECT_EQ(printed("f(float a=0.000001, float b=7.0, float c=1.702, float d=-inf) -> ()"),
            "f(float a=1e-06, float b=7., float c=1.702, float d=-inf) -> ()");
}

TEST(SchemaPrint, WritesTorchsPrintedMarkAsABareMark) {
  EXPECT_EQ(printed("_C::f(Tensor($0! -> ) out, Tensor($1! -> )? lse) -> Tensor"),
            "_C::f(Tensor! out, Tensor!? lse) -> Tensor");
  EXPECT_EQ(printed("f(Tensor(a! -> a|b) x, Tensor(a -> *) y) -> Tensor(a)"),
            "f(Tensor(a! -> a|b) x, Tensor(a -> *) y) -> Tensor(a)");
}

}  // namespace
}  // namespace opmux::schema
