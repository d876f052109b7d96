// SPDX-License-Identifier: Apache-2.0
#include "core/contract/signature.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace opmux {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kNewString =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";

TEST(Signature, HasNameParametersAndQualifiers) {
  const Signature signature =
      parse_signature("flash::mha_fwd(at::Tensor&, std::optional<at::Tensor> const&, int) const");
  EXPECT_EQ(signature.name, "flash::mha_fwd");
  EXPECT_THAT(signature.parameters,
              ElementsAre("at::Tensor&", "std::optional<at::Tensor> const&", "int"));
  EXPECT_EQ(signature.qualifiers, "const");
  EXPECT_TRUE(signature.is_function);
}

TEST(Signature, OfNoParametersIsAFunction) {
  const Signature signature = parse_signature("flash::version()");
  EXPECT_EQ(signature.name, "flash::version");
  EXPECT_THAT(signature.parameters, IsEmpty());
  EXPECT_TRUE(signature.is_function);
}

TEST(Signature, OfACFunctionIsItsName) {
  const Signature signature = parse_signature("flash_version");
  EXPECT_EQ(signature.name, "flash_version");
  EXPECT_FALSE(signature.is_function);
}

TEST(Signature, CommasInsideBracketsPartNothing) {
  EXPECT_THAT(parse_signature("f(std::map<int, long>, void (*)(int, bool), int [2])").parameters,
              ElementsAre("std::map<int,long>", "void(*)(int,bool)", "int[2]"));
}

TEST(Signature, NamesMayHoldParentheses) {
  const Signature signature = parse_signature("(anonymous namespace)::f(int)");
  EXPECT_EQ(signature.name, "(anonymous namespace)::f");
  EXPECT_THAT(signature.parameters, ElementsAre("int"));
}

TEST(Signature, AbiTagsDoNotCount) { EXPECT_EQ(parse_signature("f[abi:cxx11](int)").name, "f"); }

TEST(PlainSpelling, KeepsSpacesBetweenWordsOnly) {
  EXPECT_EQ(plain_spelling("  f( unsigned  long , std::vector<std::vector<int> > const & ) const "),
            "f(unsigned long,std::vector<std::vector<int>> const&) const");
  EXPECT_EQ(plain_spelling("f(unsigned long,std::vector<std::vector<int>> const&) const"),
            "f(unsigned long,std::vector<std::vector<int>> const&) const");
  EXPECT_NE(plain_spelling("unsigned int"), plain_spelling("unsignedint"));
  EXPECT_EQ(plain_spelling("   "), "");
}

TEST(LastName, IsBehindNamespacesAndKeepsTemplateArguments) {
  EXPECT_EQ(last_name("a::b::f"), "f");
  EXPECT_EQ(last_name("f"), "f");
  EXPECT_EQ(last_name("a::f<b::c>"), "f<b::c>");
  EXPECT_EQ(last_name("a::operator<<"), "operator<<");
  EXPECT_EQ(last_name("a::operator>"), "operator>");
  EXPECT_EQ(last_name("a::operator std::string"), "operator std::string");
  EXPECT_EQ(last_name("a::operator_table"), "operator_table");
}

struct DifferenceCase {
  const char* name;
  std::string expected;
  std::string found;
  std::string difference;
};
void PrintTo(const DifferenceCase& difference, std::ostream* out) { *out << difference.name; }

class SignatureDifference : public ::testing::TestWithParam<DifferenceCase> {};

TEST_P(SignatureDifference, IsSaidInWords) {
  const Signature expected = parse_signature(GetParam().expected);
  const Signature found = parse_signature(GetParam().found);
  EXPECT_EQ(signature_difference(expected, found), GetParam().difference);
  EXPECT_EQ(signature_difference(found, found), "");
}

const std::string kNewParameter = std::string("f(") + kNewString + " const&)";

