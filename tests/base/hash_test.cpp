// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "core/base/descriptor.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

// The vectors of FIPS 180-2.
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256File, EqualsTheHashOfItsContentOverSeveralBlocks) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(sha256_file(folder.write("million", std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256_file(folder.write("empty", "")), sha256(""));
}

TEST(Sha256File, NothingForWhatIsNoReadableFile) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(sha256_file(folder / "missing"), std::nullopt);
  EXPECT_EQ(sha256_file(folder.path()), std::nullopt);
  EXPECT_EQ(sha256_file("/dev/zero"), std::nullopt);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(sha256_file(folder / "pipe"), std::nullopt);
}

TEST(HashFile, TellsWhichFileWasRead) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("file", "abc");
  FileIdentity identity;
  ASSERT_TRUE(file_identity(file, identity));
  const std::optional<HashedFile> hashed = hash_file(file);
  ASSERT_TRUE(hashed);
  EXPECT_EQ(hashed->sha256, sha256("abc"));
  EXPECT_EQ(hashed->identity, identity);
  EXPECT_FALSE(hash_file(folder / "none"));
  EXPECT_FALSE(hash_file(folder.path()));
}

// Case 38: the hash of a file that is written to meanwhile is the hash of nothing.
TEST(HashFile, OfAFileThatIsWrittenToMeanwhileIsNone) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("file", "x");
  // Long enough to read that the clock of the file system moves on.
  std::filesystem::resize_file(file, std::uintmax_t{128} * 1024 * 1024);
  const Descriptor writable{::open(file.c_str(), O_WRONLY | O_CLOEXEC)};
  ASSERT_TRUE(writable.valid());
  const std::jthread writer{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_EQ(::pwrite(writable.get(), "y", 1, 0), 1);
  }};
  EXPECT_FALSE(hash_file(file));
}

}  // namespace
}  // namespace opmux
