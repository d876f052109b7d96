// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <dlfcn.h>

#include "core/loader/loader.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(MapLibrary, MapsByAbsolutePathAndAnswersTheSameHandleAgain) {
  const Result<void*> first = map_library(fakes::path("none"), BindingMode::kNow);
  const Result<void*> second = map_library(fakes::path("none"), BindingMode::kNow);
  ASSERT_TRUE(first.ok()) << to_string(first.rejection());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_NE(dlsym(*first, "fake_answer"), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "fake_answer"), nullptr) << "symbols must stay local";
}

TEST(MapLibrary, RefusesAnythingButAnAbsolutePath) {
  for (const char* path : {"none.so", "./none.so", "libm.so.6"}) {
    const Result<void*> mapped = map_library(path, BindingMode::kNow);
    ASSERT_FALSE(mapped.ok());
    EXPECT_EQ(mapped.rejection().rule, "loader.open_failed");
    EXPECT_EQ(mapped.rejection().subject, path);
    EXPECT_EQ(mapped.rejection().expected, "an absolute path");
    EXPECT_EQ(mapped.rejection().found, "a relative path");
  }
  const Result<void*> empty = map_library("", BindingMode::kNow);
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.rejection().subject, "(empty path)");
  EXPECT_EQ(empty.rejection().found, "no path");
}

TEST(MapLibrary, KeepsTheLinkersOwnWords) {
  const TemporaryFolder folder;
  const std::filesystem::path text = folder.path() / "text.so";
  std::ofstream(text)
      << "not a library, but long enough to hold a header of one, and then some more";
  const Result<void*> mapped = map_library(text, BindingMode::kNow);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.rejection().stage, "loader");
  EXPECT_EQ(mapped.rejection().rule, "loader.open_failed");
  EXPECT_EQ(mapped.rejection().subject, text.native());
  EXPECT_EQ(mapped.rejection().found, text.native() + ": invalid ELF header");
}

TEST(MapLibrary, SaysThatAFileIsNotThere) {
  const Result<void*> mapped = map_library("/nowhere/libnothing.so", BindingMode::kNow);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.rejection().rule, "loader.open_failed");
  EXPECT_EQ(mapped.rejection().found, "no such file");
}

TEST(MapLibrary, BindsEverySymbolAtOnceUnlessAskedToBindLazily) {
  const std::filesystem::path path = fakes::path("unresolved");
  const Result<void*> now = map_library(path, BindingMode::kNow);
  ASSERT_FALSE(now.ok());
  EXPECT_EQ(now.rejection().rule, "loader.open_failed");
  EXPECT_EQ(now.rejection().found,
            path.native() + ": undefined symbol: fake_function_that_nobody_has");
  EXPECT_TRUE(map_library(path, BindingMode::kLazy).ok());
}

// dlopen refuses it, and Boost.DLL would answer with the main program.
TEST(MapLibrary, RefusesTheRunningProgram) {
  const auto program = std::filesystem::canonical("/proc/self/exe");
  const Result<void*> mapped = map_library(program, BindingMode::kNow);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.rejection().rule, "loader.open_failed");
  EXPECT_EQ(mapped.rejection().found, "the running program itself");
}

TEST(MapLibrary, NoticesThatAnotherFileTookThePlaceOfAMappedOne) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "library.so";
  std::filesystem::copy_file(fakes::path("none"), path);
  ASSERT_TRUE(map_library(path, BindingMode::kNow).ok());
  std::filesystem::copy_file(fakes::path("other"), folder.path() / "new.so");
  std::filesystem::rename(folder.path() / "new.so", path);
  const Result<void*> mapped = map_library(path, BindingMode::kNow);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.rejection().rule, "loader.changed");
  EXPECT_EQ(mapped.rejection().subject, path.native());
  EXPECT_THAT(mapped.rejection().expected, HasSubstr("the file that this process mapped"));
}

TEST(MapLibrary, AnotherModeOrLinkIsNoOtherFile) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "library.so";
  std::filesystem::copy_file(fakes::path("none"), path);
  const Result<void*> first = map_library(path, BindingMode::kNow);
  ASSERT_TRUE(first.ok()) << to_string(first.rejection());
  std::filesystem::create_hard_link(path, folder.path() / "other.so");
  const Result<void*> again = map_library(path, BindingMode::kNow);
  ASSERT_TRUE(again.ok()) << to_string(again.rejection());
  EXPECT_EQ(*again, *first);
}

