// SPDX-License-Identifier: Apache-2.0
#include "core/yaml/reader.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace opmux::yaml {
namespace {

namespace fs = std::filesystem;

Rejection refused(const std::string& text) {
  const Result<Node> result = parse(text, "m.yaml");
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? Rejection{} : result.rejection();
}

Node accepted(const std::string& text) {
  Result<Node> result = parse(text, "m.yaml");
  EXPECT_TRUE(result.ok()) << to_string(result.rejection());
  return result.ok() ? *std::move(result) : Node{};
}

std::string repeated(const std::string& part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

struct FeatureCase {
  const char* text;
  const char* rule;
  const char* subject;
  const char* found;
};

class Refusal : public ::testing::TestWithParam<FeatureCase> {};

// Field reports F10 (duplicate keys) and F11 (tabs, second documents).
TEST_P(Refusal, NamesRulePositionAndWhatStandsThere) {
  const Rejection rejection = refused(GetParam().text);
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.stage, "yaml");
  EXPECT_EQ(rejection.subject, GetParam().subject);
  EXPECT_EQ(rejection.found, GetParam().found);
  EXPECT_FALSE(rejection.expected.empty());
  EXPECT_FALSE(rejection.hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Features, Refusal,
    ::testing::Values(
        FeatureCase{"a: &x 1\n", "yaml.feature", "m.yaml:1:4", "the anchor `&x`"},
        FeatureCase{"a: &x [1]\nb: *x\n", "yaml.feature", "m.yaml:1:4", "the anchor `&x`"},
        FeatureCase{"a: &x [*x]\n", "yaml.feature", "m.yaml:1:4", "the anchor `&x`"},
        FeatureCase{"a: 1\nb: *x\n", "yaml.feature", "m.yaml:2:4", "the alias `*x`"},
        FeatureCase{"a: [1, *x]\n", "yaml.feature", "m.yaml:1:8", "the alias `*x`"},
        FeatureCase{"a: !!str 1\n", "yaml.feature", "m.yaml:1:4",
                    "the tag `tag:yaml.org,2002:str`"},
        FeatureCase{"a: !local 1\n", "yaml.feature", "m.yaml:1:4", "the tag `!local`"},
        FeatureCase{"a: ! 1\n", "yaml.feature", "m.yaml:1:4", "the tag `!`"},
        FeatureCase{"a: ! \"x\"\n", "yaml.feature", "m.yaml:1:4", "the tag `!`"},
        FeatureCase{"a: !!map {b: 1}\n", "yaml.feature", "m.yaml:1:4",
                    "the tag `tag:yaml.org,2002:map`"},
        FeatureCase{"a: 1\n<<: {b: 2}\n", "yaml.feature", "m.yaml:2:1", "the merge key `<<`"},
        FeatureCase{"%YAML 1.1\n---\na: 1\n", "yaml.feature", "m.yaml:1:1",
                    "the directive `%YAML 1.1`"},
        FeatureCase{"a: 1\n---\nb: 2\n", "yaml.second_document", "m.yaml:2:1", "a second document"},
        FeatureCase{"a: 1\n...\nb: 2\n", "yaml.second_document", "m.yaml:3:1", "a second document"},
        FeatureCase{"[1] [2]\n", "yaml.syntax", "m.yaml:1:5", "`[2]`"},
        FeatureCase{"[a]: 1\n", "yaml.syntax", "m.yaml:1:1", "a list as key"},
        FeatureCase{"? {a: 1}\n: 2\n", "yaml.syntax", "m.yaml:1:3", "a map as key"},
        FeatureCase{"~: 1\n", "yaml.syntax", "m.yaml:1:1", "an empty or null key"},
        FeatureCase{"", "yaml.empty", "m.yaml:1:1", "none"},
        FeatureCase{"# only a comment\n", "yaml.empty", "m.yaml:1:1", "none"},
        FeatureCase{"---\n", "yaml.empty", "m.yaml:1:1", "none"},
        FeatureCase{"\xEF\xBB\xBF", "yaml.empty", "m.yaml:1:1", "none"}));

INSTANTIATE_TEST_SUITE_P(
    DuplicateKeys, Refusal,
    ::testing::Values(FeatureCase{"priority: 1\nx: 2\npriority: 9\n", "yaml.duplicate_key",
                                  "m.yaml:3:1",
                                  "key `priority` again; it stands first at line 1, column 1"},
                      FeatureCase{"a:\n  b: 1\n  c: 2\n  b: 3\n", "yaml.duplicate_key",
                                  "m.yaml:4:3",
                                  "key `b` again; it stands first at line 2, column 3"},
                      FeatureCase{"a: {b: 1, \"b\": 2}\n", "yaml.duplicate_key", "m.yaml:1:11",
                                  "key `b` again; it stands first at line 1, column 5"},
                      FeatureCase{"\"\": 1\n'': 2\n", "yaml.duplicate_key", "m.yaml:2:1",
                                  "key `` again; it stands first at line 1, column 1"}));

INSTANTIATE_TEST_SUITE_P(
    Characters, Refusal,
    ::testing::Values(
        FeatureCase{"a: \x01\n", "yaml.encoding", "m.yaml:1:4", "a control character \\x01"},
        FeatureCase{"a: b\rc\n", "yaml.encoding", "m.yaml:1:5", "a control character \\x0D"},
        FeatureCase{"a: \x7F\n", "yaml.encoding", "m.yaml:1:4", "a control character \\x7F"},
        FeatureCase{"a: \xFFz\n", "yaml.encoding", "m.yaml:1:4", "invalid UTF-8 \\xFF"},
        FeatureCase{"\xFF\xFE", "yaml.encoding", "m.yaml:1:1", "invalid UTF-8 \\xFF"},
        FeatureCase{"a: \xC0\x80\n", "yaml.encoding", "m.yaml:1:4", "invalid UTF-8 \\xC0"},
        FeatureCase{"a: \xED\xA0\x80\n", "yaml.encoding", "m.yaml:1:4", "invalid UTF-8 \\xED"},
        FeatureCase{"a: \xE2\x80", "yaml.encoding", "m.yaml:1:4", "invalid UTF-8 \\xE2"},
        FeatureCase{"\xC3\xA4: \xE2\x80\xAEx\n", "yaml.encoding", "m.yaml:1:4",
                    "a bidirectional control character \\xE2\\x80\\xAE"},
        FeatureCase{"a: \"\\x00\"\n", "yaml.encoding", "m.yaml:1:4",
                    "a NUL byte \\x00 written as an escape"},
        FeatureCase{"a: \"\\u202e\"\n", "yaml.encoding", "m.yaml:1:4",
                    "a bidirectional control character \\xE2\\x80\\xAE written as an escape"},
        FeatureCase{"a:\n\tb: 1\n", "yaml.syntax", "m.yaml:2:1", "a tab (\\x09)"},
        FeatureCase{"a:\tb\n", "yaml.syntax", "m.yaml:1:3", "a tab (\\x09)"}));

TEST(Reader, RefusesANulByteInTheText) {
  const Rejection rejection = refused(std::string{"a: b\0c\n", 7});
  EXPECT_EQ(rejection.rule, "yaml.encoding");
  EXPECT_EQ(rejection.subject, "m.yaml:1:5");
  EXPECT_EQ(rejection.found, "a NUL byte \\x00");
}

// Field report F11.
TEST(Reader, RefusesUtf16) {
  EXPECT_EQ(refused(std::string{"a\0:\0 \0b\0", 8}).rule, "yaml.encoding");
}

// Field report F11.
TEST(Reader, AcceptsByteOrderMarkCrlfAndDocumentEnd) {
  const Node root = accepted("\xEF\xBB\xBF---\r\na: x\r\nb:\r\n  - 1\r\n...\r\n");
  ASSERT_NE(root.find("a"), nullptr);
  EXPECT_EQ(root.find("a")->text, "x");
  EXPECT_EQ(root.find("b")->items.at(0).position.line, 4);
  EXPECT_EQ(root.find("b")->items.at(0).position.column, 5);
}

TEST(Reader, KeepsTextPositionsAndQuotes) {
  const Node root = accepted("\xC3\xA4\xC3\xB6: \"no\"\nversion: 1.10\nempty:\nnext: null\n");
  ASSERT_EQ(root.entries.size(), 4U);
  EXPECT_EQ(root.entries[0].value.text, "no");
  EXPECT_TRUE(root.entries[0].value.quoted);
  EXPECT_EQ(root.entries[0].value.position.column, 5);
  EXPECT_EQ(root.entries[1].value.text, "1.10");
  EXPECT_FALSE(root.entries[1].value.quoted);
  EXPECT_EQ(root.entries[2].value.kind, Kind::kNull);
  EXPECT_EQ(root.entries[2].value.position.line, 3);
  EXPECT_EQ(root.entries[3].value.kind, Kind::kNull);
}

TEST(Reader, SyntaxErrorsNameTheirPosition) {
  const Rejection rejection = refused("a: 1\nb: [1, 2\nc: 3\n");
  EXPECT_EQ(rejection.rule, "yaml.syntax");
  EXPECT_EQ(rejection.subject.substr(0, 9), "m.yaml:3:");
  EXPECT_EQ(rejection.expected, "well-formed YAML");
}

TEST(Reader, AcceptsSixteenLevelsAndRefusesTheSeventeenth) {
  EXPECT_TRUE(parse(repeated("[", 16) + repeated("]", 16), "m.yaml").ok());
  const Rejection rejection = refused(repeated("[", 17) + repeated("]", 17));
  EXPECT_EQ(rejection.rule, "yaml.too_deep");
  EXPECT_EQ(rejection.subject, "m.yaml:1:17");
  EXPECT_EQ(rejection.expected, "at most 16 levels");
  EXPECT_EQ(rejection.found, "level 17");
}

struct DeepCase {
  const char* opening;
  const char* closing;
  const char* rule;
};

struct DeepParse {
  std::string text;
  std::string rule;
};

void* parse_deep(void* argument) {
  auto* deep = static_cast<DeepParse*>(argument);
  const Result<Node> result = parse(deep->text, "m.yaml");
  deep->rule = result.ok() ? "accepted" : result.rejection().rule;
  return nullptr;
}

class DeepNesting : public ::testing::TestWithParam<DeepCase> {};

TEST_P(DeepNesting, EndsQuicklyOnASmallStack) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{256} * 1024), 0);
  const std::size_t width =
      std::string{GetParam().opening}.size() + std::string{GetParam().closing}.size();
  for (const std::size_t wanted : {std::size_t{1000}, std::size_t{100000}}) {
    const std::size_t count = std::min(wanted, kSizeCap / width);
    DeepParse deep{repeated(GetParam().opening, count) + repeated(GetParam().closing, count), ""};
    const auto begin = std::chrono::steady_clock::now();
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, &attributes, parse_deep, &deep), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    EXPECT_EQ(deep.rule, GetParam().rule);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{2});
  }
  pthread_attr_destroy(&attributes);
}

