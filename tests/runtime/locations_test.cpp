// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/locations.hpp"

#include <gtest/gtest.h>

namespace opmux {
namespace {

namespace fs = std::filesystem;

TEST(LocationsTest, TheBuildTreeIsFoundFromTheProgram) {
  const fs::path build = fs::canonical(OPMUX_BINARY_DIR);
  EXPECT_EQ(module_folder(), build / "lib/opmux");
  EXPECT_EQ(shipped_manifest_folder(), fs::canonical(build / "share/opmux/manifests"));
  EXPECT_EQ(find_stub_driver(), fs::canonical(build / "lib/opmux/stub/libcuda.so.1"));
}

}  // namespace
}  // namespace opmux