INSTANTIATE_TEST_SUITE_P(
    Table, SignatureDifference,
    ::testing::Values(
        DifferenceCase{"none", "f( int ,std::vector<int> )", "f(int, std::vector<int>)", ""},
        DifferenceCase{"integer", "f(bool, int)", "f(bool, long)",
                       "parameter 2 is `long` in place of `int`, another integer type"},
        DifferenceCase{"unsigned_integer", "f(unsigned int)", "f(int)",
                       "parameter 1 is `int` in place of `unsigned int`, another integer type"},
        DifferenceCase{"precision", "f(float)", "f(double)",
                       "parameter 1 is `double` in place of `float`, another precision"},
        DifferenceCase{"new_string", "f(std::string const&)", kNewParameter,
                       "parameter 1 is `std::__cxx11::string const&` in place of `std::string "
                       "const&`, std::string of the new ABI against the old one"},
        DifferenceCase{"old_string", kNewParameter, "f(std::string const&)",
                       "parameter 1 is `std::string const&` in place of `std::__cxx11::string "
                       "const&`, std::string of the old ABI against the new one"},
        DifferenceCase{
            "string_inside", std::string("f(std::vector<") + kNewString + " >)",
            "f(std::vector<std::basic_string<char, std::char_traits<char>, std::allocator<char> > "
            ">)",
            "parameter 1 is `std::vector<std::string>` in place of "
            "`std::vector<std::__cxx11::string>`, std::string of the old ABI against the new one"},
        DifferenceCase{"const_added", "f(at::Tensor&)", "f(at::Tensor const&)",
                       "parameter 1 is `at::Tensor const&` in place of `at::Tensor&`, const "
                       "differs"},
        DifferenceCase{"const_missing", "f(char const*)", "f(char*)",
                       "parameter 1 is `char*` in place of `char const*`, const differs"},
        DifferenceCase{"const_in_a_word", "f(at::constant)", "f(at::ant)",
                       "parameter 1 is `at::ant` in place of `at::constant`"},
        DifferenceCase{"added", "f(at::Tensor&, int)", "f(at::Tensor&, bool, int)",
                       "it has 3 parameters in place of 2; parameter 2 `bool` is added"},
        DifferenceCase{"missing", "f(int, bool)", "f(int)",
                       "it has 1 parameter in place of 2; parameter 2 `bool` is missing"},
        DifferenceCase{"added_and_missing", "f(int, bool, double)", "f(at::Tensor&, int)",
                       "it has 2 parameters in place of 3; parameter 1 `at::Tensor&` is added; "
                       "parameter 2 `bool` is missing; parameter 3 `double` is missing"},
        DifferenceCase{"c10_optional", "f(std::optional<at::Tensor>&)",
                       "f(c10::optional<at::Tensor>&)",
                       "parameter 1 is `c10::optional<at::Tensor>&` in place of "
                       "`std::optional<at::Tensor>&`, c10::optional against std::optional"},
        DifferenceCase{"std_optional", "f(c10::optional<at::Tensor>&)",
                       "f(std::optional<at::Tensor>&)",
                       "parameter 1 is `std::optional<at::Tensor>&` in place of "
                       "`c10::optional<at::Tensor>&`, std::optional against c10::optional"},
        DifferenceCase{"by_reference", "f(at::Tensor)", "f(at::Tensor const&)",
                       "parameter 1 is `at::Tensor const&` in place of `at::Tensor`, by value "
                       "against by reference"},
        DifferenceCase{"by_value", "f(at::Tensor&)", "f(at::Tensor)",
                       "parameter 1 is `at::Tensor` in place of `at::Tensor&`, by value against "
                       "by reference"},
        DifferenceCase{"kinds_of_reference", "f(at::Tensor&)", "f(at::Tensor&&)",
                       "parameter 1 is `at::Tensor&&` in place of `at::Tensor&`"},
        DifferenceCase{"optional", "f(at::Tensor&)", "f(std::optional<at::Tensor>&)",
                       "parameter 1 is `std::optional<at::Tensor>&` in place of `at::Tensor&`, "
                       "optional against not optional"},
        DifferenceCase{"not_optional", "f(c10::optional<long>)", "f(long)",
                       "parameter 1 is `long` in place of `c10::optional<long>`, optional against "
                       "not optional"},
        DifferenceCase{"another_type", "f(int)", "f(at::Tensor)",
                       "parameter 1 is `at::Tensor` in place of `int`"},
        DifferenceCase{"two_parameters", "f(int, float)", "f(long, double)",
                       "parameter 1 is `long` in place of `int`, another integer type; parameter "
                       "2 is `double` in place of `float`, another precision"},
        DifferenceCase{"name_space", "flash::f(int)", "FLASH::f(int)",
                       "it is in another namespace, `FLASH::f`"},
        DifferenceCase{"no_name_space", "flash::f(int)", "f(int)",
                       "it is in another namespace, `f`"},
        DifferenceCase{"name", "flash::mha_fwd(int)", "flash::mha_fwt(int)",
                       "its name is `flash::mha_fwt`"},
        DifferenceCase{"c_symbol", "f(int)", "f", "it is a C symbol, which tells no parameters"},
        DifferenceCase{"cpp_function", "f", "f(at::Tensor&)", "it is a C++ function"},
        DifferenceCase{"qualifiers", "A::f(int)", "A::f(int) const",
                       "it is qualified `const` in place of ``"}),
    [](const auto& info) { return std::string(info.param.name); });

std::string nearest_to(const std::string& expected, const std::vector<std::string>& candidates) {
  return nearest_signature(parse_signature(expected), candidates);
}

TEST(NearestSignature, HasTheFewestDifferingParameters) {
  EXPECT_EQ(
      nearest_to("a::f(int, bool, float)", {"a::g(int, bool, float)", "a::f(long, bool, double)",
                                            "a::f(long, bool, float)", "a::f(int)"}),
      "a::f(long, bool, float)");
  EXPECT_EQ(nearest_to("a::f(int, bool)", {"a::f()", "a::f(int, bool, float)", "a::f(float)"}),
            "a::f(int, bool, float)");
}

