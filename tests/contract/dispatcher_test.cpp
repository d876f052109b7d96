// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/fixtures.hpp"

namespace opmux {
namespace {

using testing::expect_accepted;
using testing::expect_rejection;

constexpr const char* kSchema = "_C::silu_and_mul(Tensor! result, Tensor input) -> ()";

DispatcherContract contract(const std::string& text, const std::string& key = "CUDA") {
  auto schema = schema::parse(text);
  EXPECT_TRUE(schema.ok());
  return {*schema, text, key};
}

Check check(const DispatcherContract& wanted, const std::vector<Registration>& all) {
  return check_dispatcher_contract(wanted, "/p/_C.so", all);
}

TEST(ContractDispatcher, SameMeaningIsAccepted) {
  // torch's own way to print an alias mark
  expect_accepted(check(
      contract(kSchema),
      {{"/p/_C.so", "_C::silu_and_mul(Tensor($0! -> ) result, Tensor input) -> ()", {"CUDA"}}}));
}

TEST(ContractDispatcher, EachDifferenceIsSaidInWords) {
  const std::string wanted = "_C::repack(Tensor q, Tensor perm, int bits=4, Tensor! out) -> Tensor";
  struct Case {
    const char* registered;
    const char* difference;  // the part that must be said
  };
  for (const Case& c : {
           Case{"_C::repack(Tensor q, SymInt perm, int bits=4, Tensor! out) -> Tensor",
                "`perm`: expected Tensor, found SymInt"},
           Case{"_C::repack(Tensor q, Tensor order, int bits=4, Tensor! out) -> Tensor", "order"},
           Case{"_C::repack(Tensor q, Tensor perm, int bits=8, Tensor! out) -> Tensor", "8"},
           Case{"_C::repack(Tensor q, Tensor perm, int bits=4, Tensor out) -> Tensor", "`out`"},
           Case{"_C::repack(Tensor q, Tensor perm, int bits=4, Tensor! out) -> ()", "return"},
       }) {
    const Check result = check(contract(wanted), {{"/p/_C.so", c.registered, {"CUDA"}}});
    ASSERT_TRUE(result.has_value()) << c.registered;
    EXPECT_EQ(result->rule, rules::kContractSchemaMismatch.id);
    EXPECT_EQ(result->subject, "/p/_C.so: _C::repack");
    EXPECT_EQ(result->expected, wanted);
    EXPECT_EQ(result->found, schema::to_string(*schema::parse(c.registered)));
    EXPECT_NE(result->hint.find(c.difference), std::string::npos) << result->hint;
    EXPECT_TRUE(result->hint.ends_with(rules::kContractSchemaMismatch.remedy)) << result->hint;
  }
}

TEST(ContractDispatcher, RegisteredElsewhereIsTheWrongLibrary) {
  expect_rejection(check(contract(kSchema), {{"/p/_moe_C.so", kSchema, {"CUDA"}},
                                             {"/p/_C.so", "_C::other() -> ()", {"CUDA"}}}),
                   rules::kContractWrongLibrary, "/p/_C.so: _C::silu_and_mul",
                   "_C::silu_and_mul registered by /p/_C.so", "registered by /p/_moe_C.so");
}

TEST(ContractDispatcher, MissingOperatorNamesTheNearest) {
  expect_rejection(
      check(contract(kSchema),
            {{"/p/_C.so", "_C::silu_and_mull(Tensor! result, Tensor input) -> ()", {"CUDA"}},
             {"/p/_C.so", "_C::rms_norm() -> ()", {"CUDA"}}}),
      rules::kContractOperatorMissing, "/p/_C.so: _C::silu_and_mul",
      "_C::silu_and_mul registered by /p/_C.so",
      "not among the library's operators; the nearest is _C::silu_and_mull (2 others)");
  expect_rejection(check(contract(kSchema), {{"/p/_C.so", "_C::x() -> ()", {"CUDA"}}}),
                   rules::kContractOperatorMissing, "/p/_C.so: _C::silu_and_mul",
                   "_C::silu_and_mul registered by /p/_C.so",
                   "not among the library's operators; it registers 1 other");
  expect_rejection(check(contract(kSchema), {}), rules::kContractOperatorMissing,
                   "/p/_C.so: _C::silu_and_mul", "_C::silu_and_mul registered by /p/_C.so",
                   "the library registers no operator");
}

TEST(ContractDispatcher, OverloadIsPartOfTheName) {
  const Check result = check(contract("_C::weak_ref.int(int x) -> ()"),
                             {{"/p/_C.so", "_C::weak_ref(int x) -> ()", {"CUDA"}}});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractOperatorMissing.id);
}

TEST(ContractDispatcher, DispatchKeyThatIsAbsentIsNamedWithThoseThatAreThere) {
  expect_rejection(check(contract(kSchema), {{"/p/_C.so", kSchema, {"CPU", "Meta"}}}),
                   rules::kContractDispatchKeyMissing, "/p/_C.so: _C::silu_and_mul",
                   "a kernel under CUDA", "kernels under CPU, Meta");
  expect_rejection(check(contract(kSchema), {{"/p/_C.so", kSchema, {}}}),
                   rules::kContractDispatchKeyMissing, "/p/_C.so: _C::silu_and_mul",
                   "a kernel under CUDA", "no kernel");
}

TEST(ContractDispatcher, CompositeKernelIsNoKernelOfADevice) {
  expect_rejection(
      check(contract(kSchema, "CPU"), {{"/p/_C.so", kSchema, {"CompositeImplicitAutograd"}}}),
      rules::kContractDispatchKeyMissing, "/p/_C.so: _C::silu_and_mul", "a kernel under CPU",
      "kernels under CompositeImplicitAutograd");
}

TEST(ContractDispatcher, KernelsOfOneLibraryCountTogether) {
  expect_accepted(
      check(contract(kSchema), {{"/p/_C.so", kSchema, {"CPU"}}, {"/p/_C.so", kSchema, {"CUDA"}}}));
}

TEST(ContractDispatcher, RegisteredTextThatCannotBeReadIsAMismatch) {
  const Check result = check(contract(kSchema),
                             {{"/p/_C.so", "_C::silu_and_mul(Tensor! result, \x1b[31m", {"CUDA"}}});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractSchemaMismatch.id);
  EXPECT_EQ(result->found, "_C::silu_and_mul(Tensor! result, \\x1b[31m");
  EXPECT_TRUE(result->hint.starts_with("The registered schema cannot be read: column "))
      << result->hint;
}

}  // namespace
}  // namespace opmux
