// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>

#include "core/loader/loader.hpp"

namespace opmux {
namespace {

TEST(HostServices, SayTheAbiThatTheySpeak) {
  EXPECT_EQ(host_services()->struct_size, sizeof(OpmuxHost));
  EXPECT_EQ(host_services()->abi_major, OPMUX_PLUGIN_ABI_MAJOR);
  EXPECT_EQ(host_services(), host_services());
}

TEST(HostServices, KeepAnErrorPerThreadAndGiveItOutOnce) {
  host_services()->set_error("mine");
  std::thread([] {
    EXPECT_EQ(take_module_error(), "");
    host_services()->set_error("theirs");
  }).join();
  EXPECT_EQ(take_module_error(), "mine");
  EXPECT_EQ(take_module_error(), "");
  host_services()->set_error(nullptr);
  EXPECT_EQ(take_module_error(), "");
}

TEST(HostServices, TakeAnyLogLevelAndText) {
  for (const int level : {-5, 0, 5, 99}) host_services()->log(level, nullptr, nullptr);
}

char* workspace(std::size_t bytes) { return static_cast<char*>(host_services()->workspace(bytes)); }

TEST(Workspace, IsAlignedAndDoesNotOverlapWithinACall) {
  reset_workspace();
  constexpr std::size_t kSizes[] = {1, 63, 64, 65, 100000, 3, 1 << 20, 0, 0};
  char* parts[std::size(kSizes)];
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    parts[i] = workspace(kSizes[i]);
    ASSERT_NE(parts[i], nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parts[i]) % 64, 0u);
    std::memset(parts[i], static_cast<int>(i), kSizes[i]);
  }
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    for (std::size_t j = 0; j < kSizes[i]; ++j) ASSERT_EQ(parts[i][j], static_cast<char>(i));
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(parts[i], parts[j]);
  }
  reset_workspace();
}

TEST(Workspace, IsTheSameMemoryInTheNextCall) {
  workspace(1000);
  workspace(5000000);
  reset_workspace();
  char* const first = workspace(1000);
  char* const second = workspace(5000000);
  reset_workspace();
  EXPECT_EQ(workspace(1000), first);
  EXPECT_EQ(workspace(5000000), second);
  reset_workspace();
}

TEST(Workspace, SaysThatThereIsNotEnough) {
  EXPECT_EQ(workspace(SIZE_MAX), nullptr);
  EXPECT_EQ(workspace(SIZE_MAX / 4), nullptr);
  EXPECT_NE(workspace(64), nullptr);
  reset_workspace();
}

}  // namespace
}  // namespace opmux
