// SPDX-License-Identifier: Apache-2.0
#include "core/base/files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/descriptor.hpp"
#include "core/base/rules.hpp"
#include "tests/support/environment_guard.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReadRegularFile : public ::testing::Test {
 protected:
  static Result<std::string> read(const std::filesystem::path& path, std::size_t cap) {
    return read_regular_file(path, cap, rules::kYamlUnreadable, rules::kYamlTooLarge);
  }
  static void expect_unreadable(const std::filesystem::path& path, const std::string& found) {
    const Result<std::string> result = read(path, 100);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.rejection().rule, "yaml.unreadable");
    EXPECT_EQ(result.rejection().stage, "yaml");
    EXPECT_EQ(result.rejection().subject, path.string());
    EXPECT_EQ(result.rejection().expected, "a regular file that can be read");
    EXPECT_EQ(result.rejection().found, found);
    EXPECT_EQ(result.rejection().hint, rules::kYamlUnreadable.remedy);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ReadRegularFile, ReturnsEveryByte) {
  const std::string content{"a\0b\r\n\xff", 6};
  const Result<std::string> result = read(folder_.write("file", content), 100);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, content);
}

TEST_F(ReadRegularFile, EmptyFileIsEmptyText) {
  const Result<std::string> result = read(folder_.write("file", ""), 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, "");
}

TEST_F(ReadRegularFile, TakesExactlyTheCap) {
  const auto file = folder_.write("file", std::string(100, 'x'));
  ASSERT_TRUE(read(file, 100).ok());
  const Result<std::string> result = read(file, 99);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, "yaml.too_large");
  EXPECT_EQ(result.rejection().expected, "at most 99 bytes");
  EXPECT_EQ(result.rejection().found, "100 bytes");
}

TEST_F(ReadRegularFile, FileThatHidesItsSizeIsReadAndCapped) {
  // fstat says 0 bytes for files of /proc.
  const Result<std::string> whole = read("/proc/self/status", 1 << 20);
  ASSERT_TRUE(whole.ok());
  EXPECT_THAT(*whole, HasSubstr("Pid:"));
  EXPECT_THAT(*whole, HasSubstr("Threads:"));
  const Result<std::string> capped = read("/proc/self/status", 10);
  ASSERT_FALSE(capped.ok());
  EXPECT_EQ(capped.rejection().rule, "yaml.too_large");
  EXPECT_EQ(capped.rejection().expected, "at most 10 bytes");
}

TEST_F(ReadRegularFile, MissingFile) {
  expect_unreadable(folder_ / "missing", "No such file or directory");
}

TEST_F(ReadRegularFile, FolderIsRefused) { expect_unreadable(folder_.path(), "a folder"); }

TEST_F(ReadRegularFile, DeviceIsRefused) { expect_unreadable("/dev/zero", "a device"); }

TEST_F(ReadRegularFile, PipeIsRefusedAtOnce) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto start = std::chrono::steady_clock::now();
  expect_unreadable(pipe, "a pipe");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{5});
}

TEST_F(ReadRegularFile, SocketIsRefused) {
  const auto path = folder_ / "socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.native().size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  const Descriptor listener{::socket(AF_UNIX, SOCK_STREAM, 0)};
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  expect_unreadable(path, "No such device or address");
}

TEST_F(ReadRegularFile, HostileNameIsShownEscaped) {
  const Result<std::string> result = read(folder_ / "a\x1b[31m", 100);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().subject, folder_.path().string() + "/a\\x1b[31m");
}

class WriteFileAtomically : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator{folder_.path()})
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  static std::string read(const std::filesystem::path& path) {
    return read_regular_file(path, 1 << 20, rules::kYamlUnreadable, rules::kYamlTooLarge).value();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(WriteFileAtomically, CreatesAReadableFileAndNothingElse) {
  const std::string content{"line\n\0end", 9};
  EXPECT_EQ(write_file_atomically(folder_ / "file", content), "");
  EXPECT_EQ(read(folder_ / "file"), content);
  EXPECT_THAT(names(), ::testing::ElementsAre("file"));
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0644U);
}

