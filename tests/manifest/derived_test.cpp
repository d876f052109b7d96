// SPDX-License-Identifier: Apache-2.0
//
// Values of `call` that are derived from arguments, and results of a list.
#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

// A direct symbol for `attend` that is called with `call` under `when`.
std::string attend(const std::string& call, const std::string& when) {
  return "{library: c, required_symbols: f, returns: void, call: [q, causal, out, " + call +
         "], when: {device: cpu, lse: none, " + when + "}}";
}

std::string attend_by_schema(const std::string& schema, const std::string& call,
                             const std::string& when) {
  return "{library: c, schema: \"_C::f(" + schema + "\", dispatch_key: CPU, call: [" + call +
         "], when: {lse: none, " + when + "}}";
}

TEST(ListItemSource, PassesTheItemsOfAList) {
  const Alternative alternative = accepted_alternative(
      "attend",
      attend("scale, {item: [window, 1]}, {item: [window, 0]}", "window: {size: 2}, sizes: none"));
  ASSERT_EQ(alternative.call.size(), 6U);
  const auto& second = std::get<ListItem>(alternative.call[4].source);
  EXPECT_EQ(second.argument, 2);
  EXPECT_EQ(second.index, 1);
  EXPECT_EQ(std::get<ListItem>(alternative.call[5].source).index, 0);
  EXPECT_EQ(alternative.call[5].argument(), 2);
}

TEST(ListItemSource, OfAListThatMayBeAbsentNeedsItGiven) {
  const std::string call = "scale, window, {item: [sizes, 0]}";
  EXPECT_EQ(accepted_alternative("attend", attend(call, "sizes: [given, {size: 1}]")).call.size(),
            6U);
  const Rejection rejection = refused_alternative("attend", attend(call, "sizes: {size: 1}"));
  EXPECT_EQ(rejection.rule, "manifest.mapping");
  EXPECT_EQ(rejection.expected, "a list that has item 0: a condition on its size");
}

TEST(ListItemSource, WithoutAConditionOnTheSizeSaysWhichToAdd) {
  const Rejection rejection =
      refused_alternative("attend", attend("scale, {item: [window, 1]}", "sizes: none"));
  EXPECT_EQ(rejection.rule, "manifest.mapping");
  EXPECT_EQ(rejection.expected, "a list that has item 1: a condition on its size");
  EXPECT_EQ(rejection.found, "none that says so");
  EXPECT_EQ(rejection.hint, "Add `when: {window: {size: 2}}`.");
}

TEST(DefaultSource, StandsForAnAbsentNumber) {
  const Alternative alternative = accepted_alternative(
      "attend",
      attend("window, {argument: scale, default: {inverse_sqrt: [q, -1]}}", "sizes: none"));
  ASSERT_EQ(alternative.call.size(), 5U);
  const auto& number = std::get<InverseSqrtDefault>(alternative.call[4].source);
  EXPECT_EQ(number.argument, 1);
  EXPECT_EQ(number.tensor, 0);
  EXPECT_EQ(number.dim, -1);
  EXPECT_EQ(alternative.call[4].argument(), 1) << "passed on, so not dropped";
}

TEST(DefaultSource, FitsAFloatOfASchemaThatIsAlwaysGiven) {
  const Alternative alternative = accepted_alternative(
      "attend", attend_by_schema("Tensor q, float s, int w, Tensor! o) -> ()",
                                 "q, {argument: scale, default: {inverse_sqrt: [q, 2]}}, {item: "
                                 "[window, 0]}, out",
                                 "window: {size: 1}, sizes: none, causal: false"));
  EXPECT_EQ(alternative.call.size(), 4U);
}

struct DerivedCase {
  const char* name;
  std::string alternative;
  const char* rule;
  const char* expected;
  const char* found;
};
void PrintTo(const DerivedCase& derived, std::ostream* out) { *out << derived.name; }

class DerivedFault : public testing::TestWithParam<DerivedCase> {};

TEST_P(DerivedFault, IsNamed) {
  const Rejection rejection = refused_alternative("attend", GetParam().alternative);
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject.substr(0, 9), "m.yaml:8:");
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

const char* const kTwo = "window: {size: 2}, sizes: none";
const char* const kAny = "sizes: none";

