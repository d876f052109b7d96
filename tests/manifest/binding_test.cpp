// SPDX-License-Identifier: Apache-2.0
//
// Contracts, call mapping and results of alternatives.
#include "opmux/plugin.h"
#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

const char* const kRepack =
    "{library: c, schema: \"_C::repack(Tensor w, Tensor perm, SymInt size, int bits, bool a) -> "
    "Tensor\", dispatch_key: CUDA, call: [weight, perm, size, num_bits, is_a_8bit], result: "
    "{copy_to: out}, when: {device: cuda, num_bits: [4, 8]}}";

TEST(Binding, ADispatcherAlternativeIsRead) {
  const Alternative alternative = accepted_alternative("repack", kRepack);
  EXPECT_EQ(alternative.libraries, (std::vector<std::string>{"c"}));
  EXPECT_STREQ(contract_name(alternative.contract), "dispatcher");
  const auto& contract = std::get<DispatcherContract>(alternative.contract);
  EXPECT_EQ(contract.dispatch_key, "CUDA");
  EXPECT_EQ(contract.schema.qualified_name(), "_C::repack");
  EXPECT_EQ(contract.schema_text,
            "_C::repack(Tensor w, Tensor perm, SymInt size, int bits, bool a) -> Tensor");
  ASSERT_EQ(alternative.call.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(std::get<int>(alternative.call[i].source), static_cast<int>(i));
  EXPECT_EQ(alternative.results, (std::vector<ResultTarget>{{5}}));
  EXPECT_EQ(alternative.device, "cuda");
  ASSERT_EQ(alternative.when.size(), 1U);
  EXPECT_EQ(alternative.when[0].text, "num_bits: one of 4, 8");
  EXPECT_EQ(to_string(alternative.location), "m.yaml:8:7");
}

TEST(Binding, TheDeviceFollowsFromTheDispatchKey) {
  EXPECT_EQ(accepted_alternative("silu_and_mul",
                                 "{library: c, schema: \"_C::f(Tensor! r, Tensor i) -> ()\", "
                                 "dispatch_key: CPU, call: [out, input]}")
                .device,
            "cpu");
  const Rejection rejection = refused_alternative(
      "silu_and_mul",
      "{library: c, schema: \"_C::f(Tensor! r, Tensor i) -> ()\", dispatch_key: "
      "CompositeExplicitAutograd, call: [out, input]}");
  EXPECT_EQ(rejection.rule, "yaml.missing_key");
  EXPECT_EQ(rejection.expected,
            "`when: {device: cpu}` or `when: {device: cuda}`, which nothing else tells");
}

// Field report C13: what a caller may demand is declared.
TEST(Binding, AnAlternativesPropertiesReplaceTheProviders) {
  const auto read = [](const std::string& of_provider, const std::string& of_alternative) {
    const Manifest manifest = accepted("manifest: 1\nprovider: p\nplugin: q\n" + of_provider +
                                           "operators:\n  silu_and_mul: {module: silu_and_mul, " +
                                           of_alternative + "when: {device: cpu}}\n",
                                       operators());
    return manifest.operators.at(0).alternatives.at(0).properties;
  };
  EXPECT_EQ(read("", ""), std::nullopt);
  EXPECT_EQ(read("properties: [deterministic, in_place]\n", ""),
            Properties{OPMUX_PROPERTY_DETERMINISTIC | OPMUX_PROPERTY_IN_PLACE});
  EXPECT_EQ(read("properties: [deterministic]\n", "properties: [graph_capture], "),
            Properties{OPMUX_PROPERTY_GRAPH_CAPTURE});
  EXPECT_EQ(read("properties: [deterministic]\n", "properties: [], "), Properties{0});
}

TEST(Binding, AMisspeltPropertyNamesTheNearest) {
  const Rejection rejection = refused_alternative(
      "silu_and_mul", "{module: silu_and_mul, properties: [determinstic], when: {device: cpu}}");
  EXPECT_EQ(rejection.rule, "yaml.wrong_form");
  EXPECT_EQ(rejection.expected,
            "`properties`: a property, one of deterministic, graph_capture, in_place");
  EXPECT_EQ(rejection.found, "`determinstic`");
  EXPECT_EQ(rejection.hint, "Did you mean `deterministic`?");
}

TEST(Binding, ADirectSymbolAlternativeIsRead) {
  const Alternative alternative = accepted_alternative(
      "silu_and_mul",
      "{library: c, required_symbols: [\"f::silu(at::Tensor&)\"], exact: true, returns: \" void "
      "\", call: [out, input, "
      "{value: 1}, {value: 0.5}, {value: none}, {value: [1, 2]}, {value: \"4\"}, {value: true}], "
      "result: [ignore], when: {device: cuda, compute_capability: \">=8.0\"}}");
  EXPECT_STREQ(contract_name(alternative.contract), "direct_symbol");
  const auto& contract = std::get<DirectSymbolContract>(alternative.contract);
  EXPECT_EQ(contract.required_symbols, (std::vector<std::string>{"f::silu(at::Tensor&)"}));
  EXPECT_TRUE(contract.exact);
  EXPECT_EQ(contract.returns, "void");
  EXPECT_FALSE(alternative.module_maps);
  EXPECT_EQ(alternative.compute_capability->text(), ">=8.0");
  ASSERT_EQ(alternative.call.size(), 8U);
  const auto literal = [&](std::size_t i) { return std::get<Literal>(alternative.call[i].source); };
  EXPECT_EQ(std::get<std::int64_t>(literal(2)), 1);
  EXPECT_EQ(std::get<double>(literal(3)), 0.5);
  EXPECT_TRUE(std::holds_alternative<NoneLiteral>(literal(4)));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(literal(5)), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(std::get<std::string>(literal(6)), "4");
  EXPECT_EQ(std::get<bool>(literal(7)), true);
  EXPECT_EQ(alternative.results, (std::vector<ResultTarget>{{}}));
}

TEST(Binding, WithoutCallTheModuleMapsWhatADirectSymbolTakes) {
  const Alternative alternative = accepted_alternative(
      "norm", "{library: c, required_symbols: [f(int), g], when: {device: cpu}}");
  const auto& contract = std::get<DirectSymbolContract>(alternative.contract);
  EXPECT_EQ(contract.required_symbols, (std::vector<std::string>{"f(int)", "g"}));
  EXPECT_FALSE(contract.exact);
  EXPECT_EQ(contract.returns, "");
  EXPECT_TRUE(alternative.module_maps);
  EXPECT_TRUE(alternative.call.empty());
  EXPECT_TRUE(alternative.results.empty());
}

TEST(Binding, AModuleAlternativeIsRead) {
  const Alternative alternative =
      accepted_alternative("silu_and_mul", "{module: silu, when: {device: cpu}}");
  EXPECT_STREQ(contract_name(alternative.contract), "module");
  EXPECT_EQ(std::get<ModuleContract>(alternative.contract).operator_name, "silu");
  EXPECT_TRUE(alternative.libraries.empty());
  EXPECT_TRUE(alternative.call.empty());
}

TEST(Binding, DefaultsOfTheProviderFillTheEndOfTheCall) {
  const Alternative alternative = accepted_alternative(
      "silu_and_mul",
      "{library: c, schema: \"_C::f(Tensor! r, Tensor i, float s=2, int? n=None, int[2] k=[1, 2], "
      "str m='x', bool b=False) -> ()\", dispatch_key: CUDA, call: [out, input]}");
  ASSERT_EQ(alternative.call.size(), 7U);
  const auto literal = [&](std::size_t i) { return std::get<Literal>(alternative.call[i].source); };
  EXPECT_EQ(std::get<double>(literal(2)), 2.0);
  EXPECT_TRUE(std::holds_alternative<NoneLiteral>(literal(3)));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(literal(4)), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(std::get<std::string>(literal(5)), "x");
  EXPECT_EQ(std::get<bool>(literal(6)), false);
}

TEST(Binding, AnArgumentThatAReleaseCannotTakeIsACondition) {
  const Alternative alternative = accepted_alternative(
      "repack",
      "{library: c, schema: \"_C::repack(Tensor w, SymInt size, int bits, bool a) -> Tensor\", "
      "dispatch_key: CUDA, call: [weight, size, num_bits, is_a_8bit], result: {copy_to: out}, "
      "when: {perm: empty}}");
  EXPECT_EQ(alternative.call.size(), 4U);
}

TEST(Binding, AnOptionalTensorFitsWhereGivenIsACondition) {
  const std::string mapped =
      "{library: c, schema: \"_C::norm(Tensor! input, Tensor weight, float epsilon, str kind, "
      "SymInt[] window) -> ()\", dispatch_key: CPU, call: [input, weight, epsilon, kind, window], "
      "when: {groups: none, rest: none";
  EXPECT_EQ(accepted_alternative("norm", mapped + ", weight: given}}").call.size(), 5U);
  const Rejection rejection = refused_alternative("norm", mapped + "}}");
  EXPECT_EQ(rejection.rule, "manifest.mapping");
  EXPECT_EQ(rejection.expected, "argument 2 `weight` of `_C::norm`: Tensor, which is always given");
  EXPECT_EQ(rejection.found, "`weight` of type Tensor?");
  EXPECT_EQ(rejection.hint, "Add `when: {weight: given}`.");
}

struct FaultCase {
  const char* name;
  const char* alternative;
  const char* rule;
  const char* expected;
  const char* found;
};

class AlternativeFault : public testing::TestWithParam<FaultCase> {};

// Field reports F13 (unknown keys) and F15 (exactly one contract).
TEST_P(AlternativeFault, IsNamed) {
  const Rejection rejection = refused_alternative(GetParam().name, GetParam().alternative);
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject.substr(0, 9), "m.yaml:8:");
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

const char* const kContracts =
    "exactly one contract: required_symbols, schema with dispatch_key, or module";
const char* const kKeys =
    "one of CPU, CUDA, CompositeImplicitAutograd, CompositeExplicitAutograd, "
    "CompositeExplicitAutogradNonFunctional, Meta, HIP, XPU, MPS, HPU, PrivateUse1";
#define SILU_SCHEMA "schema: \"_C::f(Tensor! r, Tensor i) -> ()\""

INSTANTIATE_TEST_SUITE_P(
    Contract, AlternativeFault,
    testing::Values(
        FaultCase{"silu_and_mul", "{library: c, call: [out, input]}", "manifest.contract",
                  kContracts, "none"},
        FaultCase{"silu_and_mul",
                  "{library: c, required_symbols: [f], " SILU_SCHEMA
                  ", dispatch_key: CPU, call: [out, input]}",
                  "manifest.contract", kContracts, "required_symbols and schema and dispatch_key"},
        FaultCase{"silu_and_mul", "{library: c, " SILU_SCHEMA ", call: [out, input]}",
                  "manifest.contract", kContracts, "schema"},
        FaultCase{"silu_and_mul", "{library: c, dispatch_key: CPU, call: [out, input]}",
                  "manifest.contract", kContracts, "dispatch_key"},
        FaultCase{"silu_and_mul", "{module: f, required_symbols: [f], library: c}",
                  "manifest.contract", kContracts, "required_symbols and module"},
        FaultCase{"silu_and_mul", "{library: c, required_symbols: [], when: {device: cpu}}",
                  "yaml.wrong_form", "`required_symbols`: a text or a list of texts",
                  "an empty list"},
        FaultCase{"silu_and_mul", "{library: c, required_symbols: [_Z4silui], when: {device: cpu}}",
                  "manifest.contract", "demangled names of exported functions", "`_Z4silui`"},
        FaultCase{"silu_and_mul", "{library: c, required_symbols: \"\", when: {device: cpu}}",
                  "manifest.contract", "demangled names of exported functions", "an empty text"},
        FaultCase{"silu_and_mul", "{library: c, required_symbols: [f, f], when: {device: cpu}}",
                  "manifest.contract", "each symbol once", "`f` twice"},
        FaultCase{"silu_and_mul",
                  "{library: c, required_symbols: f, call: [out, input], when: {device: cpu}}",
                  "yaml.missing_key", "the key `returns` in an alternative of `silu_and_mul`",
                  "no such key"},
        FaultCase{"silu_and_mul",
                  "{library: c, required_symbols: f, returns: \" \", call: [out, input], when: "
                  "{device: cpu}}",
                  "manifest.contract", "`returns`: a C++ type, e.g. void or at::Tensor",
                  "an empty text"},
        FaultCase{"silu_and_mul",
                  "{library: c, required_symbols: f, returns: void, when: {device: cpu}}",
                  "manifest.contract", "`returns` beside `call` only",
                  "no `call`: the plugin module knows the functions"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA
                  ", dispatch_key: CPU, returns: void, call: [out, input]}",
                  "manifest.contract", "`returns` beside `required_symbols` only",
                  "`returns` beside schema and dispatch_key"},
        FaultCase{"silu_and_mul",
                  "{library: c, required_symbols: f, result: ignore, when: {device: cpu}}",
                  "manifest.mapping", "`result` beside `call` only",
                  "no `call`: the plugin module maps the arguments and results"},
        FaultCase{"silu_and_mul", "{module: f, exact: true, when: {device: cpu}}",
                  "manifest.contract", "`exact` beside `required_symbols` only",
                  "`exact` beside module"},
        FaultCase{"silu_and_mul", "{module: f, library: c, when: {device: cpu}}",
                  "manifest.contract",
                  "no `library` beside `module`: the module takes the operator's own arguments",
                  "`library`"},
        FaultCase{"silu_and_mul", "{module: f}", "yaml.missing_key",
                  "`when: {device: cpu}` or `when: {device: cuda}`, which nothing else tells",
                  "no `device`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: Cuda, call: [out, input]}",
                  "manifest.contract", kKeys, "`Cuda`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: \"CUDA \", call: [out, input]}",
                  "manifest.contract", kKeys, "`CUDA `"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: AutogradCUDA, call: [out, input]}",
                  "manifest.contract", kKeys, "`AutogradCUDA`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: GPU, call: [out, input]}",
                  "manifest.contract", kKeys, "`GPU`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: on, call: [out, input]}",
                  "manifest.contract", kKeys, "`on`"},
        FaultCase{"silu_and_mul",
                  "{library: c, schema: \"f(Tensor! r, Tensor i) -> ()\", dispatch_key: CPU, call: "
                  "[out, input]}",
                  "manifest.schema", "a schema with its namespace, e.g. `_C::f(...)`",
                  "`f(Tensor! r, Tensor i) -> ()`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA
                  ", dispatch_key: CUDA, call: [out, input], when: {device: cpu}}",
                  "manifest.condition", "the device of `dispatch_key`, cuda", "cpu"},
        FaultCase{"silu_and_mul", "{module: f, when: {device: cpu, compute_capability: \">=8.0\"}}",
                  "manifest.condition", "`compute_capability` with the device cuda", "device cpu"},
        FaultCase{"silu_and_mul",
                  "{library: d, " SILU_SCHEMA ", dispatch_key: CPU, call: [out, input]}",
                  "manifest.reference", "one of the libraries c", "`d`"},
        FaultCase{"silu_and_mul",
                  "{library: [c, c], " SILU_SCHEMA ", dispatch_key: CPU, call: [out, input]}",
                  "yaml.wrong_form", "`library`: each library once", "`c` twice"},
        FaultCase{"silu_and_mul", "{" SILU_SCHEMA ", dispatch_key: CPU, call: [out, input]}",
                  "yaml.missing_key", "the key `library` in an alternative of `silu_and_mul`",
                  "no such key"},
        FaultCase{"silu_and_mul", "{librery: c, module: f, when: {device: cpu}}",
                  "yaml.unknown_key",
                  "a key of an alternative of `silu_and_mul`: library, schema, dispatch_key, "
                  "required_symbols, exact, returns, module, call, result, properties, when",
                  "`librery`"},
        FaultCase{"silu_and_mul", "c", "yaml.wrong_form", "an alternative of `silu_and_mul`: a map",
                  "`c`"}));