TEST_F(WriteFileAtomically, ReplacesTheNameAndLeavesTheOldFileToItsReaders) {
  const auto file = folder_.write("file", "old");
  const Descriptor reader{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  EXPECT_EQ(write_file_atomically(file, "new"), "");
  EXPECT_EQ(read(file), "new");
  char bytes[8] = {};
  EXPECT_EQ(::read(reader.get(), bytes, sizeof(bytes)), 3);
  EXPECT_STREQ(bytes, "old");
}

TEST_F(WriteFileAtomically, ReplacesALinkAndNotWhatItPointsTo) {
  const auto target = folder_.write("target", "kept");
  std::filesystem::create_symlink(target, folder_ / "link");
  EXPECT_EQ(write_file_atomically(folder_ / "link", "new"), "");
  EXPECT_EQ(read(target), "kept");
  EXPECT_EQ(read(folder_ / "link"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(folder_ / "link"));
}

TEST_F(WriteFileAtomically, MissingFolderIsNamed) {
  const std::string folder = (folder_ / "missing").string();
  EXPECT_EQ(write_file_atomically(folder_ / "missing/file", "x"),
            "cannot open the folder " + folder + ": No such file or directory");
}

TEST_F(WriteFileAtomically, FailureToReplaceLeavesNothing) {
  std::filesystem::create_directories(folder_ / "taken/inside");
  const std::string taken = (folder_ / "taken").string();
  EXPECT_EQ(write_file_atomically(taken, "x"),
            "cannot replace " + taken + ": it is a folder, and only a regular file is replaced");
  EXPECT_THAT(names(), ::testing::ElementsAre("taken"));
}

TEST_F(WriteFileAtomically, NeitherPipeNorDeviceIsReplaced) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", folder_ / "link");
  EXPECT_EQ(
      write_file_atomically(pipe, "x"),
      "cannot replace " + pipe.string() + ": it is a pipe, and only a regular file is replaced");
  EXPECT_THAT(write_file_atomically(folder_ / "link", "x"), ::testing::HasSubstr("a device"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
}

// Case 54: a disk that is full.
TEST_F(WriteFileAtomically, FailureToWriteLeavesTheOldFileAndNothingElse) {
  const auto file = folder_.write("file", "old");
  // A limit on file size makes write fail without root's exemptions and without a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto previous = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = write_file_atomically(file, std::string(100000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, previous);
  EXPECT_EQ(error, "cannot write " + file.string() + ": File too large");
  EXPECT_EQ(read(file), "old");
  EXPECT_THAT(names(), ::testing::ElementsAre("file"));
}

// Case 54.
TEST_F(WriteFileAtomically, ReaderSeesOldOrNewButNoMixture) {
  const auto file = folder_ / "file";
  const std::string first(50000, 'a');
  const std::string second(70000, 'b');
  ASSERT_EQ(write_file_atomically(file, first), "");
  std::jthread writer{[&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i)
      EXPECT_EQ(write_file_atomically(file, i % 2 == 0 ? second : first), "");
  }};
  for (int i = 0; i < 200; ++i) {
    const std::string content = read(file);
    ASSERT_TRUE(content == first || content == second) << content.size();
  }
}

// Case 54: kill -9 during a write.
TEST_F(WriteFileAtomically, AWriterThatIsKilledLeavesOldOrNew) {
  const auto file = folder_ / "file";
  const std::string first(50000, 'a');
  const std::string second(70000, 'b');
  ASSERT_EQ(write_file_atomically(file, first), "");
  for (int round = 0; round < 20; ++round) {
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0)
      for (int i = 0;; ++i) write_file_atomically(file, i % 2 == 0 ? second : first);
    ::usleep(1000 + 700 * static_cast<useconds_t>(round));
    ASSERT_EQ(::kill(writer, SIGKILL), 0);
    ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
    const std::string content = read(file);
    ASSERT_TRUE(content == first || content == second) << content.size();
  }
}

TEST(FileIdentity, ChangesWithTheFileAndNotWithoutIt) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("file", "abc");
  FileIdentity first;
  FileIdentity again;
  ASSERT_TRUE(file_identity(file, first));
  ASSERT_TRUE(file_identity(file, again));
  EXPECT_EQ(first, again);
  EXPECT_EQ(first.size, 3U);

  FileIdentity other;
  ASSERT_TRUE(file_identity(folder.write("other", "abc"), other));
  EXPECT_NE(first, other);

  ASSERT_EQ(write_file_atomically(file, "abd"), "");
  FileIdentity replaced;
  ASSERT_TRUE(file_identity(file, replaced));
  EXPECT_NE(first.inode, replaced.inode);
  EXPECT_NE(first, replaced);
}

TEST(FileIdentity, SeesAChangeThatRestoresSizeAndModificationTime) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("file", "abc");
  FileIdentity before;
  ASSERT_TRUE(file_identity(file, before));
  const auto time = std::filesystem::last_write_time(file);
  // The kernel's clock of file times moves in ticks of some milliseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  folder.write("file", "xyz");
  std::filesystem::last_write_time(file, time);
  FileIdentity after;
  ASSERT_TRUE(file_identity(file, after));
  EXPECT_EQ(before.modified_ns, after.modified_ns);
  EXPECT_NE(before.changed_ns, after.changed_ns);
}

TEST(FileIdentity, FollowsLinksAndFailsOnMissingFiles) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("file", "abc");
  std::filesystem::create_symlink(file, folder / "link");
  FileIdentity direct;
  FileIdentity linked;
  ASSERT_TRUE(file_identity(file, direct));
  ASSERT_TRUE(file_identity(folder / "link", linked));
  EXPECT_EQ(direct, linked);
  EXPECT_FALSE(file_identity(folder / "missing", direct));
}

TEST(FileIdentity, TextHoldsEveryPart) {
  EXPECT_EQ(to_string(FileIdentity{1, 2, 3, -4, 5}), "1:2:3:-4:5");
}

TEST(UserFolders, FollowTheXdgVariables) {
  testing::EnvironmentGuard guard;
  guard.set("XDG_CACHE_HOME", "/somewhere/cache");
  guard.set("XDG_CONFIG_HOME", "/somewhere/config");
  EXPECT_EQ(user_cache_folder(), "/somewhere/cache/opmux");
  EXPECT_EQ(user_config_folder(), "/somewhere/config/opmux");
}

TEST(UserFolders, FallBackToTheHomeFolder) {
  testing::EnvironmentGuard guard;
  guard.set("XDG_CACHE_HOME", "relative/is/ignored");
  guard.unset("XDG_CONFIG_HOME");
  guard.set("HOME", "/home/someone");
  EXPECT_EQ(user_cache_folder(), "/home/someone/.cache/opmux");
  EXPECT_EQ(user_config_folder(), "/home/someone/.config/opmux");
}

TEST(UserFolders, AreEmptyWithoutAHome) {
  testing::EnvironmentGuard guard;
  guard.unset("XDG_CACHE_HOME");
  guard.unset("XDG_CONFIG_HOME");
  guard.unset("HOME");
  EXPECT_THAT(user_cache_folder().native(), IsEmpty());
  EXPECT_THAT(user_config_folder().native(), IsEmpty());
}

}  // namespace
}  // namespace opmux
