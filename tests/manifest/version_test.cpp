// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/version.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace opmux {
namespace {

Version version(const std::string& text) {
  Result<Version> parsed = Version::parse(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *std::move(parsed) : Version{};
}

TEST(Version, OrderIsThatOfPep440) {
  // The table of the specification's "summary of permitted suffixes and relative ordering", and
  // what its text adds on epochs and local versions.
  const std::vector<std::string> ascending{"1.dev0",
                                           "1.0.dev456",
                                           "1.0a1",
                                           "1.0a2.dev456",
                                           "1.0a12.dev456",
                                           "1.0a12",
                                           "1.0b1.dev456",
                                           "1.0b2",
                                           "1.0b2.post345.dev456",
                                           "1.0b2.post345",
                                           "1.0rc1.dev456",
                                           "1.0rc1",
                                           "1.0",
                                           "1.0+abc.5",
                                           "1.0+abc.7",
                                           "1.0+5",
                                           "1.0+5.1",
                                           "1.0+10",
                                           "1.0.post456.dev34",
                                           "1.0.post456",
                                           "1.0.15",
                                           "1.1.dev1",
                                           "1.10",
                                           "2.0",
                                           "1!0.1"};
  for (std::size_t i = 0; i < ascending.size(); ++i)
    for (std::size_t j = 0; j < ascending.size(); ++j) {
      const int order = version(ascending[i]).compare(version(ascending[j]));
      EXPECT_EQ(order, i < j ? -1 : (i > j ? 1 : 0)) << ascending[i] << " and " << ascending[j];
    }
}

TEST(Version, SpellingsOfOneVersionAreEqual) {
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{"1.0", "1"},
                                                        {"1.0.0", "1.0"},
                                                        {"v1.0", "1.0"},
                                                        {"1.0-alpha-1", "1a1"},
                                                        {"1.0.BETA_2", "1.0b2"},
                                                        {"1.0c1", "1.0rc1"},
                                                        {"1.0-pre1", "1.0rc1"},
                                                        {"1.0preview1", "1rc1"},
                                                        {"1.0-1", "1.0.post1"},
                                                        {"1.0-r4", "1.0.post4"},
                                                        {"1.0rev4", "1.0.post4"},
                                                        {"1.0a", "1.0a0"},
                                                        {"1.0.post", "1.0.post0"},
                                                        {"1.0dev", "1.0.dev0"},
                                                        {"1.0+A-b_07", "1.0+a.b.7"},
                                                        {" 1.0 ", "1.0"},
                                                        {"0!1.0", "1.0"},
                                                        {"01.002", "1.2"}})
    EXPECT_EQ(version(left).compare(version(right)), 0) << left << " and " << right;
}

TEST(Version, WhatIsNoVersionIsRefused) {
  for (const char* text : {"", "x", "1.", "1..0", "1.0+", "1.0+a..b", "1.0 1", "1.0.*", "1.0a1b1",
                           "1.0.post1.post2", "99999999999999999999", "1!", "-1", "1,0", "1.0+ä"}) {
    const Result<Version> parsed = Version::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.rejection().rule, "yaml.wrong_form");
  }
  EXPECT_FALSE(Version::parse(std::string(100000, '1')).ok());
}

TEST(Version, BaseAndLocalPartsAreGivenApart) {
  EXPECT_EQ(version("2.11.0+cu130").base(), "2.11.0");
  EXPECT_EQ(version("2.11.0+cu130").local(), "cu130");
  EXPECT_EQ(version("1!2.11rc1.post2.dev3").base(), "1!2.11");
  EXPECT_EQ(version("2.11").local(), "");
  EXPECT_EQ(version("2.11.0+cu130").text(), "2.11.0+cu130");
}

struct RangeCase {
  const char* range;
  std::vector<const char*> inside;
  std::vector<const char*> outside;
};

class Range : public testing::TestWithParam<RangeCase> {};

