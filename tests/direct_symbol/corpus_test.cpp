// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "plugins/direct_symbol/signature.hpp"

namespace opmux::direct_symbol {
namespace {

TEST(SymbolSignatureCorpus, OfTheFuzzTargetIsReplayed) {
  std::size_t files = 0;
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/corpus/fuzz_symbol_signature")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    Signature signature;
    std::string why;
    if (parse_signature(text, signature, why)) {
      Signature again;
      EXPECT_TRUE(parse_signature(to_string(signature), again, why)) << entry.path() << ": " << why;
      EXPECT_EQ(again, signature) << entry.path();
      ++read;
    } else {
      EXPECT_NE(why, "") << entry.path();
    }
    ++files;
  }
  EXPECT_GE(files, 8u);
  EXPECT_GE(read, 3u);
}

}  // namespace
}  // namespace opmux::direct_symbol