// Brackets that are never closed are a fault of their own, and the first that the scanner meets.
INSTANTIATE_TEST_SUITE_P(
    Forms, DeepNesting,
    ::testing::Values(DeepCase{"[", "]", "yaml.too_deep"}, DeepCase{"[", "", "yaml.syntax"},
                      DeepCase{"{a: ", "}", "yaml.too_deep"}, DeepCase{"{", "", "yaml.syntax"},
                      DeepCase{"[a, ", "]", "yaml.too_deep"}, DeepCase{"- ", "", "yaml.too_deep"},
                      DeepCase{"? ", "", "yaml.syntax"}));

TEST(Reader, RefusesAnAliasBombAtItsFirstAnchor) {
  std::string text = "a: &a [x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c)
    text += std::string{c} + ": &" + c + " [*" + static_cast<char>(c - 1) + ", *" +
            static_cast<char>(c - 1) + "]\n";
  const Rejection rejection = refused(text);
  EXPECT_EQ(rejection.rule, "yaml.feature");
  EXPECT_EQ(rejection.subject, "m.yaml:1:4");
}

TEST(Reader, RefusesTextOverTheCap) {
  const std::string good = "a: " + std::string(kSizeCap - 3, 'x');
  EXPECT_TRUE(parse(good, "m.yaml").ok());
  const Rejection rejection = refused(good + "x");
  EXPECT_EQ(rejection.rule, "yaml.too_large");
  EXPECT_EQ(rejection.subject, "m.yaml");
  EXPECT_EQ(rejection.expected, "at most 262144 bytes");
  EXPECT_EQ(rejection.found, "262145 bytes");
}