TEST_P(Range, HoldsWhatPep440Says) {
  const Result<VersionRange> range = VersionRange::parse(GetParam().range);
  ASSERT_TRUE(range.ok()) << to_string(range.rejection());
  EXPECT_EQ(range->text(), GetParam().range);
  for (const char* text : GetParam().inside)
    EXPECT_TRUE(range->contains(version(text))) << text << " in " << GetParam().range;
  for (const char* text : GetParam().outside)
    EXPECT_FALSE(range->contains(version(text))) << text << " not in " << GetParam().range;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Range,
    testing::Values(
        RangeCase{">=2.11", {"2.11", "2.11.0+cu130", "2.12a1", "10"}, {"2.10", "2.11rc1", "2.9"}},
        RangeCase{"<=2.11", {"2.11", "2.11+cu130", "2.11rc1", "2.2"}, {"2.11.post1", "2.12"}},
        RangeCase{">2.11", {"2.11.1", "2.12"}, {"2.11", "2.11.post1", "2.11+cu130", "2.11.0+x"}},
        RangeCase{">2.11.post1", {"2.11.post2", "2.12"}, {"2.11", "2.11.post1"}},
        RangeCase{"<2.11", {"2.10", "2.10.post1"}, {"2.11", "2.11rc1", "2.11.dev3", "2.12"}},
        RangeCase{"<2.11rc2", {"2.11rc1", "2.10"}, {"2.11rc2", "2.11"}},
        RangeCase{"==2.11", {"2.11", "2.11.0", "2.11+cu130"}, {"2.11.1", "2.11rc1"}},
        RangeCase{"==2.11+cu130", {"2.11.0+cu130"}, {"2.11", "2.11+cu128"}},
        RangeCase{"!=2.11", {"2.11.1", "2.10"}, {"2.11.0", "2.11+cu130"}},
        RangeCase{
            "==2.11.*", {"2.11", "2.11.9", "2.11rc1", "2.11.post1+x"}, {"2.1", "2.110", "2.12"}},
        RangeCase{"!=2.11.*", {"2.12", "2.1"}, {"2.11", "2.11.3"}},
        RangeCase{"13.*", {"13", "13.0", "13.2.1"}, {"12.9", "14.0", "130"}},
        RangeCase{"2.11", {"2.11.0", "2.11+x"}, {"2.11.1"}},
        RangeCase{"~=2.2", {"2.2", "2.9", "2.2.post3"}, {"2.1", "3.0"}},
        RangeCase{"~=1.4.5", {"1.4.5", "1.4.9"}, {"1.4.4", "1.5"}},
        RangeCase{"~=1.4.5a4", {"1.4.5a4", "1.4.5", "1.4.9"}, {"1.4.5a3", "1.5"}},
        RangeCase{"~=2.2.post3", {"2.2.post3", "2.3"}, {"2.2", "3.0"}},
        RangeCase{"===2.11.0+CU130", {"2.11.0+cu130"}, {"2.11+cu130", "2.11.0"}},
        RangeCase{">=2.11, !=2.12.0, <3", {"2.11", "2.12.1"}, {"2.12", "3.0", "2.10"}},
        RangeCase{">=1!1.0", {"1!1.0"}, {"2.0"}},
        RangeCase{">=8.0", {"8.0", "9.0", "12.0"}, {"7.5"}}));

TEST(VersionRange, WhatIsNoRangeIsRefusedWithTheReason) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "empty"},
           {">=2.11,", "an empty clause"},
           {">=", "`` is no version"},
           {">=x", "`x` is no version"},
           {"=>2.11", "`=>2.11` is no version"},
           {">=2.*", "`.*` after >="},
           {"==2.0a1.*", "`.*` after something other than a release number"},
           {"~=2", "~= with a single release number"},
           {">=2.11+cu130", "a local version after >="},
           {"===", "no version after ==="},
           {"2.11 3.0", "`2.11 3.0` is no version"}}) {
    const Result<VersionRange> range = VersionRange::parse(text);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_EQ(range.rejection().rule, "yaml.wrong_form");
    EXPECT_EQ(range.rejection().found, "`" + text + "`: " + why);
  }
}

}  // namespace
}  // namespace opmux
