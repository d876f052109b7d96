// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/discovery/discovery.hpp"
#include "tests/discovery/fake_environment.hpp"
#include "tests/support/environment_guard.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::EnvironmentGuard;
using testing::FakeEnvironment;
using testing::TemporaryFolder;

using Folders = std::vector<fs::path>;

constexpr const char* kWanted =
    "a virtual environment's root, a site-packages or a dist-packages folder";

Folders folders_of(const fs::path& named) {
  const auto search = find_environments({named}, "--environment");
  EXPECT_TRUE(search.rejections.empty())
      << (search.rejections.empty() ? "" : to_string(search.rejections[0]));
  return search.environments.size() == 1 ? search.environments[0].site_packages : Folders{};
}

void expect_bad(const fs::path& named, const std::string& found) {
  const auto search = find_environments({named}, "--environment");
  EXPECT_TRUE(search.environments.empty());
  ASSERT_EQ(search.rejections.size(), 1u);
  EXPECT_EQ(search.rejections[0].rule, "discovery.bad_environment");
  EXPECT_EQ(search.rejections[0].subject, "--environment " + named.native());
  EXPECT_EQ(search.rejections[0].expected, kWanted);
  EXPECT_EQ(search.rejections[0].found, found);
}

void make_executable(const fs::path& path) {
  fs::permissions(path, fs::perms::owner_exec, fs::perm_options::add);
}

TEST(NamedEnvironment, MayBeAVirtualEnvironmentsRoot) {
  const FakeEnvironment fake;
  const auto search = find_environments({fake.root()}, "config");
  ASSERT_EQ(search.environments.size(), 1u);
  EXPECT_EQ(search.environments[0].root, fake.root());
  EXPECT_EQ(search.environments[0].origin, "config");
  EXPECT_EQ(search.environments[0].site_packages, Folders{fake.site()});
}

TEST(NamedEnvironment, HasLib64OnceWhenItIsALink) {
  const FakeEnvironment fake;
  fs::create_directory_symlink("lib", fake.root() / "lib64");
  EXPECT_EQ(folders_of(fake.root()), Folders{fake.site()});
}

TEST(NamedEnvironment, HasLib64AfterLibWhenItIsAFolder) {
  const FakeEnvironment fake;
  const fs::path second = fake.root() / "lib64/python3.12/site-packages";
  fs::create_directories(second);
  EXPECT_EQ(folders_of(fake.root()), (Folders{fake.site(), second}));
}

TEST(NamedEnvironment, PutsTheNewestPythonFirst) {
  const TemporaryFolder folder;
  for (const char* version : {"python3.9", "python3.13t", "python3.13", "python3.2extra"})
    fs::create_directories(folder / "lib" / version / "site-packages");
  EXPECT_EQ(folders_of(folder.path()), (Folders{folder / "lib/python3.13t/site-packages",
                                                folder / "lib/python3.13/site-packages",
                                                folder / "lib/python3.9/site-packages"}));
}

TEST(NamedEnvironment, MayBeASitePackagesFolderItself) {
  const TemporaryFolder folder;
  for (const char* name : {"site-packages", "dist-packages"}) {
    fs::create_directories(folder / name);
    EXPECT_EQ(folders_of(folder / name), Folders{folder / name});
  }
  EXPECT_EQ(folders_of((folder / "site-packages").native() + "/").size(), 1u);
}

TEST(NamedEnvironment, MayBeABareFolderWithMetadataOrPackages) {
  const TemporaryFolder folder;
  folder.write("a/vllm-0.20.2.dist-info/METADATA", "");
  folder.write("b/vllm.egg-info/PKG-INFO", "");
  folder.write("c/package/__init__.py", "");
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(folders_of(folder / name), Folders{folder / name});
}

TEST(NamedEnvironment, MayBeADebianPrefix) {
  const TemporaryFolder folder;
  const Folders expected{folder / "local/lib/python3.11/dist-packages",
                         folder / "lib/python3/dist-packages"};
  for (const fs::path& path : expected) fs::create_directories(path);
  EXPECT_EQ(folders_of(folder.path()), expected);
}