INSTANTIATE_TEST_SUITE_P(
    Table, DerivedFault,
    testing::Values(
        DerivedCase{"some_sizes_are_too_small",
                    attend("scale, {item: [window, 0]}, {item: [window, 1]}",
                           "window: {size: [1, 2]}, sizes: none"),
                    "manifest.mapping", "a list that has item 1: a condition on its size",
                    "none that says so"},
        DerivedCase{"index_out_of_range", attend("scale, window, {item: [window, 2]}", kTwo),
                    "manifest.mapping", "a list that has item 2: a condition on its size",
                    "none that says so"},
        DerivedCase{"negative_index", attend("scale, window, {item: [window, -1]}", kTwo),
                    "yaml.wrong_form",
                    "the index of `item`: an integer in decimal digits, without quotes, leading "
                    "zeros or exponent, from 0 to 1024",
                    "`-1`"},
        DerivedCase{"gap", attend("scale, {item: [window, 1]}", kTwo), "manifest.mapping",
                    "`window` in `call`, or a condition in `when` on its value",
                    "neither: the argument would be dropped in silence"},
        DerivedCase{"no_list", attend("scale, window, {item: [causal, 0]}", kAny),
                    "manifest.mapping", "`item`: an argument that is a list of integers",
                    "`causal` of type bool"},
        DerivedCase{"no_pair", attend("scale, {item: window}", kTwo), "yaml.wrong_form",
                    "`item`: [ARGUMENT, INDEX], e.g. [window_size, 0]", "`window`"},
        DerivedCase{"unknown_list", attend("scale, window, {item: [windows, 0]}", kTwo),
                    "manifest.reference",
                    "`item`: an argument of `attend`: q, scale, window, sizes, causal, out, lse",
                    "`windows`"},
        DerivedCase{"item_with_another_key",
                    attend("scale, window, {item: [window, 0], value: 1}", kTwo),
                    "yaml.unknown_key", "a key of an item of a list in `call`: item", "`value`"},
        DerivedCase{
            "item_for_a_tensor",
            attend_by_schema("Tensor q, Tensor w, Tensor! o) -> ()", "q, {item: [window, 0]}, out",
                             "window: {size: 1}, sizes: none, causal: false, scale: none"),
            "manifest.mapping", "argument 2 `w` of `_C::f`: Tensor",
            "an item of a list of integers"},
        DerivedCase{"no_default", attend("window, {argument: scale}", kAny), "yaml.missing_key",
                    "the key `default` in an argument in `call`", "no such key"},
        DerivedCase{
            "unknown_function", attend("window, {argument: scale, default: {sqrt: [q, -1]}}", kAny),
            "yaml.wrong_form",
            "`default`: {inverse_sqrt: [TENSOR, DIMENSION]}, 1 / sqrt of that size", "a map"},
        DerivedCase{"default_is_a_number", attend("window, {argument: scale, default: 0.5}", kAny),
                    "yaml.wrong_form",
                    "`default`: {inverse_sqrt: [TENSOR, DIMENSION]}, 1 / sqrt of that size",
                    "`0.5`"},
        DerivedCase{
            "no_dimension", attend("window, {argument: scale, default: {inverse_sqrt: [q]}}", kAny),
            "yaml.wrong_form", "`inverse_sqrt`: [TENSOR, DIMENSION], e.g. [q, -1]", "a list"},
        DerivedCase{"huge_dimension",
                    attend("window, {argument: scale, default: {inverse_sqrt: [q, 64]}}", kAny),
                    "yaml.wrong_form",
                    "the dimension of `inverse_sqrt`: an integer in decimal digits, without "
                    "quotes, leading zeros or exponent, from -64 to 63",
                    "`64`"},
        DerivedCase{
            "number_that_is_always_given",
            attend("scale, window, {argument: causal, default: {inverse_sqrt: [q, 0]}}", kAny),
            "manifest.mapping", "`argument`: a float that may be absent (`float?`)",
            "`causal` of type bool"},
        DerivedCase{"size_of_a_list",
                    attend("window, {argument: scale, default: {inverse_sqrt: [window, 0]}}", kAny),
                    "manifest.mapping", "`inverse_sqrt`: a Tensor that is always given",
                    "`window` of type int[]"},
        DerivedCase{"size_of_a_tensor_that_may_be_absent",
                    attend("window, {argument: scale, default: {inverse_sqrt: [lse, 0]}}", kAny),
                    "manifest.mapping", "`inverse_sqrt`: a Tensor that is always given",
                    "`lse` of type Tensor?"},
        DerivedCase{"float_for_an_int",
                    attend_by_schema("Tensor q, int s, Tensor! o) -> ()",
                                     "q, {argument: scale, default: {inverse_sqrt: [q, 0]}}, out",
                                     "window: {size: 0}, sizes: none, causal: false"),
                    "manifest.mapping", "argument 2 `s` of `_C::f`: int", "a float"}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- a provider that returns one list of tensors ----

std::string attend_list(const std::string& result) {
  return "{library: c, schema: \"_C::f(Tensor q, int[] window, bool causal) -> Tensor[]\", "
         "dispatch_key: CPU, call: [q, window, causal]" +
         result + ", when: {scale: none, sizes: none}}";
}

TEST(ListResult, GivesEachItemATarget) {
  EXPECT_EQ(accepted_alternative("attend",
                                 attend_list(", result: [{copy_to: out}, ignore, {copy_to: lse}]"))
                .results,
            (std::vector<ResultTarget>{{5}, {}, {6}}));
}

TEST(ListResult, MayHaveItsInfinityMadeNegative) {
  EXPECT_EQ(accepted_alternative("attend",
                                 attend_list(", result: [{copy_to: out}, {copy_to: lse, infinity: "
                                             "negative}]"))
                .results,
            (std::vector<ResultTarget>{{5, false}, {6, true}}));
  const Rejection rejection = refused_alternative(
      "attend", attend_list(", result: [{copy_to: out}, {copy_to: lse, infinity: positive}]"));
  EXPECT_EQ(rejection.rule, "yaml.wrong_form");
  EXPECT_EQ(rejection.expected,
            "`infinity: negative`: +inf of the provider is -inf of the operator");
}

TEST(ListResult, WithoutTargetsIsRefused) {
  const Rejection rejection = refused_alternative("attend", attend_list(""));
  EXPECT_EQ(rejection.rule, "manifest.mapping");
  EXPECT_EQ(rejection.expected,
            "`result` with an entry for each tensor of the list that `_C::f` returns");
  EXPECT_EQ(rejection.found, "none");
}

TEST(ListResult, OfNumbersCannotBeCopied) {
  const Rejection rejection = refused_alternative(
      "attend",
      "{library: c, schema: \"_C::f(Tensor q, int[] window, bool causal) -> int[]\", dispatch_key: "
      "CPU, call: [q, window, causal], result: {copy_to: out}, when: {scale: none, sizes: none, "
      "lse: none}}");
  EXPECT_EQ(rejection.rule, "manifest.mapping");
  EXPECT_EQ(rejection.expected,
            "ignore for result 1 of `_C::f`, since only a Tensor can be copied");
  EXPECT_EQ(rejection.found, "copy_to for type int[]");
}

}  // namespace
}  // namespace opmux