TEST(Reader, ReadsManyKeysInReasonableTime) {
  std::string text;
  for (int i = 0; text.size() < kSizeCap - 32; ++i) text += "k" + std::to_string(i) + ":\n";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(parse(text, "m.yaml").ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{2});
}

class SpecialFile : public ::testing::Test {
 protected:
  void expect_unreadable(const fs::path& path) {
    const Result<Node> result = read(path);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.rejection().rule, "yaml.unreadable");
    EXPECT_NE(result.rejection().subject.find(path.filename().string()), std::string::npos);
  }

  testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(SpecialFile, FolderPipeSocketDeviceAndDanglingLinkAreRefusedWithoutHanging) {
  fs::create_directory(folder_ / "folder.yaml");
  expect_unreadable(folder_ / "folder.yaml");

  ASSERT_EQ(mkfifo((folder_ / "pipe.yaml").c_str(), 0600), 0);
  expect_unreadable(folder_ / "pipe.yaml");

  const int socket_descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (folder_ / "socket.yaml").string();
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(bind(socket_descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  expect_unreadable(folder_ / "socket.yaml");
  close(socket_descriptor);

  fs::create_symlink("/dev/zero", folder_ / "device.yaml");
  expect_unreadable(folder_ / "device.yaml");

  fs::create_symlink(folder_ / "nowhere", folder_ / "dangling.yaml");
  expect_unreadable(folder_ / "dangling.yaml");
}

TEST_F(SpecialFile, AFileOverTheCapIsRefused) {
  std::ofstream{folder_ / "large.yaml"} << "a: " << std::string(kSizeCap, 'x');
  const Result<Node> result = read(folder_ / "large.yaml");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, "yaml.too_large");
}

TEST_F(SpecialFile, ARegularFileIsRead) {
  std::ofstream{folder_ / "good.yaml"} << "a: 1\n";
  const Result<Node> result = read(folder_ / "good.yaml");
  ASSERT_TRUE(result.ok()) << to_string(result.rejection());
  EXPECT_EQ(result->find("a")->text, "1");
}

}  // namespace
}  // namespace opmux::yaml
