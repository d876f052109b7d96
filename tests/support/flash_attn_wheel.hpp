// SPDX-License-Identifier: Apache-2.0
//
// FlashAttention's real library for tests.
//   TEST_OPMUX_FLASH_ATTN_WHEEL   a built wheel of flash-attn, whose Python is that of the torch
//                                 which TEST_OPMUX_TORCH names
// Nothing prepares it: it takes hours to build, and no index offers it built.
#pragma once

#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace opmux::testing {

inline std::filesystem::path flash_attn_wheel() {
  const char* value = ::getenv("TEST_OPMUX_FLASH_ATTN_WHEEL");
  return value == nullptr ? std::filesystem::path{} : std::filesystem::path{value};
}

// Unpacks the wheel as an installer would lay it out. Empty on success, else what failed.
inline std::string unpack_wheel(const std::filesystem::path& wheel,
                                const std::filesystem::path& site_packages) {
  std::filesystem::create_directories(site_packages);
  std::string python = "python3", module = "-m", zipfile = "zipfile", extract = "-e";
  std::string file = wheel.string(), folder = site_packages.string();
  char* arguments[] = {python.data(), module.data(), zipfile.data(), extract.data(),
                       file.data(),   folder.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawnp(&child, "python3", nullptr, nullptr, arguments, ::environ) != 0)
    return "python3 cannot be started";
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0)
    return "python3 -m zipfile -e " + file + " failed";
  return {};
}

}  // namespace opmux::testing

#define OPMUX_REQUIRE_FLASH_ATTN()                                                           \
  do {                                                                                       \
    if (::opmux::testing::flash_attn_wheel().empty())                                        \
      GTEST_SKIP() << "TEST_OPMUX_FLASH_ATTN_WHEEL is not set: a built wheel of flash-attn"; \
    ASSERT_TRUE(std::filesystem::is_regular_file(::opmux::testing::flash_attn_wheel()))      \
        << ::opmux::testing::flash_attn_wheel();                                             \
  } while (false)
