// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/locations.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

TEST(LocationsTest, TheBuildTreeIsFoundFromTheProgram) {
  const fs::path build = fs::canonical(OPMUX_BINARY_DIR);
  EXPECT_EQ(module_folder(), build / "lib/opmux");
  EXPECT_EQ(shipped_manifest_folder(), fs::canonical(build / "share/opmux/manifests"));
  EXPECT_EQ(find_stub_driver(), fs::canonical(build / "lib/opmux/stub/libcuda.so.1"));
}

// A program that was started through PATH has a bare name, which may be the name of something in
// the current folder.
TEST(LocationsTest, TheCurrentFolderDoesNotMatter) {
  const testing::TemporaryFolder folder;
  folder.write("opmux", "");
  const std::string command =
      "cd '" + folder.path().string() + "' && exec -a opmux '" +
      fs::read_symlink("/proc/self/exe").string() +
      "' --gtest_filter=LocationsTest.TheBuildTreeIsFoundFromTheProgram > /dev/null";
  EXPECT_EQ(std::system(("bash -c \"" + command + "\"").c_str()), 0);
}

}  // namespace
}  // namespace opmux