TEST(NamedEnvironment, IncludesSystemPackagesWhenItSaysSo) {
  const TemporaryFolder base;
  fs::create_directories(base / "bin");
  fs::create_directories(base / "lib/python3.12/site-packages");
  const FakeEnvironment fake;
  std::ofstream(fake.root() / "pyvenv.cfg")
      << "home = " << (base / "bin").native() << "\ninclude-system-site-packages = true\n";
  EXPECT_EQ(folders_of(fake.root()), (Folders{fake.site(), base / "lib/python3.12/site-packages"}));
}

TEST(NamedEnvironment, IsRefusedWithWhatIsThere) {
  const TemporaryFolder folder;
  folder.write("file", "");
  fs::create_directories(folder / "empty");
  expect_bad(folder / "missing", "nothing there");
  expect_bad(folder / "file", "a file");
  expect_bad(folder / "empty",
             "a folder without lib/python3.*/site-packages, packages or *.dist-info");
  expect_bad("", "an empty path");
  expect_bad("/" + std::string(5000, 'x'), "File name too long");
}

TEST(NamedEnvironment, ThatIsBrokenDoesNotHideTheNext) {
  const FakeEnvironment fake;
  const auto search = find_environments({"/nowhere-at-all", fake.root()}, "--environment");
  EXPECT_EQ(search.rejections.size(), 1u);
  ASSERT_EQ(search.environments.size(), 1u);
  EXPECT_EQ(search.environments[0].root, fake.root());
}

TEST(NamedEnvironment, MayHaveBlanksAndForeignLettersInItsPath) {
  const TemporaryFolder folder;
  const fs::path root = folder / "a b \xC3\xA9";
  fs::create_directories(root / "lib/python3.12/site-packages");
  EXPECT_EQ(folders_of(root), Folders{root / "lib/python3.12/site-packages"});
}

TEST(DefaultEnvironment, IsVirtualEnvThenCondaPrefix) {
  const FakeEnvironment first;
  const FakeEnvironment second;
  EnvironmentGuard guard;
  guard.set("VIRTUAL_ENV", first.root());
  guard.set("CONDA_PREFIX", second.root());
  auto search = find_environments({}, "");
  ASSERT_EQ(search.environments.size(), 1u);
  EXPECT_EQ(search.environments[0].root, first.root());
  EXPECT_EQ(search.environments[0].origin, "VIRTUAL_ENV");
  guard.set("VIRTUAL_ENV", "");  // as good as unset
  search = find_environments({}, "");
  ASSERT_EQ(search.environments.size(), 1u);
  EXPECT_EQ(search.environments[0].root, second.root());
  EXPECT_EQ(search.environments[0].origin, "CONDA_PREFIX");
}

TEST(DefaultEnvironment, IsNotReplacedSilentlyWhenVirtualEnvIsWrong) {
  const FakeEnvironment second;
  EnvironmentGuard guard;
  guard.set("VIRTUAL_ENV", "/nowhere-at-all");
  guard.set("CONDA_PREFIX", second.root());
  const auto search = find_environments({}, "");
  EXPECT_TRUE(search.environments.empty());
  ASSERT_EQ(search.rejections.size(), 1u);
  EXPECT_EQ(search.rejections[0].rule, "discovery.bad_environment");
  EXPECT_EQ(search.rejections[0].subject, "VIRTUAL_ENV /nowhere-at-all");
  EXPECT_EQ(search.rejections[0].found, "nothing there");
}

class PythonOnPath : public ::testing::Test {
 protected:
  PythonOnPath() {
    guard_.unset("VIRTUAL_ENV");
    guard_.unset("CONDA_PREFIX");
    fs::create_directories(folder_ / "empty");
    guard_.set("PATH", ":.:" + (folder_ / "empty").native() + ":" + (folder_ / "bin").native());
  }
  void python(const std::string& path, const std::string& content =
                                           "\x7f"
                                           "ELF") {
    make_executable(folder_.write(path, content));
  }
  void expect_refused(const std::string& subject, const std::string& found) {
    const auto search = find_environments({}, "");
    EXPECT_TRUE(search.environments.empty());
    ASSERT_EQ(search.rejections.size(), 1u);
    EXPECT_EQ(search.rejections[0].rule, "discovery.no_environment");
    EXPECT_EQ(search.rejections[0].subject, subject);
    EXPECT_EQ(search.rejections[0].found, found);
    EXPECT_EQ(search.rejections[0].hint,
              "Name one with --environment DIR, `environments:` or VIRTUAL_ENV.");
  }
  void expect_found(const fs::path& root, const Folders& folders) {
    const auto search = find_environments({}, "");
    ASSERT_EQ(search.environments.size(), 1u)
        << (search.rejections.empty() ? "" : to_string(search.rejections[0]));
    EXPECT_EQ(search.environments[0].root, root);
    EXPECT_EQ(search.environments[0].origin, "python3 on PATH");
    EXPECT_EQ(search.environments[0].site_packages, folders);
  }

