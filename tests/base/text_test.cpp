// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.hpp"

#include <gmock/gmock.h>

#include <chrono>

namespace opmux {
namespace {

using ::testing::ElementsAre;

TEST(Nearest, FindsMisspellings) {
  const std::vector<std::string> keys{"manifest", "provider", "priority", "operators", "requires"};
  EXPECT_EQ(nearest("provder", keys), "provider");     // left out
  EXPECT_EQ(nearest("prioritty", keys), "priority");   // doubled
  EXPECT_EQ(nearest("opreators", keys), "operators");  // swapped
  EXPECT_EQ(nearest("require", keys), "requires");
  EXPECT_EQ(nearest("manifest", keys), "manifest");
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  const std::vector<std::string> keys{"manifest", "provider"};
  EXPECT_EQ(nearest("libraries", keys), "");
  EXPECT_EQ(nearest("", keys), "");
  EXPECT_EQ(nearest("provider", std::vector<std::string>{}), "");
}

TEST(Nearest, AThirdOfTheWordIsTheLimit) {
  EXPECT_EQ(nearest("abcdefghijkl", std::vector<std::string>{"abcdefghWXYZ"}), "abcdefghWXYZ");
  EXPECT_EQ(nearest("abcdefghijkl", std::vector<std::string>{"abcdefgVWXYZ"}), "");
  // Short words may differ by two, but not in everything.
  EXPECT_EQ(nearest("abc", std::vector<std::string>{"axy"}), "axy");
  EXPECT_EQ(nearest("ab", std::vector<std::string>{"xy"}), "");
}

TEST(Nearest, ASwapCountsOnce) {
  EXPECT_EQ(nearest("abcdef", std::vector<std::string>{"badcfX", "badcef"}), "badcef");
}

TEST(Nearest, TheNearestWinsAndThenTheFirst) {
  EXPECT_EQ(nearest("route", std::vector<std::string>{"roots", "routes", "routed"}), "routes");
}

TEST(Nearest, LongWordsCostNothing) {
  const std::string word(200000, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(nearest(word, std::vector<std::string>{word + "b"}), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{1});
}

TEST(GlobMatch, StarStaysWithinAFolder) {
  EXPECT_TRUE(glob_match("vllm/_C.*.so", "vllm/_C.abi3.so"));
  EXPECT_FALSE(glob_match("vllm/_C.*.so", "vllm/_C_AVX2.abi3.so"));
  EXPECT_FALSE(glob_match("vllm/_C.*.so", "vllm/_C.x/y.so"));
  EXPECT_FALSE(glob_match("*.so", "vllm/_C.so"));
  EXPECT_TRUE(glob_match("*/*.so", "vllm/_C.so"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("**", "abc"));
  EXPECT_FALSE(glob_match("**", "a/b"));
}

TEST(GlobMatch, StarGoesBackAsFarAsItMust) {
  EXPECT_TRUE(glob_match("*abc", "ababcabc"));
  EXPECT_TRUE(glob_match("a*b*c", "aXbXbXc"));
  EXPECT_FALSE(glob_match("a*b*c", "aXbXbX"));
  EXPECT_TRUE(glob_match("*a*/b*", "xxaxx/bxx"));
  EXPECT_FALSE(glob_match("*a/b", "a/a/b"));
}

TEST(GlobMatch, WholeTextMustMatch) {
  EXPECT_TRUE(glob_match("silu_and_mul", "silu_and_mul"));
  EXPECT_FALSE(glob_match("silu", "silu_and_mul"));
  EXPECT_FALSE(glob_match("silu_and_mul", "silu"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("", "a"));
}

TEST(GlobMatch, QuestionMarkIsOneCharacter) {
  EXPECT_TRUE(glob_match("a?c", "abc"));
  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_FALSE(glob_match("a?c", "a/c"));
  EXPECT_TRUE(glob_match("a?c",
                         "a\xc3\xa9"
                         "c"));
  EXPECT_FALSE(glob_match("?",
                          "?"
                          "x"));
}

TEST(GlobMatch, Sets) {
  EXPECT_TRUE(glob_match("v[0-9].so", "v7.so"));
  EXPECT_FALSE(glob_match("v[0-9].so", "vx.so"));
  EXPECT_TRUE(glob_match("v[!0-9].so", "vx.so"));
  EXPECT_TRUE(glob_match("v[^0-9].so", "vx.so"));
  EXPECT_FALSE(glob_match("v[!0-9].so", "v7.so"));
  EXPECT_FALSE(glob_match("a[!b]c", "a/c"));
  EXPECT_TRUE(glob_match("[]]", "]"));
  EXPECT_TRUE(glob_match("[a-]", "-"));
  EXPECT_TRUE(glob_match("*[ab]x", "aabx"));
  EXPECT_TRUE(glob_match("[abc", "[abc"));
  EXPECT_FALSE(glob_match("[abc", "a"));
}

TEST(GlobMatch, HostilePatternTakesPolynomialTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  pattern += "b";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(glob_match(pattern, std::string(20000, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{10});
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a:b", ':'), ElementsAre("a", "b"));
  EXPECT_THAT(split(":a::", ':'), ElementsAre("", "a", "", ""));
  EXPECT_THAT(split("", ':'), ElementsAre(""));
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "", "b"}, ", "), "a, , b");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

TEST(Trim, TakesWhiteSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("\xc2\xa0x"), "\xc2\xa0x");
}

TEST(Printable, LeavesTextAlone) {
  const std::string text = "plain \\ text, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80";
  EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControls) {
  EXPECT_EQ(printable(std::string_view{"a\0\n\t\x1b\x7f", 6}), "a\\x00\\x0a\\x09\\x1b\\x7f");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85");
}

TEST(Printable, EscapesMarksThatReorderOrBreakLines) {
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb");                           // right-to-left override
  EXPECT_EQ(printable("\xe2\x81\xa6"), "\\xe2\\x81\\xa6");  // isolate
  EXPECT_EQ(printable("\xd8\x9c"), "\\xd8\\x9c");           // Arabic letter mark
  EXPECT_EQ(printable("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // line separator
}

TEST(Printable, EscapesInvalidUtf8ByteByByte) {
  EXPECT_EQ(printable("\xff"
                      "a"),
            "\\xffa");
  EXPECT_EQ(printable("\x80"), "\\x80");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                    // cut off
}

TEST(Printable, IsIdempotent) {
  const std::string once = printable("a\n\xff\\x");
  EXPECT_EQ(printable(once), once);
}

}  // namespace
}  // namespace opmux
