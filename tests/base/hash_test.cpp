// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

}  // namespace
}  // namespace opmux
