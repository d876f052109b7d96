// SPDX-License-Identifier: Apache-2.0
//
// Replays the fuzz target's corpus, and every single-byte change of the small libraries in it.
#include <chrono>
#include <filesystem>

#include "core/elf/elf.hpp"
#include "core/elf/exports.hpp"
#include "tests/elf/fixtures.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace opmux {
namespace {

using testing::Image;

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  const auto folder = std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/corpus/fuzz_elf";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  return files;
}

void run(const Image& image) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(image.bytes().data()), image.size());
}

TEST(ElfCorpus, IsReadWithoutHarm) {
  const auto files = corpus();
  EXPECT_GE(files.size(), 8U);
  std::size_t accepted = 0;
  for (const auto& path : files) {
    const Image image = Image::of_file(path);
    const auto begin = std::chrono::steady_clock::now();
    run(image);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << path;
    accepted += read(image).ok() ? 1 : 0;
  }
#if defined(__x86_64__)
  EXPECT_GE(accepted, 4U) << "the libraries of the corpus are no longer accepted";
#endif
}

TEST(ElfCorpus, EveryByteMayBeAnything) {
  for (const auto& path : corpus()) {
    Image image = Image::of_file(path);
    if (!read(image).ok() || image.size() > 8192) continue;
    for (std::size_t offset = 0; offset < image.size(); ++offset) {
      const auto before = image.get<unsigned char>(offset);
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff, before ^ 1, before ^ 0x10}) {
        image.put(offset, static_cast<unsigned char>(value));
        run(image);
        if (value != 0xff) continue;
        const auto result = read(image);
        if (!result.ok()) {
          ASSERT_EQ(result.rejection().stage, "contract");
          ASSERT_FALSE(result.rejection().expected.empty());
          ASSERT_FALSE(result.rejection().found.empty());
        }
      }
      image.put(offset, before);
    }
  }
}

}  // namespace
}  // namespace opmux
