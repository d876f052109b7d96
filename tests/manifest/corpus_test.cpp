// SPDX-License-Identifier: Apache-2.0
//
// Replays the kept inputs of fuzz_manifest, and the shipped manifests cut at many places.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator{folder})
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string content(const fs::path& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

// Whatever the text is, the outcome is a manifest or at least one rejection with all its parts.
void expect_an_answer(const std::string& text) {
  const auto result = parse_manifest(text, "m.yaml", operators());
  const auto* rejections = std::get_if<std::vector<Rejection>>(&result);
  if (rejections == nullptr) return;
  ASSERT_FALSE(rejections->empty());
  for (const Rejection& rejection : *rejections) {
    EXPECT_FALSE(rejection.rule.empty());
    EXPECT_FALSE(rejection.subject.empty());
    EXPECT_FALSE(rejection.expected.empty());
    EXPECT_FALSE(rejection.hint.empty());
  }
}

TEST(ManifestCorpus, EveryKeptInputHasAnAnswer) {
  const std::vector<fs::path> files =
      files_below(fs::path{OPMUX_SOURCE_DIR} / "tests" / "corpus" / "fuzz_manifest");
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) expect_an_answer(content(file));
}

TEST(ManifestCorpus, EveryShippedManifestHasAnAnswerWhereverItIsCut) {
  const std::vector<fs::path> files = files_below(fs::path{OPMUX_SOURCE_DIR} / "manifests");
  for (const fs::path& file : files) {
    if (file.extension() != ".yaml") continue;
    const std::string text = content(file);
    const std::size_t step = std::max<std::size_t>(1, text.size() / 40);
    for (std::size_t size = 0; size <= text.size(); size += step)
      expect_an_answer(text.substr(0, size));
  }
}

// The most names that fit under the size cap, none of which is near another.
TEST(ManifestCorpus, ManyUnknownNamesAreAnsweredInTime) {
  std::string text = "manifest: 1\nprovider: p\nplugin: p\ndeclare:\n";
  for (int i = 0; text.size() < 130000; ++i) {
    const std::string name = "a" + std::to_string(i);
    text += " " + name + ": {schema: \"" + name + "() -> ()\"}\n";
  }
  text += "operators:\n";
  for (int i = 0; text.size() < 250000; ++i) text += " b" + std::to_string(i) + ": {}\n";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(refused(text).size(), 20U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{3});
}

}  // namespace
}  // namespace opmux
