// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/discovery/read_all.hpp"

namespace opmux {
namespace {

TEST(DiscoveryCorpus, OfTheFuzzTargetIsReplayed) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/corpus/fuzz_discovery")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
    // Five readers that give parts of their input, and a cache whose entries may share one path.
    EXPECT_LE(testing::read_all(bytes), 5 * bytes.size() + bytes.size() * bytes.size())
        << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8u);
}

}  // namespace
}  // namespace opmux