  TemporaryFolder folder_;
  EnvironmentGuard guard_;
};

TEST_F(PythonOnPath, IsAVirtualEnvironmentsWhenPyvenvCfgStandsBeside) {
  python("usr/bin/python3.12");
  folder_.write("venv/pyvenv.cfg", "");
  fs::create_directories(folder_ / "venv/bin");
  fs::create_symlink(folder_ / "usr/bin/python3.12", folder_ / "venv/bin/python3");
  fs::create_directories(folder_ / "venv/lib/python3.12/site-packages");
  fs::create_directories(folder_ / "usr/lib/python3.12/site-packages");
  guard_.set("PATH", (folder_ / "venv/bin").native());
  expect_found(folder_ / "venv", {folder_ / "venv/lib/python3.12/site-packages"});
}

TEST_F(PythonOnPath, IsFollowedThroughALinkToAVirtualEnvironment) {
  python("usr/bin/python3.12");
  folder_.write("venv/pyvenv.cfg", "");
  fs::create_directories(folder_ / "venv/bin");
  fs::create_directories(folder_ / "bin");
  fs::create_symlink(folder_ / "usr/bin/python3.12", folder_ / "venv/bin/python3");
  fs::create_symlink("../venv/bin/python3", folder_ / "bin/python3");
  fs::create_directories(folder_ / "venv/lib/python3.12/site-packages");
  expect_found(folder_ / "venv", {folder_ / "venv/lib/python3.12/site-packages"});
}

TEST_F(PythonOnPath, TellsItsVersionByItsRealName) {
  python("bin/python3.11");
  fs::create_symlink("python3.11", folder_ / "bin/python3");
  const Folders expected{folder_ / "local/lib/python3.11/dist-packages",
                         folder_ / "lib/python3/dist-packages"};
  for (const fs::path& path : expected) fs::create_directories(path);
  fs::create_directories(folder_ / "local/lib/python3.12/dist-packages");  // another Python's
  expect_found(folder_.path(), expected);
}

TEST_F(PythonOnPath, ThatIsAScriptIsNotRun) {
  python("bin/python3", "#!/bin/sh\ntouch " + (folder_ / "ran").native() + "\n");
  fs::create_directories(folder_ / "lib/python3.12/site-packages");
  expect_refused((folder_ / "bin/python3").native(),
                 "a script, as pyenv's shims are, which would have to be run");
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(PythonOnPath, WithoutPackagesIsRefused) {
  python("bin/python3.11");
  fs::create_symlink("python3.11", folder_ / "bin/python3");
  expect_refused(
      (folder_ / "bin/python3").native(),
      "no site-packages or dist-packages folder of python3.11 below " + folder_.path().native());
}

TEST_F(PythonOnPath, ThatHidesItsVersionIsRefused) {
  python("bin/wrapper");
  fs::create_symlink("wrapper", folder_ / "bin/python3");
  expect_refused((folder_ / "bin/python3").native(),
                 "`" + (folder_ / "bin/wrapper").native() + "`, which does not tell its version");
}

TEST_F(PythonOnPath, ThatIsMissingIsSaid) {
  expect_refused("environment",
                 "VIRTUAL_ENV and CONDA_PREFIX are not set and no python3 is on PATH");
}

// A python3 in the current folder must not be met through an empty or relative part of PATH.
TEST_F(PythonOnPath, IsNotLookedForInTheCurrentFolder) {
  python("here/python3");
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "here");
  expect_refused("environment",
                 "VIRTUAL_ENV and CONDA_PREFIX are not set and no python3 is on PATH");
  fs::current_path(before);
}

}  // namespace
}  // namespace opmux
