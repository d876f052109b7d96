// SPDX-License-Identifier: Apache-2.0
#include "core/yaml/fields.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace opmux::yaml {
namespace {

constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHigh = std::numeric_limits<std::int64_t>::max();

Node value(const std::string& text) {
  Result<Node> root = parse("v: " + text + "\n", "m.yaml");
  EXPECT_TRUE(root.ok()) << to_string(root.rejection());
  return root.ok() ? *root->find("v") : Node{};
}

// Field report F09.
TEST(Fields, BoolsAreTrueOrFalseAndNothingElse) {
  EXPECT_EQ(as_bool(value("true")), true);
  EXPECT_EQ(as_bool(value("false")), false);
  for (const char* text : {"yes", "no", "on", "off", "True", "FALSE", "1", "0", "y", "\"false\""}) {
    Errors errors{"m.yaml"};
    EXPECT_FALSE(read_bool(value(text), "`optional`", errors)) << text;
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors.rejections()[0].rule, "yaml.wrong_form");
    EXPECT_EQ(errors.rejections()[0].subject, "m.yaml:1:4");
    EXPECT_EQ(errors.rejections()[0].expected, "`optional`: true or false, without quotes");
  }
}

// Field report F09.
TEST(Fields, IntegersAreDecimalDigitsWithoutLeadingZeros) {
  EXPECT_EQ(as_integer(value("0")), 0);
  EXPECT_EQ(as_integer(value("-1")), -1);
  EXPECT_EQ(as_integer(value("9223372036854775807")), kHigh);
  EXPECT_EQ(as_integer(value("-9223372036854775808")), kLow);
  for (const char* text : {"010", "1e3", "0x10", "1_000", "+1", "1.0", "\"4\"",
                           "9223372036854775808", "-0", "four", "12:30:45", "0o7"}) {
    Errors errors{"m.yaml"};
    EXPECT_FALSE(read_integer(value(text), "`priority`", errors, kLow, kHigh)) << text;
    ASSERT_EQ(errors.size(), 1U) << text;
    EXPECT_EQ(errors.rejections()[0].rule, "yaml.wrong_form");
    EXPECT_EQ(
        errors.rejections()[0].expected,
        "`priority`: an integer in decimal digits, without quotes, leading zeros or exponent");
  }
}

TEST(Fields, IntegerBoundsAreNamed) {
  Errors errors{"m.yaml"};
  EXPECT_EQ(read_integer(value("7"), "`threads`", errors, 0, 7), 7);
  EXPECT_FALSE(read_integer(value("8"), "`threads`", errors, 0, 7));
  EXPECT_FALSE(read_integer(value("-1"), "`rank`", errors, 0, kHigh));
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_TRUE(errors.rejections()[0].expected.ends_with(", from 0 to 7"));
  EXPECT_EQ(errors.rejections()[0].found, "`8`");
  EXPECT_TRUE(errors.rejections()[1].expected.ends_with(", at least 0"));
}

TEST(Fields, NumbersAreDecimal) {
  EXPECT_EQ(as_number(value("2")), 2.0);
  EXPECT_EQ(as_number(value("-0.5")), -0.5);
  EXPECT_EQ(as_number(value("1e-6")), 1e-6);
  for (const char* text : {".5", "5.", "1e", "nan", ".inf", "0x1p3", "1e999", "01.5", "\"1\""})
    EXPECT_FALSE(as_number(value(text))) << text;
}

// Field report F09.
TEST(Fields, TextKeepsItsExactForm) {
  Errors errors{"m.yaml"};
  for (const char* text : {"no", "1.10", "010", "on", "12:30:45", "1_000", "2.0e1"})
    EXPECT_EQ(read_text(value(text), "`version`", errors), text);
  EXPECT_TRUE(errors.empty());
  EXPECT_FALSE(read_text(value("null"), "`version`", errors));
  EXPECT_FALSE(read_text(value("[a]"), "`version`", errors));
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors.rejections()[0].expected, "`version`: text");
  EXPECT_EQ(errors.rejections()[0].found, "nothing (null)");
  EXPECT_EQ(errors.rejections()[1].found, "a list");
}

