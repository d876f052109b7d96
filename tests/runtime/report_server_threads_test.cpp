// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/live_world.hpp"
#include "tests/runtime/report_client.hpp"

namespace opmux::testing {
namespace {

TEST(ReportServerThreadsTest, ReportsBySocketAreWholeWhileRoutesChangeUnderLoad) {
  LiveWorld world;
  world.drop_in("one", "live_1", 60);
  world.drop_in("two", "live_2", 50);
  const std::filesystem::path socket = world.folder() / "report.sock";
  Options options = world.options();
  options.report_socket = socket;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  ASSERT_EQ(runtime->report().report_socket, socket.string());

  Load load(*runtime);
  std::atomic<bool> stop{false};
  std::atomic<int> reports{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      std::uint64_t last = 0;
      while (!stop) {
        const nlohmann::json report = nlohmann::json::parse(ask(socket), nullptr, false);
        const std::uint64_t generation = report.is_object() ? report.value("generation", 0ULL) : 0;
        if (generation < last || generation == 0) ++wrong;
        last = generation;
        ++reports;
      }
    });
  }
  int swaps = 0;
  while (swaps < 300 || reports < 30) {
    ASSERT_TRUE(runtime->set_routes({{"live_*", {swaps % 2 == 0 ? "two" : "one"}}}).ok());
    ++swaps;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  load.stop();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(load.wrong(), 0);
  EXPECT_EQ(nlohmann::json::parse(ask(socket)).at("generation"), 1 + swaps);
}

TEST(ReportServerThreadsTest, RuntimesOpenAndCloseWhileClientsAsk) {
  LiveWorld world;
  const std::filesystem::path socket = world.folder() / "report.sock";
  Options options = world.options();
  options.report_socket = socket;
  std::atomic<bool> stop{false};
  std::atomic<int> answers{0};
  std::thread client([&] {
    while (!stop) {
      if (ask(socket).starts_with("{\n")) ++answers;
    }
  });
  int rounds = 0;
  while (rounds < 5 || answers < 5) {
    const StatusOr<Runtime> runtime = Runtime::open(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    ASSERT_EQ(runtime->report().report_socket, socket.string()) << rounds;
    const int before = answers;
    ASSERT_TRUE(becomes_true([&] { return answers > before; }));
    ++rounds;
  }
  stop = true;
  client.join();
}

}  // namespace
}  // namespace opmux::testing
