// SPDX-License-Identifier: Apache-2.0
//
// What was checked, hashed or not, is what is mapped.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "core/base/descriptor.hpp"
#include "core/base/hash.hpp"
#include "core/loader/loader.hpp"
#include "core/loader/mapped_files.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

FileIdentity identity_of(const fs::path& path) {
  FileIdentity identity;
  EXPECT_TRUE(file_identity(path, identity));
  return identity;
}

TEST(CheckedMapping, MapsTheFileThatWasChecked) {
  const TemporaryFolder folder;
  fs::copy_file(fakes::path("none"), folder / "lib.so");
  const FileIdentity checked = identity_of(folder / "lib.so");
  for (int round = 0; round < 2; ++round) {
    const Result<void*> mapped =
        map_library(folder / "lib.so", BindingMode::kNow, Visibility::kLocal, &checked);
    ASSERT_TRUE(mapped.ok()) << to_string(mapped.rejection());
    EXPECT_NE(dlsym(*mapped, "fake_answer"), nullptr);
  }
}

TEST(CheckedMapping, Case38AnotherFileUnderThePathIsRefusedBeforeItIsMapped) {
  const TemporaryFolder folder;
  fs::copy_file(fakes::path("none"), folder / "lib.so");
  const FileIdentity checked = identity_of(folder / "lib.so");
  fs::copy_file(fakes::path("abort"), folder / "other.so");
  fs::rename(folder / "other.so", folder / "lib.so");
  const Result<void*> mapped =
      map_library(folder / "lib.so", BindingMode::kNow, Visibility::kLocal, &checked);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.rejection().rule, "loader.changed");
  EXPECT_EQ(mapped.rejection().expected, "the file that was checked, " + to_string(checked));
  EXPECT_EQ(mapped.rejection().found, "another file, " + to_string(identity_of(folder / "lib.so")));
}

