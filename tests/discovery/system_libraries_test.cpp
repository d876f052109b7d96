// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/discovery/discovery.hpp"
#include "core/discovery/loader_cache.hpp"
#include "tests/support/environment_guard.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::EnvironmentGuard;
using testing::TemporaryFolder;

struct CacheEntry {
  std::string name;
  std::string path;
  std::uint64_t needs = 0;
};

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string make_cache(const std::vector<CacheEntry>& entries) {
  std::string strings;
  std::string table;
  const std::size_t strings_start = 48 + entries.size() * 24;
  for (const CacheEntry& entry : entries) {
    append<std::uint32_t>(table, 0x303);
    append(table, static_cast<std::uint32_t>(strings_start + strings.size()));
    strings += entry.name + '\0';
    append(table, static_cast<std::uint32_t>(strings_start + strings.size()));
    strings += entry.path + '\0';
    append<std::uint32_t>(table, 0);
    append(table, entry.needs);
  }
  std::string bytes = "glibc-ld.so.cache1.1";
  append(bytes, static_cast<std::uint32_t>(entries.size()));
  append(bytes, static_cast<std::uint32_t>(strings.size()));
  bytes.resize(48, '\0');
  return bytes + table + strings;
}

const std::vector<CacheEntry> kEntries = {{"libm.so.6", "/lib/hwcaps/v3/libm.so.6", 7},
                                          {"libm.so.6", "/lib/libm.so.6", 0},
                                          {"libm.so.6", "relative/libm.so.6", 0},
                                          {"libx.so.1", "/lib/libx.so.1", 0}};

TEST(LoaderCache, GivesThePathsOfAName) {
  const std::string bytes = make_cache(kEntries);
  EXPECT_EQ(discovery::cached_paths(bytes, "libm.so.6"),
            (std::vector<fs::path>{"/lib/libm.so.6", "/lib/hwcaps/v3/libm.so.6"}));
  EXPECT_EQ(discovery::cached_paths(bytes, "libx.so.1"), std::vector<fs::path>{"/lib/libx.so.1"});
  EXPECT_TRUE(discovery::cached_paths(bytes, "libm.so").empty());
}

TEST(LoaderCache, IsReadBehindTheOlderForm) {
  std::string bytes = "ld.so-1.7.0";
  bytes.resize(12, '\0');
  append<std::uint32_t>(bytes, 3);
  bytes.resize((16 + 3 * 12 + 7) / 8 * 8, '\0');
  EXPECT_EQ(discovery::cached_paths(bytes + make_cache(kEntries), "libx.so.1"),
            std::vector<fs::path>{"/lib/libx.so.1"});
}

TEST(LoaderCache, SurvivesEveryTruncationAndAbsurdCounts) {
  const std::string bytes = make_cache(kEntries);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    for (const fs::path& path : discovery::cached_paths(bytes.substr(0, size), "libm.so.6"))
      EXPECT_TRUE(path == "/lib/libm.so.6" || path == "/lib/hwcaps/v3/libm.so.6") << path;
  std::string absurd = bytes;
  const std::uint32_t count = 0xffffffff;
  std::memcpy(absurd.data() + 20, &count, sizeof(count));
  EXPECT_LE(discovery::cached_paths(absurd, "libm.so.6").size(), 2u);
  std::string older = "ld.so-1.7.0";
  older.resize(12, '\0');
  append(older, count);
  EXPECT_TRUE(discovery::cached_paths(older, "libm.so.6").empty());
}

TEST(FindSystemLibrary, FindsTheCLibraryAsTheLinkerWould) {
  EnvironmentGuard guard;
  guard.unset("LD_LIBRARY_PATH");
  const fs::path found = find_system_library("libc.so.6");
  EXPECT_TRUE(found.is_absolute());
  EXPECT_EQ(found.filename(), "libc.so.6");
  EXPECT_TRUE(fs::is_regular_file(found));
}

TEST(FindSystemLibrary, PrefersLdLibraryPathWhereTheFileFitsThisMachine) {
  EnvironmentGuard guard;
  guard.unset("LD_LIBRARY_PATH");
  const fs::path real = find_system_library("libc.so.6");
  const TemporaryFolder folder;
  folder.write("text/libc.so.6", "not a library");
  std::ifstream stream(real, std::ios::binary);
  std::string header(64, '\0');
  stream.read(header.data(), 64);
  std::string other_class = header;
  other_class[4] = 1;
  folder.write("narrow/libc.so.6", other_class);
  const fs::path good = folder.write("good/libc.so.6", header);
  guard.set("LD_LIBRARY_PATH", "relative::" + (folder / "text").native() + ":" +
                                   (folder / "narrow").native() + ";" + (folder / "good").native());
  EXPECT_EQ(find_system_library("libc.so.6"), good);
}

TEST(FindSystemLibrary, IsEmptyForWhatIsNotThere) {
  EXPECT_EQ(find_system_library("libopmux-nowhere.so.1"), "");
  EXPECT_EQ(find_system_library(""), "");
  EXPECT_EQ(find_system_library("/lib/x86_64-linux-gnu/libc.so.6"), "");
  EXPECT_EQ(find_system_library("../lib/libc.so.6"), "");
  EXPECT_EQ(find_system_library(std::string(5000, 'x')), "");
}

}  // namespace
}  // namespace opmux
