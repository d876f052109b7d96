// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/discovery/discovery.hpp"
#include "tests/discovery/fake_environment.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::FakeEnvironment;
using testing::TemporaryFolder;

TEST(ExtensionPythonVersion, IsWhatTheFileNameTells) {
  EXPECT_EQ(extension_python_version("/a/x.cpython-312-x86_64-linux-gnu.so"), "3.12");
  EXPECT_EQ(extension_python_version("x.cpython-39-x86_64-linux-gnu.so"), "3.9");
  EXPECT_EQ(extension_python_version("x.cpython-313t-x86_64-linux-gnu.so"), "3.13t");
  EXPECT_EQ(extension_python_version("x.cpython-312.so"), "3.12");
}

TEST(ExtensionPythonVersion, IsEmptyForNamesThatTellNone) {
  for (const char* name :
       {"x.abi3.so", "x.so", "", "x.cpython-3", "x.cpython-3-linux.so", "x.cpython-tt.so",
        "/a.cpython-312/x.so", "x.pypy310-pp73-x86_64-linux-gnu.so"})
    EXPECT_EQ(extension_python_version(name), "") << name;
}

// Of a version that no machine has.
constexpr const char* kVersion = "3.99";
constexpr const char* kName = "libpython3.99.so.1.0";

void expect_found(const std::vector<PythonEnvironment>& environments, const fs::path& path) {
  const auto python = find_libpython(kVersion, environments);
  ASSERT_TRUE(python.ok()) << to_string(python.rejection());
  EXPECT_EQ(python->path, path);
  EXPECT_EQ(python->soname, kName);
  EXPECT_EQ(python->version, kVersion);
}

TEST(FindLibpython, IsTheEnvironmentsOwn) {
  const FakeEnvironment fake;
  expect_found(
      fake.environments(),
      fake.write(std::string("../../../lib/") + kName).parent_path().lexically_normal() / kName);
}

TEST(FindLibpython, IsThatOfThePythonThatTheEnvironmentWasMadeWith) {
  const FakeEnvironment fake;
  const TemporaryFolder python;
  const fs::path library = python.write(std::string("lib/") + kName, "x");
  fs::create_directories(python / "bin");
  fake.write("../../../pyvenv.cfg", "home = " + (python / "bin").string() + "\n");
  expect_found(fake.environments(), library);
}

TEST(FindLibpython, FollowsTheProgramWhereItIsALinkIntoAnInstallation) {
  const FakeEnvironment fake;
  const TemporaryFolder links;
  const TemporaryFolder python;
  const fs::path library = python.write(std::string("lib64/") + kName, "x");
  fs::create_directories(links / "bin");
  fs::create_symlink(python.write("bin/python3.99", "x"), links / "bin/python3");
  fake.write("../../../pyvenv.cfg", "home = " + (links / "bin").string() + "\n");
  expect_found(fake.environments(), library);
}

TEST(FindLibpython, IsFoundFromASitePackagesFolder) {
  const TemporaryFolder python;
  const fs::path library = python.write(std::string("lib/") + kName, "x");
  fs::create_directories(python / "lib/python3.99/site-packages");
  const auto environments =
      find_environments({python / "lib/python3.99/site-packages"}, "--environment").environments;
  ASSERT_EQ(environments.size(), 1u);
  expect_found(environments, library);
}

TEST(FindLibpython, IsOfTheFirstEnvironmentThatHasIt) {
  const FakeEnvironment none;
  const TemporaryFolder first;
  const TemporaryFolder second;
  const fs::path library = first.write(std::string("lib/") + kName, "x");
  second.write(std::string("lib/") + kName, "x");
  for (const TemporaryFolder* python : {&first, &second})
    fs::create_directories(*python / "lib/python3.99/site-packages");
  expect_found(
      find_environments({none.root(), first.path(), second.path()}, "--environment").environments,
      library);
}

TEST(FindLibpython, IsARealPath) {
  const TemporaryFolder python;
  fs::create_directories(python / "lib/python3.99/site-packages");
  const fs::path library = python.write("elsewhere/libpython.so", "x");
  fs::create_symlink(library, python / "lib" / kName);
  expect_found(find_environments({python.path()}, "--environment").environments, library);
}

TEST(FindLibpython, OfTheBuildWithoutTheGlobalLockIsAnotherFile) {
  const TemporaryFolder python;
  fs::create_directories(python / "lib/python3.99t/site-packages");
  python.write(std::string("lib/") + kName, "x");
  const auto environments = find_environments({python.path()}, "--environment").environments;
  EXPECT_FALSE(find_libpython("3.99t", environments).ok());
  const fs::path library = python.write("lib/libpython3.99t.so.1.0", "x");
  const auto found = find_libpython("3.99t", environments);
  ASSERT_TRUE(found.ok()) << to_string(found.rejection());
  EXPECT_EQ(found->path, library);
  EXPECT_EQ(found->soname, "libpython3.99t.so.1.0");
}

TEST(FindLibpython, NamesTheFoldersWhereThereIsNone) {
  const FakeEnvironment fake;  // its home is /nowhere/bin
  OPMUX_EXPECT_REJECTION(
      find_libpython(kVersion, fake.environments()), "discovery.libpython_missing", kName,
      std::string(kName) + ", which a true Python extension needs",
      "none in the system's folders or in " + (fake.root() / "lib").native() + ", /nowhere/lib");
  OPMUX_EXPECT_REJECTION(find_libpython(kVersion, {}), "discovery.libpython_missing", kName,
                         std::string(kName) + ", which a true Python extension needs",
                         "none in the system's folders");
}

TEST(FindLibpython, DoesNotTakeAFolderOfThatName) {
  const TemporaryFolder python;
  fs::create_directories(python / "lib/python3.99/site-packages");
  fs::create_directories(python / "lib" / kName);
  const auto environments = find_environments({python.path()}, "--environment").environments;
  EXPECT_FALSE(find_libpython(kVersion, environments).ok());
}

}  // namespace
}  // namespace opmux