#define REPACK_SCHEMA \
  "schema: \"_C::repack(Tensor w, Tensor perm, SymInt size, int bits, bool a) -> Tensor\""

INSTANTIATE_TEST_SUITE_P(
    Mapping, AlternativeFault,
    testing::Values(
        FaultCase{"silu_and_mul", "{library: c, " SILU_SCHEMA ", dispatch_key: CPU}",
                  "yaml.missing_key", "the key `call` beside `schema`", "no such key"},
        FaultCase{"silu_and_mul", "{library: c, " SILU_SCHEMA ", dispatch_key: CPU, call: [out]}",
                  "manifest.mapping", "a value for argument 2 `i` of `_C::f` of type Tensor",
                  "the end of `call`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: CPU, call: [out, input, input]}",
                  "manifest.mapping", "`call` with 2 values, as `_C::f` has arguments", "3 values"},
        FaultCase{
            "silu_and_mul", "{library: c, " SILU_SCHEMA ", dispatch_key: CPU, call: [out, inputs]}",
            "manifest.reference", "`call`: an argument of `silu_and_mul`: input, out", "`inputs`"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA ", dispatch_key: CPU, call: [input, input]}",
                  "manifest.mapping",
                  "an argument that the operator writes for argument 1 `r` of `_C::f`, which is "
                  "written",
                  "`input`, which the operator only reads"},
        FaultCase{"silu_and_mul",
                  "{library: c, schema: \"_C::f(Tensor i) -> ()\", dispatch_key: CPU, call: "
                  "[input]}",
                  "manifest.mapping",
                  "`out`, which the operator writes, in `call` or as target of `copy_to`",
                  "neither"},
        FaultCase{"silu_and_mul",
                  "{library: c, schema: \"_C::f(Tensor! r) -> ()\", dispatch_key: CPU, call: "
                  "[out], when: {input: {rank: 2}}}",
                  "manifest.mapping", "`input` in `call`, or a condition in `when` on its value",
                  "neither: the argument would be dropped in silence"},
        FaultCase{"silu_and_mul",
                  "{library: c, " SILU_SCHEMA
                  ", dispatch_key: CPU, call: [out, input], result: {copy_to: out}}",
                  "manifest.mapping", "`result` with 0 entries, as many as `_C::f` returns", "1"},
        FaultCase{"silu_and_mul",
                  "{library: c, schema: \"_C::f(Tensor! r, Tensor i, int n) -> ()\", dispatch_key: "
                  "CPU, call: [out, input, {value: \"4\"}]}",
                  "manifest.mapping",
                  "the constant for argument 3 `n` of `_C::f` of type int: an integer in decimal "
                  "digits",
                  "the quoted text `4`"},
        FaultCase{"silu_and_mul",
                  "{library: c, schema: \"_C::f(Tensor! r, Tensor i, ScalarType? t=float32) -> "
                  "()\", dispatch_key: CPU, call: [out, input]}",
                  "manifest.mapping",
                  "a value for argument 3 `t` of `_C::f`, whose default cannot be written as a "
                  "constant",
                  "the default float32"},
        FaultCase{"repack",
                  "{library: c, " REPACK_SCHEMA
                  ", dispatch_key: CUDA, call: [weight, perm, size, num_bits, is_a_8bit]}",
                  "manifest.mapping", "`result` with 1 entries, as many as `_C::repack` returns",
                  "none"},
        FaultCase{"repack",
                  "{library: c, " REPACK_SCHEMA
                  ", dispatch_key: CUDA, call: [weight, perm, size, is_a_8bit, is_a_8bit], result: "
                  "{copy_to: out}}",
                  "manifest.mapping", "argument 4 `bits` of `_C::repack`: int",
                  "`is_a_8bit` of type bool"},
        FaultCase{"repack",
                  "{library: c, " REPACK_SCHEMA
                  ", dispatch_key: CUDA, call: [weight, perm, size, {value: 4}, is_a_8bit], "
                  "result: {copy_to: out}}",
                  "manifest.mapping", "`num_bits` in `call`, or a condition in `when` on its value",
                  "neither: the argument would be dropped in silence"},
        FaultCase{"repack",
                  "{library: c, " REPACK_SCHEMA
                  ", dispatch_key: CUDA, call: [weight, perm, size, num_bits, is_a_8bit], result: "
                  "{copy_to: weight}}",
                  "manifest.mapping", "`copy_to`: a tensor that the operator writes",
                  "`weight` of type Tensor, which it only reads"},
        FaultCase{"repack",
                  "{library: c, " REPACK_SCHEMA
                  ", dispatch_key: CUDA, call: [weight, perm, size, num_bits, is_a_8bit], result: "
                  "ignore}",
                  "manifest.mapping",
                  "`out`, which the operator writes, in `call` or as target of `copy_to`",
                  "neither"},
        FaultCase{"repack",
                  "{library: c, schema: \"_C::r(Tensor w, Tensor p, int s, int n, bool b) -> "
                  "(Tensor, Tensor)\", dispatch_key: CUDA, call: [weight, perm, size, num_bits, "
                  "is_a_8bit], result: [{copy_to: out}, {copy_to: out}]}",
                  "manifest.mapping", "each result copied into another argument", "`out` twice"},
        FaultCase{"repack",
                  "{library: c, schema: \"_C::r(Tensor w, Tensor p, int s, int n, bool b) -> "
                  "int\", dispatch_key: CUDA, call: [weight, perm, size, num_bits, is_a_8bit], "
                  "result: {copy_to: out}}",
                  "manifest.mapping",
                  "ignore for result 1 of `_C::r`, since only a Tensor can be copied",
                  "copy_to for type int"},
        FaultCase{"repack",
                  "{library: c, " REPACK_SCHEMA
                  ", dispatch_key: CUDA, call: [weight, perm, size, num_bits, is_a_8bit], result: "
                  "out}",
                  "yaml.wrong_form", "`result`: {copy_to: ARGUMENT} or ignore", "`out`"}));