TEST(NearestSignature, PrefersTheNameThenItsLastPartThenAMisspelling) {
  const std::vector<std::string> all{"flash::mha_fvd(int)", "other::mha_fwd(int)",
                                     "flash::mha_fwd(long)"};
  EXPECT_EQ(nearest_to("flash::mha_fwd(int)", all), "flash::mha_fwd(long)");
  EXPECT_EQ(nearest_to("flash::mha_fwd(int)", {all[0], all[1]}), "other::mha_fwd(int)");
  EXPECT_EQ(nearest_to("flash::mha_fwd(int)", {"flash::mha_fvd(bool)", all[0]}), all[0]);
}

TEST(NearestSignature, IsNothingWhereNothingIsAlike) {
  EXPECT_EQ(nearest_to("flash::mha_fwd(int)", {"rms_norm(at::Tensor&)", "x"}), "");
  EXPECT_EQ(nearest_to("flash::mha_fwd(int)", {}), "");
}

// ---- foreign text of any content ----

TEST(HostileSignature, BracketsThatDoNotMatchEndTheLastPart) {
  const Signature open = parse_signature("f(std::vector<int, (bool");
  EXPECT_FALSE(open.is_function);
  EXPECT_EQ(open.name, "f(std::vector<int,(bool");
  const Signature close = parse_signature("f)))");
  EXPECT_FALSE(close.is_function);
  EXPECT_EQ(close.name, "f)))");
  const Signature inside = parse_signature("f(int>, bool)");
  EXPECT_THAT(inside.parameters, ElementsAre("int>,bool"));
  for (const char* text : {"", "(", ")", "()", "<", ">", "::", "operator", "((((((((", "))))((((",
                           "<<<<>>", "f(,,,)", "f( )", "\xff\xfe(\x01)", " "}) {
    const Signature signature = parse_signature(text);
    EXPECT_EQ(signature_difference(signature, signature), "") << text;
    EXPECT_EQ(nearest_to(text, {text}), text);
  }
}

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string function_of(std::size_t parameters, const std::string& type) {
  std::string text = "f(";
  for (std::size_t i = 0; i < parameters; ++i) text += (i == 0 ? "" : ", ") + type;
  return text + ")";
}

// What is linear takes milliseconds, what is quadratic minutes.
TEST(HostileSignature, TenThousandParametersAreComparedInTime) {
  const std::string expected = function_of(10000, "int");
  const std::string longer = function_of(10001, "long");
  const std::string same = function_of(10000, "long");
  const double seconds = seconds_of([&] {
    EXPECT_EQ(parse_signature(expected).parameters.size(), 10000u);
    EXPECT_EQ(signature_difference(parse_signature(expected), parse_signature(longer)),
              "it has 10001 parameters in place of 10000");
    const std::string text = signature_difference(parse_signature(expected), parse_signature(same));
    EXPECT_TRUE(text.ends_with("another integer type; and 9992 more differences")) << text.size();
    EXPECT_LT(text.size(), 1000u);
    EXPECT_EQ(nearest_to(expected, {longer, same}), same);
  });
  EXPECT_LT(seconds, 10.0);
}

TEST(HostileSignature, LongNamesAreComparedInTime) {
  std::vector<std::string> candidates;
  for (int i = 0; i < 2000; ++i)
    candidates.push_back(std::string(4096, static_cast<char>('a' + i % 26)) + std::to_string(i));
  const std::string tags = [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "[abi:cxx11]";
    return text + "(int)";
  }();
  const double seconds = seconds_of([&] {
    EXPECT_EQ(nearest_to(std::string(4096, 'z') + "(int)", candidates), "");
    EXPECT_EQ(parse_signature(tags).name, "");
    EXPECT_EQ(parse_signature(std::string(1000000, '(')).parameters.size(), 0u);
    EXPECT_EQ(parse_signature(std::string(1000000, '<') + "()").parameters.size(), 0u);
    EXPECT_EQ(plain_spelling(std::string(1000000, ' ') + "x"), "x");
    EXPECT_EQ(last_name(std::string(1000000, '>') + "::f"), "f");
  });
  EXPECT_LT(seconds, 10.0);
}

TEST(HostileSignature, OverloadsOfManyParametersAreComparedInTime) {
  std::vector<std::string> candidates;
  for (std::size_t i = 0; i < 200; ++i) candidates.push_back(function_of(200 + i % 50, "long"));
  const double seconds =
      seconds_of([&] { EXPECT_NE(nearest_to(function_of(199, "int"), candidates), ""); });
  EXPECT_LT(seconds, 10.0);
}

TEST(SignatureCorpus, OfTheFuzzTargetIsReplayed) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/corpus/fuzz_signature")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    const std::size_t line = std::min(text.find('\n'), text.size());
    const std::string first = text.substr(0, line);
    const std::string second = text.substr(std::min(line + 1, text.size()));
    const Signature expected = parse_signature(first);
    const Signature found = parse_signature(second);
    EXPECT_EQ(plain_spelling(plain_spelling(first)), plain_spelling(first)) << entry.path();
    EXPECT_EQ(signature_difference(expected, expected), "") << entry.path();
    EXPECT_EQ(signature_difference(expected, found).empty(),
              signature_difference(found, expected).empty())
        << entry.path();
    EXPECT_EQ(nearest_to(first, {first}), first) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 10u);
}

}  // namespace
}  // namespace opmux
