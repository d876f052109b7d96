// SPDX-License-Identifier: Apache-2.0
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
using ::testing::HasSubstr;

class LockCommand : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> words) const {
    const std::string manifests = (command_.folder() / "manifests").string();
    fs::create_directories(manifests);
    words.insert(words.end(), {"--manifests", manifests});
    return command_.run(words);
  }
  std::string file() const { return (command_.folder() / "opmux.lock").string(); }
  std::string content() const {
    std::ifstream stream(file());
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void declare_another() const {
    command_.folder().write("manifests/more.yaml",
                            "manifest: 1\ndeclare:\n  more: {schema: \"more(Tensor x, Tensor(a!) "
                            "out) -> ()\"}\n");
  }

  Command command_;
};

TEST_F(LockCommand, WritesChecksAndUpdates) {
  const Outcome written = run({"lock", "--output", file()});
  ASSERT_EQ(written.code, 0) << written.out << written.err;
  EXPECT_THAT(written.out, HasSubstr("wrote " + file() + ": 14 bindings, 0 files"));

  const Outcome good = run({"lock", "--output", file(), "--check"});
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("good: everything is as in " + file()));

  declare_another();
  const Outcome drifted = run({"lock", "--output", file(), "--check"});
  EXPECT_EQ(drifted.code, 1);
  EXPECT_THAT(drifted.out, HasSubstr("lock.manifest"));
  EXPECT_THAT(drifted.out, HasSubstr("1 difference from " + file()));

  const Outcome updated = run({"lock", "--output", file(), "--update"});
  EXPECT_EQ(updated.code, 0) << updated.err;
  EXPECT_THAT(updated.out, HasSubstr("accepted: 1 difference"));
  EXPECT_EQ(run({"lock", "--output", file(), "--check"}).code, 0);
}

TEST_F(LockCommand, TellsDriftsAsJson) {
  ASSERT_EQ(run({"lock", "--output", file(), "--json"}).json().at("bindings"), 14);
  EXPECT_TRUE(run({"lock", "--output", file(), "--check", "--json"}).json().at("drifts").empty());
  declare_another();
  const Outcome drifted = run({"lock", "--output", file(), "--check", "--json"});
  EXPECT_EQ(drifted.code, 1);
  const nlohmann::json drifts = drifted.json().at("drifts");
  ASSERT_EQ(drifts.size(), 1U);
  EXPECT_EQ(drifts[0].at("rule"), "lock.manifest");
  EXPECT_EQ(drifts[0].at("subject"), "more.yaml");
  EXPECT_EQ(drifts[0].at("expected"), "no such manifest");
  EXPECT_EQ(drifts[0].at("hint"),
            "Remove or mask the manifest, or accept it with `opmux lock --update`.");
  const nlohmann::json accepted =
      run({"lock", "--output", file(), "--update", "--json"}).json().at("accepted");
  ASSERT_EQ(accepted.size(), 1U);
  EXPECT_EQ(accepted[0].at("rule"), "lock.manifest");
}

TEST_F(LockCommand, ALockIsNotReplacedUnasked) {
  command_.folder().write("opmux.lock", "before");
  const Outcome refused = run({"lock", "--output", file()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("there is a lock already: " + file()));
  EXPECT_EQ(content(), "before");
}

TEST_F(LockCommand, ABrokenLockIsReplacedByUpdateAndRefusedByCheck) {
  command_.folder().write("opmux.lock", "{\"lock\": 1,");
  const Outcome refused = run({"lock", "--output", file(), "--check"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("lock.form"));
  EXPECT_THAT(refused.err, HasSubstr("opmux.lock: line 1, column 12: expected JSON"));
  EXPECT_THAT(refused.err, ::testing::Not(HasSubstr("exception")));
  EXPECT_EQ(run({"lock", "--output", file(), "--update"}).code, 0);
  EXPECT_EQ(run({"lock", "--output", file(), "--check"}).code, 0);
}

TEST_F(LockCommand, WrongUsage) {
  const Outcome missing = run({"lock", "--output", file(), "--check"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("there is no lock " + file()));
  EXPECT_EQ(run({"lock", "--check", "--update"}).code, 2);
  EXPECT_EQ(run({"lock", "--output", ""}).code, 2);
  EXPECT_EQ(run({"list", "--locked=" + file()}).code, 2);
}

TEST_F(LockCommand, AnUnwritableFolderIsAFindingAndLeavesNothing) {
  const Outcome refused = run({"lock", "--output", file() + "/no/opmux.lock"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("lock.unwritable"));
}

TEST_F(LockCommand, ARefusedManifestIsNotLocked) {
  command_.folder().write("manifests/wrong.yaml", "manifest: 1\nprovider: [x]\n");
  const Outcome refused = run({"lock", "--output", file()});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("lock.incomplete"));
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(LockCommand, LockedStopsEveryCommandThatOpensARuntime) {
  ASSERT_EQ(run({"lock", "--output", file()}).code, 0);
  const std::string locked = "--locked=" + file();
  EXPECT_EQ(run({"list", locked}).code, 0);
  EXPECT_EQ(run({"run", locked, "silu_and_mul", "--repeat", "1"}).code, 0)
      << "--locked takes no word that follows it";
  declare_another();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"list"}, {"explain", "silu_and_mul"}, {"run", "silu_and_mul"}, {"demo"}}) {
    std::vector<std::string> with_lock = words;
    with_lock.push_back(locked);
    const Outcome refused = run(with_lock);
    EXPECT_EQ(refused.code, 1) << words[0] << refused.out;
    EXPECT_THAT(refused.err, HasSubstr("1 difference from " + file())) << words[0];
    EXPECT_THAT(refused.err, HasSubstr("lock.manifest")) << words[0];
  }
  EXPECT_EQ(run({"doctor", locked}).code, 1);
  EXPECT_EQ(run({"list"}).code, 0);
}

}  // namespace
}  // namespace opmux::testing
