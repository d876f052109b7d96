// SPDX-License-Identifier: Apache-2.0
//
// The handshake, and what bind() refuses and how it says so.
#include <gmock/gmock.h>

#include "tests/direct_symbol/example_functions.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kNormOperator =
    "rms_norm(Tensor input, Tensor weight, float eps, Tensor(a!) out) -> ()";

Bound bind_norm(const std::vector<OpmuxCallSource>& sources, const BindOptions& options = {}) {
  return Bound(kNormOperator, "rms_norm", sources, options);
}

TEST(DirectSymbolModule, TellsItsName) {
  const OpmuxModule& module = direct_symbol_module();
  EXPECT_STREQ(module.name, "direct_symbol");
  EXPECT_THAT(module.build_identity, StartsWith("torch "));
  EXPECT_EQ(module.operator_count, 0U);
  EXPECT_EQ(module.start_listening, nullptr);
  EXPECT_NE(module.device_services, nullptr);
}

TEST(DirectSymbolBind, AcceptsAFunctionByItsExactName) {
  EXPECT_EQ(example_symbol("rms_norm"), "rms_norm(at::Tensor&, at::Tensor&, at::Tensor&, double)");
  const Bound bound = bind_norm({from(3), from(0), from(1), from(2)});
  EXPECT_EQ(bound.status(), OPMUX_OK) << bound.reason();
  EXPECT_EQ(bound.copies(), 0U);
}

TEST(DirectSymbolBind, RefusesAnotherContractAndAMappingLeftToTheModule) {
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DISPATCHER;
  OpmuxBound bound{};
  bound.struct_size = sizeof(bound);
  EXPECT_EQ(direct_symbol_module().bind(&request, &bound), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(), "the direct_symbol module binds the direct symbol contract only");
  EXPECT_EQ(bind_norm({}, {.flags = OPMUX_BIND_MODULE_MAPS}).reason(),
            "the direct_symbol module knows no provider's functions: the manifest must give "
            "`call`");
}

TEST(DirectSymbolBind, RefusesARequestWithoutASymbolOrAReturnType) {
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DIRECT_SYMBOL;
  request.device_type = OPMUX_DEVICE_CPU;
  request.operator_schema = "f(Tensor x) -> ()";
  OpmuxBound bound{};
  bound.struct_size = sizeof(bound);
  EXPECT_EQ(direct_symbol_module().bind(&request, &bound), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(), "a direct symbol binding needs the name and address of a function");
  const char* name = "f()";
  void* address = example_functions();
  request.symbol_count = 1;
  request.symbol_names = &name;
  request.symbols = &address;
  EXPECT_EQ(direct_symbol_module().bind(&request, &bound), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(),
            "the mapping does not say what the function returns, which its symbol does not tell");
}

TEST(DirectSymbolBind, RefusesADeviceThatIsNeitherCpuNorCuda) {
  EXPECT_EQ(bind_norm({from(3), from(0), from(1), from(2)}, {.device_type = 8}).reason(),
            "device type 8 is neither cpu nor cuda");
}

TEST(DirectSymbolBind, RefusesTypesThatItCannotPassByPositionAndName) {
  EXPECT_THAT(Bound("f(Tensor x) -> ()", "example::take_pointer", {from(0)}).reason(),
              StartsWith("parameter 0 `at::Tensor*`: supported are, by value or const&: "));
  EXPECT_THAT(Bound("f(float x) -> ()", "example::take_scalar", {from(0)}).reason(),
              StartsWith("parameter 0 `c10::Scalar const&`: supported are, "));
}

TEST(DirectSymbolBind, RefusesAReturnTypeThatItCannotTake) {
  EXPECT_THAT(bind_norm({from(3), from(0), from(1), from(2)}, {.returns = "at::Tensor&"}).reason(),
              StartsWith("returns `at::Tensor&`: supported are void, at::Tensor, "));
}

TEST(DirectSymbolBind, RefusesAMappingWithTooFewOrTooManyValues) {
  EXPECT_EQ(bind_norm({from(3), from(0), from(1)}).reason(),
            "the mapping gives 3 values for 4 parameters of rms_norm(at::Tensor&, at::Tensor&, "
            "at::Tensor&, double)");
  EXPECT_THAT(bind_norm({from(3), from(0), from(1), from(2), from(2)}).reason(),
              StartsWith("the mapping gives 5 values for 4 parameters of "));
}

struct Mismatch {
  const char* operator_type;
  const char* parameter;
  const char* reason;
};

void PrintTo(const Mismatch& mismatch, std::ostream* stream) {
  *stream << mismatch.operator_type << " for " << mismatch.parameter;
}

class DirectSymbolMismatch : public ::testing::TestWithParam<Mismatch> {};