TEST(Binding, AWrongMarkOfTheProviderIsOverruledByName) {
  const std::string start =
      "{library: c, schema: \"_C::f(Tensor! r, Tensor! i) -> ()\", dispatch_key: CPU, call: [out, ";
  EXPECT_EQ(refused_alternative("silu_and_mul", start + "input]}").hint,
            "If the provider's mark is wrong, write {read_only: input}.");
  const Alternative alternative =
      accepted_alternative("silu_and_mul", start + "{read_only: input}]}");
  ASSERT_EQ(alternative.call.size(), 2U);
  EXPECT_EQ(std::get<int>(alternative.call[1].source), 0);
  EXPECT_EQ(refused_alternative("silu_and_mul", start + "{read_only: inpt}]}").rule,
            "manifest.reference");
}

TEST(Binding, AMarkOnANumberSaysNothing) {
  const Alternative alternative = accepted_alternative(
      "norm",
      "{library: c, schema: \"_C::norm(Tensor! input, int!? groups) -> ()\", dispatch_key: CPU, "
      "call: [input, groups], when: {weight: none, epsilon: 0, kind: a, window: {size: 0}, rest: "
      "none}}");
  EXPECT_EQ(alternative.call.size(), 2U);
}

TEST(Binding, AConstantWithoutItsMapIsExplained) {
  EXPECT_EQ(refused_alternative("silu_and_mul",
                                "{library: c, schema: \"_C::f(Tensor! r, Tensor i, int n) -> "
                                "()\", dispatch_key: CPU, call: [out, input, 4]}")
                .hint,
            "Write a constant as {value: 4}.");
}

// Field report F13.
TEST(Binding, AMisspeltKeyNamesTheNearest) {
  const std::vector<Rejection> rejections =
      refused(binding("silu_and_mul",
                      "{library: c, " SILU_SCHEMA ", dispach_key: CUDA, call: [out, input]}"),
              operators());
  ASSERT_EQ(rejections.size(), 2U);
  EXPECT_EQ(rejections[0].rule, "yaml.unknown_key");
  EXPECT_EQ(rejections[0].hint, "Did you mean `dispatch_key`?");
  EXPECT_EQ(rejections[1].rule, "manifest.contract");
}

TEST(Binding, AProviderMayBindOperatorsThatItDeclares) {
  const Manifest manifest = accepted(
      "manifest: 1\nprovider: p\nplugin: p\ndeclare:\n  mine: {schema: \"mine(Tensor(a!) x) -> "
      "()\"}\noperators:\n  mine: {module: mine, when: {device: cpu}}\n");
  EXPECT_EQ(manifest.operators.at(0).operator_name, "mine");
  EXPECT_EQ(manifest.declarations.at(0).name, "mine");
}

}  // namespace
}  // namespace opmux
