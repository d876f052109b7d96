// SPDX-License-Identifier: Apache-2.0
//
// What the command accepts and leaves behind; tests/install/new_plugin.sh builds what it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NewPluginTest : public ::testing::Test {
 protected:
  NewPluginTest() { fs::create_directory(parent_); }

  Outcome make(const std::string& name, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"new-plugin", name, "--output", (parent_ / "made").string()});
    return command_.run(options);
  }
  std::vector<std::string> in_parent() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(parent_))
      names.push_back(entry.path().filename().string());
    return names;
  }
  std::string content(const std::string& file) const {
    std::ifstream stream(parent_ / "made" / file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  Command command_;
  fs::path parent_ = command_.folder() / "parent";
};

TEST_F(NewPluginTest, ExampleInTheTreeIsWhatTheCommandWrites) {
  const Outcome outcome = make("example_provider", {"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const fs::path example = OPMUX_SOURCE_DIR "/examples/provider";
  std::size_t files = 0;
  const nlohmann::json report = outcome.json();
  for (const nlohmann::json& name : report.at("files")) {
    std::ifstream stream(example / name.get<std::string>());
    const std::string expected{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(content(name), expected) << name;
    ++files;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(example))
    if (!entry.is_directory()) --files;
  EXPECT_EQ(files, 0U);
  EXPECT_THAT(in_parent(), ElementsAre("made"));
}

TEST_F(NewPluginTest, EveryMarkIsFilledIn) {
  for (const char* operator_name : {"silu_and_mul", "relu_squared"}) {
    const Outcome outcome = make("mine", {"--json", "--operator", operator_name});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json report = outcome.json();
    ASSERT_EQ(report.at("files").size(), 5U);
    for (const nlohmann::json& name : report.at("files"))
      EXPECT_THAT(content(name), Not(HasSubstr("@"))) << name;
    EXPECT_THAT(content("mine.cpp"), HasSubstr('"' + std::string{operator_name} + "(Tensor input"));
    fs::remove_all(parent_ / "made");
  }
}

TEST_F(NewPluginTest, NewOperatorIsDeclaredAndAnExistingOneIsNot) {
  ASSERT_EQ(make("mine", {"--operator", "relu_squared"}).code, 0);
  EXPECT_THAT(content("mine.yaml"), HasSubstr("\ndeclare:\n  relu_squared:\n"));
  fs::remove_all(parent_ / "made");
  ASSERT_EQ(make("mine").code, 0);
  EXPECT_THAT(content("mine.yaml"), Not(HasSubstr("declare")));
}

TEST_F(NewPluginTest, BadNameSaysWhatIsAllowed) {
  for (const std::string name :
       {"", "1st", "my-plugin", "a/b", "../x", "_x", "caf\xc3\xa9", std::string(65, 'a').c_str()}) {
    const Outcome outcome = make(name);
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_THAT(outcome.err, HasSubstr("is no name for a plugin.")) << name;
    EXPECT_THAT(outcome.err, HasSubstr("letters, digits and _, first a letter, at most 64"));
  }
  const Outcome outcome = make("mine", {"--operator", "relu squared"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("`relu squared` is no name for an operator."));
  EXPECT_THAT(in_parent(), IsEmpty());
}

TEST_F(NewPluginTest, TakenNameNamesTheManifest) {
  const Outcome outcome = make("vllm");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(".yaml describes a provider or plugin of this name."));
  EXPECT_EQ(make("direct_symbol").code, 2);
  EXPECT_EQ(make("native_cuda").code, 2);
  EXPECT_THAT(in_parent(), IsEmpty());
}

TEST_F(NewPluginTest, ExistingOperatorWithoutAKernelIsRefused) {
  const Outcome outcome = make("mine", {"--operator", "rms_norm"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("`rms_norm` is an operator that exists"));
  EXPECT_THAT(outcome.err, HasSubstr("opmux new-plugin mine"));
  EXPECT_THAT(in_parent(), IsEmpty());
}

TEST_F(NewPluginTest, ExistingFolderIsLeftAlone) {
  fs::create_directory(parent_ / "made");
  Outcome outcome = make("mine");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("is there already; nothing was written."));
  EXPECT_TRUE(fs::is_empty(parent_ / "made"));
  fs::remove(parent_ / "made");
  // A link that leads nowhere is there, too.
  fs::create_symlink(parent_ / "nowhere", parent_ / "made");
  outcome = make("mine");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(in_parent(), ElementsAre("made"));
}

TEST_F(NewPluginTest, MissingParentIsToldAndNothingIsLeft) {
  const Outcome outcome = command_.run(
      {"new-plugin", "mine", "--output", (parent_ / "no" / "such" / "folder").string()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("No such file or directory. Nothing was written."));
  EXPECT_THAT(in_parent(), IsEmpty());
}

TEST_F(NewPluginTest, NextStepsTakeNoPathForAnOption) {
  const fs::path before = fs::current_path();
  fs::current_path(parent_);  // of the command, too
  const Outcome outcome = command_.run({"new-plugin", "mine", "--output=-x y", "--json"});
  fs::current_path(before);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json next = outcome.json().at("next");
  EXPECT_THAT(next.at(0).get<std::string>(), HasSubstr("cmake -S './-x y' -B './-x y/build' "));
  EXPECT_EQ(next.at(1), "cmake --build './-x y/build'");
  EXPECT_THAT(next.at(3).get<std::string>(), HasSubstr("--manifests './-x y/build/drop-in'"));
}

TEST_F(NewPluginTest, NextStepsQuoteOddPaths) {
  fs::create_directory(parent_ / "it's here");
  const Outcome outcome = command_.run({"new-plugin", "mine", "--json", "--output",
                                        (parent_ / "it's here" / "mine").string() + "/"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string first = outcome.json().at("next").at(0);
  EXPECT_THAT(first, HasSubstr("/it'\\''s here/mine' "));
  EXPECT_TRUE(fs::exists(parent_ / "it's here" / "mine" / "mine.cpp"));
}

}  // namespace
}  // namespace opmux::testing