TEST(MapLibrary, UndoesWhatAConstructorDoesToTheProcess) {
  ASSERT_EQ(std::fegetround(), FE_TONEAREST);
  ASSERT_TRUE(map_library(fakes::path("floating_point"), BindingMode::kNow).ok());
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);

  ASSERT_STREQ(std::setlocale(LC_ALL, nullptr), "C");
  ASSERT_TRUE(map_library(fakes::path("locale"), BindingMode::kNow).ok());
  EXPECT_STREQ(std::setlocale(LC_ALL, nullptr), "C");

  ASSERT_TRUE(map_library(fakes::path("signal_handler"), BindingMode::kNow).ok());
  struct sigaction handler {};
  ASSERT_EQ(sigaction(SIGTERM, nullptr, &handler), 0);
  EXPECT_EQ(handler.sa_handler, SIG_DFL);
}

// Two folders that hold a libc10.so and a libtorch_cpu.so each, as two environments do.
class TwoTorches : public ::testing::Test {
 protected:
  TorchInstallation make(const std::string& name, const std::string& version) {
    TorchInstallation torch;
    torch.version = version;
    torch.library_folder = folder_.path() / name;
    std::filesystem::create_directories(torch.library_folder);
    for (const char* file : {"libc10.so", "libtorch_cpu.so", "libtorch.so"}) {
      std::filesystem::copy_file(fakes::path("none"), torch.library_folder / file);
    }
    return torch;
  }

  // What one case maps stays mapped, so each has a process of its own.
  template <class Body>
  void in_own_process(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  TemporaryFolder folder_;
};

TEST_F(TwoTorches, TheSecondIsAConflictAndBothAreNamed) {
  in_own_process([this] {
    const TorchInstallation first = make("first", "2.11.0");
    const TorchInstallation second = make("second", "2.12.0");
    const Check loaded = preload_torch(first, false);
    ASSERT_FALSE(loaded) << to_string(*loaded);
    EXPECT_FALSE(preload_torch(first, false)) << "the same torch again is no conflict";
    const Check conflict = preload_torch(second, false);
    ASSERT_TRUE(conflict);
    EXPECT_EQ(conflict->rule, "loader.torch_conflict");
    EXPECT_EQ(conflict->subject, (second.library_folder / "libc10.so").native());
    EXPECT_EQ(conflict->expected, "the torch that this process holds, " +
                                      (first.library_folder / "libc10.so").native());
    EXPECT_EQ(conflict->found, "torch 2.12.0 in " + second.library_folder.native());
  });
}

// As in a Python process that imported torch before.
TEST_F(TwoTorches, ATorchThatSomebodyElseMappedIsUsedWhenItIsTheSame) {
  in_own_process([this] {
    const TorchInstallation torch = make("first", "2.11.0");
    ASSERT_NE(dlopen((torch.library_folder / "libc10.so").c_str(), RTLD_NOW | RTLD_GLOBAL),
              nullptr);
    const Check loaded = preload_torch(torch, false);
    EXPECT_FALSE(loaded) << to_string(*loaded);
    const Check conflict = preload_torch(make("second", "2.12.0"), false);
    ASSERT_TRUE(conflict);
    EXPECT_EQ(conflict->rule, "loader.torch_conflict");
  });
}

TEST_F(TwoTorches, ABuildWithoutCudaCannotServeOneThatNeedsIt) {
  in_own_process([this] {
    const TorchInstallation torch = make("first", "2.11.0+cpu");
    const Check loaded = preload_torch(torch, true);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->rule, "loader.open_failed");
    EXPECT_EQ(loaded->subject, (torch.library_folder / "libc10_cuda.so").native());
  });
}

TEST(PreloadDriver, IsRefusedWhenThereIsNone) {
  const Check loaded = preload_driver("/nowhere/libcuda.so.1");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->rule, "loader.open_failed");
  EXPECT_EQ(loaded->subject, "/nowhere/libcuda.so.1");
}

}  // namespace
}  // namespace opmux
