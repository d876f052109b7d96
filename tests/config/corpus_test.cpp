// SPDX-License-Identifier: Apache-2.0
//
// Replays the kept inputs of fuzz_config.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/config/config.hpp"

namespace opmux {
namespace {

TEST(ConfigCorpus, EveryKeptInputHasAnAnswer) {
  int count = 0;
  const std::filesystem::path folder =
      std::filesystem::path{OPMUX_SOURCE_DIR} / "tests" / "corpus" / "fuzz_config";
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    std::ifstream stream{entry.path(), std::ios::binary};
    const std::string text{std::istreambuf_iterator<char>{stream}, {}};
    const Result<Config> result = parse_config(text, "opmux.yaml");
    ++count;
    if (result.ok()) continue;
    EXPECT_FALSE(result.rejection().rule.empty()) << entry.path();
    EXPECT_FALSE(result.rejection().subject.empty()) << entry.path();
    EXPECT_FALSE(result.rejection().expected.empty()) << entry.path();
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace opmux
