// SPDX-License-Identifier: Apache-2.0
//
// Replays the kept inputs of fuzz_lock.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/lock/lock.hpp"

namespace opmux {
namespace {

TEST(LockCorpus, EveryKeptInputHasAnAnswer) {
  int good = 0;
  int refused = 0;
  const std::filesystem::path folder =
      std::filesystem::path{OPMUX_SOURCE_DIR} / "tests" / "corpus" / "fuzz_lock";
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    std::ifstream stream{entry.path(), std::ios::binary};
    const std::string text{std::istreambuf_iterator<char>{stream}, {}};
    const Result<lock::Lock> result = lock::parse(text, "opmux.lock");
    // Names of inputs that are locks end in .lock.
    EXPECT_EQ(result.ok(), entry.path().extension() == ".lock") << entry.path();
    ++(result.ok() ? good : refused);
    if (result.ok()) continue;
    EXPECT_EQ(result.rejection().rule, "lock.form") << entry.path();
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace opmux