// The linker answers a path that it mapped before with what it mapped then.
TEST(CheckedMapping, Case21AnEarlierMappingOfThePathIsNotTakenForTheFileThatWasChecked) {
  const TemporaryFolder folder;
  fs::copy_file(fakes::path("none"), folder / "lib.so");
  fs::copy_file(fakes::path("two_answers"), folder / "other.so");
  void* const stale = dlopen((folder / "lib.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(stale, nullptr) << dlerror();
  fs::rename(folder / "other.so", folder / "lib.so");
  const FileIdentity checked = identity_of(folder / "lib.so");
  // A second time as well, when the library is known.
  for (int round = 0; round < 2; ++round) {
    const Result<void*> mapped =
        map_library(folder / "lib.so", BindingMode::kNow, Visibility::kLocal, &checked);
    ASSERT_FALSE(mapped.ok());
    EXPECT_EQ(mapped.rejection().rule, "loader.changed");
    EXPECT_EQ(mapped.rejection().found, "another file was mapped under this path");
  }
}

TEST(CheckedMapping, AModuleIsHeldToWhatWasChecked) {
  const TemporaryFolder folder;
  fs::copy_file(fakes::path("module_none"), folder / "module.so");
  const FileIdentity checked = identity_of(folder / "module.so");
  FileIdentity other = checked;
  ++other.inode;
  const Result<PluginModule> refused = open_module(folder / "module.so", &other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.rejection().rule, "loader.changed");
  EXPECT_TRUE(open_module(folder / "module.so", &checked).ok());
}

TEST(MappingOf, TellsFilesApartByWhatTheKernelMapped) {
  const TemporaryFolder folder;
  fs::copy_file(fakes::path("none"), folder / "mapped.so");
  fs::copy_file(fakes::path("none"), folder / "same_content.so");
  fs::create_hard_link(folder / "mapped.so", folder / "same_file.so");
  void* const handle = dlopen((folder / "mapped.so").c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();
  link_map* map = nullptr;
  ASSERT_EQ(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
  const auto is_of = [&](const char* name) {
    const Descriptor file{::open((folder / name).c_str(), O_RDONLY | O_CLOEXEC)};
    return is_mapping_of(map->l_ld, file.get());
  };
  EXPECT_EQ(is_of("mapped.so"), true);
  EXPECT_EQ(is_of("same_file.so"), true);
  EXPECT_EQ(is_of("same_content.so"), false);
  int on_stack = 0;
  const Descriptor file{::open((folder / "mapped.so").c_str(), O_RDONLY | O_CLOEXEC)};
  EXPECT_EQ(is_mapping_of(&on_stack, file.get()), std::nullopt);
  EXPECT_EQ(is_mapping_of(map->l_ld, -1), std::nullopt);
  dlclose(handle);
}

void exchange(const fs::path& one, const fs::path& other) {
  ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
}

// Exchanges two names for as long as it lives.
class Swapper {
 public:
  Swapper(fs::path one, fs::path other)
      : thread_([this, one = std::move(one), other = std::move(other)] {
          while (!stop_) exchange(one, other);
        }) {}
  ~Swapper() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(RenameRace, Case21WhatWasHashedIsTheFileWhoseIdentityIsTold) {
  const TemporaryFolder folder;
  folder.write("lib.so", "good");
  folder.write("other.so", "evil");
  const FileIdentity good = identity_of(folder / "lib.so");
  const FileIdentity evil = identity_of(folder / "other.so");
  const std::string good_hash = sha256("good");
  const std::string evil_hash = sha256("evil");
  int seen_good = 0;
  int seen_evil = 0;
  const auto look = [&] {
    const std::optional<HashedFile> hashed = hash_file(folder / "lib.so");
    // The change time moves with every rename: what is unsure is refused.
    if (!hashed) return;
    const bool is_good = hashed->sha256 == good_hash;
    ASSERT_TRUE(is_good || hashed->sha256 == evil_hash);
    ASSERT_EQ(hashed->identity.inode, is_good ? good.inode : evil.inode);
    ++(is_good ? seen_good : seen_evil);
  };
  {
    const Swapper swapper(folder / "lib.so", folder / "other.so");
    for (int round = 0; round < 10'000; ++round) {
      // The other thread may get no turn on a machine that is busy.
      if (round % 16 == 0) exchange(folder / "lib.so", folder / "other.so");
      ASSERT_NO_FATAL_FAILURE(look());
    }
  }
  // While it swaps, a look may be sure of one of them alone.
  for (int round = 0; round < 2; ++round) {
    exchange(folder / "lib.so", folder / "other.so");
    ASSERT_NO_FATAL_FAILURE(look());
  }
  EXPECT_GT(seen_good, 0);
  EXPECT_GT(seen_evil, 0) << "nothing was swapped: the test proves nothing";
}

// As map_library does it: open, look, dlopen by name, look again at what was mapped.
TEST(RenameRace, Case21WhatIsAcceptedIsWhatWasCheckedInTenThousandTries) {
  const TemporaryFolder folder;
  fs::copy_file(fakes::path("none"), folder / "lib.so");
  fs::copy_file(fakes::path("two_answers"), folder / "other.so");
  const FileIdentity good = identity_of(folder / "lib.so");
  int accepted = 0;
  int caught_late = 0;
  {
    const Swapper swapper(folder / "lib.so", folder / "other.so");
    for (int round = 0; round < 10'000; ++round) {
      const Descriptor file{::open((folder / "lib.so").c_str(), O_RDONLY | O_CLOEXEC)};
      FileIdentity now;
      if (!file.valid() || !file_identity(file.get(), now) || now.inode != good.inode) continue;
      // The narrow moment is hit for certain now and then.
      if (round % 16 == 0) exchange(folder / "lib.so", folder / "other.so");
      void* const handle = dlopen((folder / "lib.so").c_str(), RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(handle, nullptr) << dlerror();
      link_map* map = nullptr;
      ASSERT_EQ(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
      const std::optional<bool> same = is_mapping_of(map->l_ld, file.get());
      const bool is_good = dlsym(handle, "fake_second_answer") == nullptr;
      ASSERT_TRUE(same.has_value());
      ASSERT_EQ(*same, is_good);
      ++(*same ? accepted : caught_late);
      dlclose(handle);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(caught_late, 0) << "no swap fell between check and dlopen: the test proves nothing";
}

TEST(RenameRace, Case21MapLibraryRefusesOrMapsWhatWasChecked) {
  const TemporaryFolder folder;
  for (int round = 0; round < 60; ++round) {
    const fs::path own = folder / std::to_string(round);
    fs::create_directory(own);
    fs::copy_file(fakes::path("none"), own / "lib.so");
    fs::copy_file(fakes::path("two_answers"), own / "other.so");
    const Swapper swapper(own / "lib.so", own / "other.so");
    const std::optional<HashedFile> hashed = hash_file(own / "lib.so");
    if (!hashed) continue;
    const Result<void*> mapped =
        map_library(own / "lib.so", BindingMode::kNow, Visibility::kLocal, &hashed->identity);
    if (!mapped.ok()) {
      EXPECT_EQ(mapped.rejection().rule, "loader.changed");
      continue;
    }
    const std::optional<std::string> good = sha256_file(fakes::path("none"));
    EXPECT_EQ(hashed->sha256 == *good, dlsym(*mapped, "fake_second_answer") == nullptr);
  }
}

}  // namespace
}  // namespace opmux
