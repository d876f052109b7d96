// SPDX-License-Identifier: Apache-2.0
#include "plugins/direct_symbol/signature.hpp"

#include <gmock/gmock.h>

namespace opmux::direct_symbol {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Signature read(const std::string& text) {
  Signature signature;
  std::string why;
  EXPECT_TRUE(parse_signature(text, signature, why)) << why;
  return signature;
}

std::string refused(const std::string& text) {
  Signature signature;
  std::string why;
  EXPECT_FALSE(parse_signature(text, signature, why)) << to_string(signature);
  return why;
}

struct Written {
  const char* text;
  Parameter parameter;
};

void PrintTo(const Written& written, std::ostream* stream) { *stream << written.text; }

class ParameterType : public ::testing::TestWithParam<Written> {};

TEST_P(ParameterType, IsReadAndMeansTheSameAfterPrinting) {
  const Signature signature = read("f(" + std::string(GetParam().text) + ")");
  ASSERT_EQ(signature.parameters.size(), 1U);
  EXPECT_EQ(signature.parameters[0], GetParam().parameter);
  EXPECT_EQ(read(to_string(signature)), signature);
}

constexpr Passing kValue = Passing::kValue;
constexpr Passing kReference = Passing::kReference;
constexpr Passing kConst = Passing::kConstReference;

INSTANTIATE_TEST_SUITE_P(
    Types, ParameterType,
    ::testing::Values(
        Written{"at::Tensor", {ValueKind::kTensor, kValue}},
        Written{"at::Tensor&", {ValueKind::kTensor, kReference}},
        Written{"at::Tensor const&", {ValueKind::kTensor, kConst}},
        Written{"const at::Tensor &", {ValueKind::kTensor, kConst}},
        Written{"std::optional<at::Tensor>", {ValueKind::kOptionalTensor, kValue}},
        Written{"std::optional<at::Tensor>&", {ValueKind::kOptionalTensor, kReference}},
        Written{"std::optional<at::Tensor> const&", {ValueKind::kOptionalTensor, kConst}},
        Written{"std::optional<at::Tensor const>", {ValueKind::kOptionalConstTensor, kValue}},
        Written{"std::optional<at::Tensor const>&", {ValueKind::kOptionalConstTensor, kReference}},
        Written{"std::optional<const at::Tensor> const &",
                {ValueKind::kOptionalConstTensor, kConst}},
        Written{"bool", {ValueKind::kBool, kValue}}, Written{"char", {ValueKind::kChar, kValue}},
        Written{"signed char", {ValueKind::kSignedChar, kValue}},
        Written{"unsigned char", {ValueKind::kUnsignedChar, kValue}},
        Written{"short", {ValueKind::kShort, kValue}},
        Written{"unsigned short", {ValueKind::kUnsignedShort, kValue}},
        Written{"int", {ValueKind::kInt, kValue}},
        Written{"unsigned int", {ValueKind::kUnsignedInt, kValue}},
        Written{"long", {ValueKind::kLong, kValue}},
        Written{"unsigned long", {ValueKind::kUnsignedLong, kValue}},
        Written{"long long", {ValueKind::kLongLong, kValue}},
        Written{"unsigned  long  long", {ValueKind::kUnsignedLongLong, kValue}},
        Written{"float", {ValueKind::kFloat, kValue}},
        Written{"double", {ValueKind::kDouble, kValue}},
        Written{"double const&", {ValueKind::kDouble, kConst}},
        Written{"std::optional<bool>", {ValueKind::kOptionalBool, kValue}},
        Written{"std::optional<int>", {ValueKind::kOptionalInt, kValue}},
        Written{"std::optional<long> const&", {ValueKind::kOptionalLong, kConst}},
        Written{"std::optional< double >", {ValueKind::kOptionalDouble, kValue}},
        Written{"c10::ArrayRef<long>", {ValueKind::kLongArray, kValue}},
        Written{"std::vector<long, std::allocator<long> > const&",
                {ValueKind::kLongVector, kConst}},
        Written{"std::vector<long>", {ValueKind::kLongVector, kValue}},
        Written{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > "
                "const&",
                {ValueKind::kString, kConst}},
        Written{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
                {ValueKind::kString, kValue}},
        Written{"std::optional<at::Generator>", {ValueKind::kOptionalGenerator, kValue}}));

TEST(SymbolSignature, ReadsTheFunctionsOfOtherVendors) {
  const Signature norm = read("rms_norm(at::Tensor&, at::Tensor&, at::Tensor&, double)");
  EXPECT_EQ(norm.name, "rms_norm");
  EXPECT_EQ(norm.parameters.size(), 4U);
  EXPECT_EQ(norm.parameters[3], (Parameter{ValueKind::kDouble, kValue}));
  EXPECT_EQ(to_string(norm), "rms_norm(at::Tensor&, at::Tensor&, at::Tensor&, double)");
}

TEST(SymbolSignature, KeepsNamespacesAndTemplateArgumentsInTheName) {
  EXPECT_EQ(read("a::b::f(int)").name, "a::b::f");
  EXPECT_EQ(read("void f<(anonymous namespace)::g>(int)").name, "void f<(anonymous namespace)::g>");
  EXPECT_EQ(read("f[abi:cxx11](int)").name, "f[abi:cxx11]");
  EXPECT_TRUE(read(" f ( ) ").parameters.empty());
}

constexpr const char* kSupported = "supported are, by value or const&: at::Tensor, ";

TEST(SymbolSignature, NamesPositionAndTypeOfWhatItDoesNotSupport) {
  for (const char* type : {"at::Tensor*",
                           "at::Tensor const*",
                           "at::Tensor&&",
                           "double&",
                           "std::optional<double>&",
                           "std::vector<long, std::allocator<long> >&",
                           "c10::Scalar const&",
                           "c10::SymInt",
                           "std::vector<at::Tensor, std::allocator<at::Tensor> > const&",
                           "c10::ArrayRef<at::Tensor>",
                           "std::vector<long, Pool<long> > const&",
                           "std::optional<float>",
                           "void (*)(int, long)",
                           "long double",
                           "__int128",
                           "std::optional<at::Generator>&",
                           "at::Tensor const const&",
                           "void",
                           "Tensor&",
                           "int [3]",
                           "std::array<bool, 2ul>",
                           "std::vector<long, >"}) {
    EXPECT_THAT(refused("f(int, " + std::string(type) + ", bool)"),
                StartsWith("parameter 1 `" + std::string(type) + "`: " + kSupported));
  }
}

TEST(SymbolSignature, TellsNearMissesInWords) {
  EXPECT_THAT(refused("f(std::string const&)"),
              StartsWith("parameter 0 `std::string const&`: the std::string of the old ABI, which "
                         "no torch of this module takes; supported are"));
  EXPECT_THAT(refused("f(std::basic_string<char, std::char_traits<char>, std::allocator<char> >)"),
              HasSubstr("the std::string of the old ABI"));
  EXPECT_THAT(refused("f(c10::optional<at::Tensor>&)"),
              StartsWith("parameter 0 `c10::optional<at::Tensor>&`: c10::optional, which torch has "
                         "no more; supported are"));
  EXPECT_THAT(refused("printf(int, ...)"),
              StartsWith("parameter 1 `...`: a variadic function cannot be called by its symbol "
                         "alone; supported are"));
}

TEST(SymbolSignature, RefusesWhatIsNoFunctionsName) {
  for (const char* text : {"", "g_variable", "(int)", "f(int) const", "f(int) [clone .cold]",
                           "f(int", "f int)", "vtable for A"}) {
    EXPECT_EQ(refused(text), "`" + std::string(text) +
                                 "`: expected a function's demangled name, name(types), with "
                                 "nothing after its parameters");
  }
  EXPECT_EQ(refused("f(std::vector<long)"),
            "`f(std::vector<long)`: the parameters' brackets do not match");
  EXPECT_EQ(refused("f(long>)"), "`f(long>)`: the parameters' brackets do not match");
}

TEST(SymbolSignature, BoundsLengthCountAndNesting) {
  EXPECT_EQ(refused(std::string(kMaximumLength + 1, 'x')),
            "the symbol's name is longer than 8192 characters");
  std::string many = "f(int";
  for (std::size_t count = 1; count < kMaximumParameters; ++count) many += ", int";
  EXPECT_EQ(read(many + ")").parameters.size(), kMaximumParameters);
  EXPECT_EQ(refused(many + ", int)"), "expected at most 100 parameters, found 101");
  std::string deep = "int";
  for (int depth = 0; depth < 300; ++depth) deep = "a<" + deep + ">";
  EXPECT_THAT(refused("f(" + deep + ")"), StartsWith("parameter 0 `a<a<"));
}

TEST(SymbolReturn, IsReadFromItsText) {
  const auto read_return = [](const char* text) {
    Return result;
    std::string why;
    EXPECT_TRUE(parse_return(text, result, why)) << why;
    return result;
  };
  EXPECT_EQ(read_return("void"), (Return{ReturnKind::kVoid}));
  EXPECT_EQ(read_return("at::Tensor"), (Return{ReturnKind::kTensor}));
  EXPECT_EQ(read_return("std::vector<at::Tensor>"), (Return{ReturnKind::kTensorList}));
  EXPECT_EQ(read_return("std::vector<at::Tensor, std::allocator<at::Tensor> >"),
            (Return{ReturnKind::kTensorList}));
  EXPECT_EQ(read_return("std::tuple<at::Tensor, at::Tensor>"),
            (Return{ReturnKind::kTensorTuple, 2}));
  EXPECT_EQ(read_return("std::tuple<at::Tensor,at::Tensor,at::Tensor,at::Tensor>"),
            (Return{ReturnKind::kTensorTuple, 4}));
  EXPECT_EQ(read_return("bool"), (Return{ReturnKind::kScalar, 0, ValueKind::kBool}));
  EXPECT_EQ(read_return("long"), (Return{ReturnKind::kScalar, 0, ValueKind::kLong}));
  EXPECT_EQ(read_return("double"), (Return{ReturnKind::kScalar, 0, ValueKind::kDouble}));
}

TEST(SymbolReturn, RefusesWhatItDoesNotSupport) {
  for (const char* text : {"", "at::Tensor&", "at::Tensor const&", "std::optional<at::Tensor>",
                           "std::tuple<at::Tensor>", "std::tuple<at::Tensor, long>", "void*",
                           "std::vector<long>", "c10::ArrayRef<long>",
                           "std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, "
                           "at::Tensor>"}) {
    Return result;
    std::string why;
    EXPECT_FALSE(parse_return(text, result, why)) << text;
    EXPECT_EQ(why, "returns `" + std::string(text) +
                       "`: supported are void, at::Tensor, std::vector<at::Tensor>, std::tuple of "
                       "2 to 4 at::Tensor, bool, the integer types, float and double");
  }
}

}  // namespace
}  // namespace opmux::direct_symbol