TEST_P(DirectSymbolMismatch, IsNamed) {
  const Mismatch& given = GetParam();
  const Bound bound("f(" + std::string(given.operator_type) + " x) -> ()",
                    "f(" + std::string(given.parameter) + ")", {from(0)});
  EXPECT_EQ(bound.status(), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(bound.reason(), given.reason);
}

INSTANTIATE_TEST_SUITE_P(
    Types, DirectSymbolMismatch,
    ::testing::Values(
        Mismatch{"float", "at::Tensor&",
                 "parameter 0 `at::Tensor&`: expected Tensor, found float (`x` of the operator)"},
        Mismatch{"Tensor", "double",
                 "parameter 0 `double`: expected float, found Tensor (`x` of the operator)"},
        Mismatch{"bool", "long",
                 "parameter 0 `long`: expected int, found bool (`x` of the operator)"},
        Mismatch{"int", "bool",
                 "parameter 0 `bool`: expected bool, found int (`x` of the operator)"},
        Mismatch{"int", "float",
                 "parameter 0 `float`: expected float, found int (`x` of the operator)"},
        Mismatch{"float", "std::optional<long>",
                 "parameter 0 `std::optional<long>`: expected int?, found float (`x` of the "
                 "operator)"},
        Mismatch{"float[]", "c10::ArrayRef<long>",
                 "parameter 0 `c10::ArrayRef<long>`: expected int[], found float[] (`x` of the "
                 "operator)"},
        Mismatch{"int", "std::__cxx11::basic_string<char> const&",
                 "parameter 0 `std::__cxx11::basic_string<char> const&`: expected str, found int "
                 "(`x` of the operator)"},
        Mismatch{"Generator?", "std::optional<at::Generator>",
                 "parameter 0 `std::optional<at::Generator>`: expected the constant none, found "
                 "Generator? (`x` of the operator)"}));

TEST(DirectSymbolBind, RefusesConstantsThatDoNotSuit) {
  const auto refused = [](const std::string& parameter, OpmuxValue given) {
    return Bound("f(Tensor x) -> ()", "f(" + parameter + ")", {constant(given)}).reason();
  };
  EXPECT_EQ(refused("at::Tensor&", none()),
            "parameter 0 `at::Tensor&`: expected a Tensor argument, found None");
  EXPECT_EQ(refused("std::optional<at::Tensor>&", value(1)),
            "parameter 0 `std::optional<at::Tensor>&`: expected a Tensor or None, found int");
  EXPECT_EQ(refused("double", value("1")), "parameter 0 `double`: expected float, found str");
  EXPECT_EQ(refused("bool", value(1)), "parameter 0 `bool`: expected bool, found int");
  EXPECT_EQ(refused("long", none()), "parameter 0 `long`: expected int, found None");
  EXPECT_EQ(refused("std::optional<int>", value(1.5)),
            "parameter 0 `std::optional<int>`: expected int or None, found float");
  EXPECT_EQ(refused("unsigned char", value(256)),
            "parameter 0 `unsigned char`: expected an int from 0 to 255, found 256");
  EXPECT_EQ(refused("std::optional<at::Generator>", value(1)),
            "parameter 0 `std::optional<at::Generator>`: expected None, found int");
}

TEST(DirectSymbolBind, RefusesASourceThatIsNoArgument) {
  EXPECT_EQ(bind_norm({from(4), from(0), from(1), from(2)}).reason(),
            "parameter 0 `at::Tensor&`: source 4 of kind 0 is no argument of rms_norm");
}

TEST(DirectSymbolBind, RefusesTargetsThatTheResultDoesNotHave) {
  const char* schema = "f(Tensor x, Tensor(a!) y) -> ()";
  EXPECT_EQ(Bound(schema, "example::doubled", {from(0)}, {.returns = "at::Tensor"}).reason(),
            "expected a target for each of 1 results of `at::Tensor`, found 0");
  EXPECT_EQ(Bound(schema, "example::two", {from(0)},
                  {.returns = "std::tuple<at::Tensor, at::Tensor>", .results = {1}})
                .reason(),
            "expected a target for each of 2 results of `std::tuple<at::Tensor, at::Tensor>`, "
            "found 1");
  EXPECT_EQ(Bound(schema, "example::rebind", {from(1)}, {.results = {1}}).reason(),
            "expected a target for each of 0 results of `void`, found 1");
  EXPECT_EQ(
      Bound(schema, "example::fill_int", {from(1)}, {.returns = "int", .results = {1}}).reason(),
      "result 0: expected a Tensor and a Tensor argument to copy it to, found int and "
      "argument 1");
  EXPECT_EQ(Bound(schema, "example::doubled", {from(0)}, {.returns = "at::Tensor", .results = {0}})
                .reason(),
            "result 0: argument 0 `x` of the operator is not marked as written");
}

TEST(DirectSymbolBind, CountsTheCopiesThatACallMakes) {
  const char* schema = "f(Tensor x, Tensor(a!) y, Tensor(b!) z) -> ()";
  EXPECT_EQ(Bound(schema, "example::two", {from(0)},
                  {.returns = "std::tuple<at::Tensor, at::Tensor>", .results = {1, 2}})
                .copies(),
            2U);
  EXPECT_EQ(Bound(schema, "example::parts", {from(0)},
                  {.returns = "std::vector<at::Tensor>", .results = {-1, 2}})
                .copies(),
            1U);
  // The function is handed the tensor: it writes it in place.
  EXPECT_EQ(Bound(schema, "example::write_and_return", {from(1), from(0)},
                  {.returns = "at::Tensor", .results = {1}})
                .copies(),
            0U);
}

}  // namespace
}  // namespace opmux::testing