TEST(Fields, ATextStandsForAListOfOne) {
  Errors errors{"m.yaml"};
  EXPECT_EQ(read_texts(value("a"), "`library`", errors), (std::vector<std::string>{"a"}));
  EXPECT_EQ(read_texts(value("[a, b]"), "`library`", errors), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(errors.empty());
  EXPECT_FALSE(read_texts(value("[]"), "`library`", errors));
  EXPECT_FALSE(read_texts(value("[a, {b: 1}]"), "`library`", errors));
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors.rejections()[0].found, "an empty list");
  EXPECT_EQ(errors.rejections()[1].subject, "m.yaml:1:8");
}

// Field report F13.
TEST(MapReader, UnknownKeysNameTheNearestKnownOne) {
  const Result<Node> root =
      parse("dispach_key: CUDA\nLibrary: c\n\"glob \": x\nzzzzzzzz: 1\n", "m.yaml");
  ASSERT_TRUE(root.ok());
  Errors errors{"m.yaml"};
  const MapReader map{*root, "an alternative", {"library", "dispatch_key", "glob"}, errors};
  EXPECT_TRUE(map.is_map());
  ASSERT_EQ(errors.size(), 4U);
  for (const Rejection& rejection : errors.rejections()) {
    EXPECT_EQ(rejection.rule, "yaml.unknown_key");
    EXPECT_EQ(rejection.expected, "a key of an alternative: library, dispatch_key, glob");
  }
  EXPECT_EQ(errors.rejections()[0].subject, "m.yaml:1:1");
  EXPECT_EQ(errors.rejections()[0].found, "`dispach_key`");
  EXPECT_EQ(errors.rejections()[0].hint, "Did you mean `dispatch_key`?");
  EXPECT_EQ(errors.rejections()[1].hint, "Did you mean `library`?");
  EXPECT_EQ(errors.rejections()[2].found, "`glob `");
  EXPECT_EQ(errors.rejections()[2].hint, "Did you mean `glob`?");
  EXPECT_EQ(errors.rejections()[3].hint, rules::kYamlUnknownKey.remedy);
}

TEST(MapReader, MissingKeysAreNamed) {
  const Result<Node> root = parse("a:\n  b: 1\n", "m.yaml");
  ASSERT_TRUE(root.ok());
  Errors errors{"m.yaml"};
  const MapReader map{*root->find("a"), "a library", {"b", "glob"}, errors};
  EXPECT_FALSE(map.required_text("glob"));
  EXPECT_FALSE(map.text("glob"));
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors.rejections()[0].rule, "yaml.missing_key");
  EXPECT_EQ(errors.rejections()[0].subject, "m.yaml:2:3");
  EXPECT_EQ(errors.rejections()[0].expected, "the key `glob` in a library");
}

TEST(MapReader, WhatIsNoMapIsRefusedOnce) {
  const Node list = value("[1]");
  Errors errors{"m.yaml"};
  const MapReader map{list, "`requires`", {"torch"}, errors};
  EXPECT_FALSE(map.is_map());
  EXPECT_EQ(map.require("torch"), nullptr);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors.rejections()[0].expected, "`requires`: a map");
  EXPECT_EQ(errors.rejections()[0].found, "a list");
}

TEST(Errors, KeepNoMoreThanTheCap) {
  Errors errors{"m.yaml"};
  for (int i = 0; i < 100; ++i) errors.add(rules::kYamlWrongForm, Position{i + 1, 1}, "x", "y");
  EXPECT_EQ(errors.size(), 100U);
  ASSERT_EQ(errors.rejections().size(), Errors::kCap);
  EXPECT_EQ(errors.rejections().back().subject, "m.yaml:20:1");
}

}  // namespace
}  // namespace opmux::yaml
