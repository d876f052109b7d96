// SPDX-License-Identifier: Apache-2.0
//
// Cases 20 and 56: who could change a file.
#include "core/base/trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/base/log.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr uid_t kStranger = 65534;

class TrustTest : public ::testing::Test {
 protected:
  TrustTest() : before_(::umask(022)), file_(folder_.write("a/b/lib.so", "x")) {}
  ~TrustTest() override {
    log::set_level(log::Level::kWarn);
    ::umask(before_);
  }

  static void set_mode(const fs::path& path, mode_t mode) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  void expect_refused(const fs::path& path, const std::string& rule, const std::string& found) {
    const Check refused = check_trust(path);
    ASSERT_TRUE(refused) << path;
    EXPECT_EQ(refused->stage, "trust");
    EXPECT_EQ(refused->rule, rule);
    EXPECT_EQ(refused->subject, path.string());
    EXPECT_EQ(refused->found, found);
  }

  const mode_t before_;
  TemporaryFolder folder_;
  fs::path file_;
};

TEST_F(TrustTest, AFileOfOnesOwnIsTrusted) { EXPECT_FALSE(check_trust(file_)); }

TEST_F(TrustTest, Case20AFileThatOthersMayWriteIsRefusedWithItsMode) {
  set_mode(file_, 0646);
  expect_refused(file_, "trust.writable", "it has mode 0646");
  set_mode(file_, 0664);
  expect_refused(file_, "trust.writable", "it has mode 0664");
  EXPECT_EQ(check_trust(file_)->expected, "nobody else who may write it");
  EXPECT_EQ(check_trust(file_)->hint, "chmod go-w what is named.");
}

TEST_F(TrustTest, Case20AnyFolderAboveThatOthersMayWriteIsRefused) {
  for (const char* name : {"a/b", "a"}) {
    set_mode(folder_ / name, 0775);
    expect_refused(file_, "trust.writable",
                   (folder_ / name).string() + ", on the way to it, has mode 0775");
    set_mode(folder_ / name, 0755);
  }
  EXPECT_FALSE(check_trust(file_));
}

TEST_F(TrustTest, Case20AnotherOwnerIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(file_.c_str(), kStranger, kStranger), 0);
  expect_refused(file_, "trust.owner", "it belongs to user 65534, mode 0644");
  ASSERT_EQ(::chown(file_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((folder_ / "a").c_str(), kStranger, kStranger), 0);
  expect_refused(file_, "trust.owner",
                 (folder_ / "a").string() + ", on the way to it, belongs to user 65534, mode 0755");
}

TEST_F(TrustTest, Case20ALinkIsFollowedAndEachFolderOnBothWaysCounts) {
  fs::create_directories(folder_ / "links");
  const fs::path link = folder_ / "links/lib.so";
  fs::create_symlink("../a/b/lib.so", link);
  EXPECT_FALSE(check_trust(link));
  set_mode(folder_ / "links", 0777);
  expect_refused(link, "trust.writable",
                 (folder_ / "links").string() + ", on the way to it, has mode 0777");
  set_mode(folder_ / "links", 0755);
  set_mode(folder_ / "a", 0777);
  expect_refused(link, "trust.writable",
                 (folder_ / "a").string() + ", on the way to it, has mode 0777");
}

TEST_F(TrustTest, Case20ALinkOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give links away";
  const fs::path link = folder_ / "a/link.so";
  fs::create_symlink(file_, link);
  ASSERT_EQ(::lchown(link.c_str(), kStranger, kStranger), 0);
  const Check refused = check_trust(link);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rule, "trust.owner");
}

TEST_F(TrustTest, ALinkToItselfEnds) {
  fs::create_symlink("loop", folder_ / "loop");
  const Check refused = check_trust(folder_ / "loop");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rule, "trust.owner");
  EXPECT_THAT(refused->found, HasSubstr("Too many levels of symbolic links"));
}

// Nobody may rename what others own in a sticky folder, so it is a good enough way; but anybody may
// put a library beside one that lies in it.
TEST_F(TrustTest, AStickyFolderIsAWayAndNoPlace) {
  set_mode(folder_ / "a", 01777);
  EXPECT_FALSE(check_trust(file_));
  EXPECT_FALSE(check_trust(folder_ / "a/b"));
  const fs::path inside = folder_.write("a/lib.so", "x");
  expect_refused(inside, "trust.writable",
                 (folder_ / "a").string() + ", on the way to it, has mode 1777");
  expect_refused(folder_ / "a", "trust.writable", "it has mode 1777");
}

TEST_F(TrustTest, WhatIsNotThereIsNoQuestionOfTrust) {
  EXPECT_FALSE(check_trust(folder_ / "a/none.so"));
  EXPECT_FALSE(check_trust(""));
  EXPECT_EQ(existing_part(folder_ / "a/none/deeper"), folder_ / "a");
}

TEST_F(TrustTest, Case20LaxTrustWarnsOnceWithTheModeAndStrictTrustRefuses) {
  set_mode(file_, 0666);
  log::set_level(log::Level::kWarn);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(require_trust(file_, Trust::kLax));
  EXPECT_FALSE(require_trust(file_, Trust::kLax));
  std::fflush(stderr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[opmux] [warn] " + file_.string() +
                ": it has mode 0666; others could change what is loaded [trust.writable]\n");
  EXPECT_TRUE(require_trust(file_, Trust::kStrict));
}

}  // namespace
}  // namespace opmux
