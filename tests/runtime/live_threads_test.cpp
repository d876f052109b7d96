// SPDX-License-Identifier: Apache-2.0
//
// Cases 59 and 60, field report F18: many callers, one writer, one reader of reports.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/runtime/live_world.hpp"

namespace opmux::testing {
namespace {

constexpr int kCallers = 16;

// The thread sanitizer makes a swap fifty times as dear.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OPMUX_SLOW 1
#endif
#endif
#if defined(OPMUX_SLOW)
constexpr int kSwaps = 600;
#else
constexpr int kSwaps = 10'000;
#endif

// Calls all eight operators in turn until stopped; marks must be of version 1 or 2, whole, and of
// the version that the call's generation says.
class Callers {
 public:
  Callers(const Runtime& runtime,
          const std::function<bool(int version, std::uint64_t generation)>& fits) {
    for (int caller = 0; caller < kCallers; ++caller) {
      threads_.emplace_back([this, &runtime, fits] {
        std::vector<LiveCall> calls;
        for (int number = 0; number < 8; ++number) calls.emplace_back(runtime, number);
        while (!stop_) {
          for (int number = 0; number < 8; ++number) {
            LiveCall& call = calls[static_cast<std::size_t>(number)];
            const std::int64_t seen = call.seen();
            const int version = static_cast<int>(seen / 8);
            if (seen < 0 || seen % 8 != number ||
                !fits(version, call.op.boxed().last_call().generation)) {
              ++wrong_;
            }
          }
          calls_ += 8;
        }
      });
    }
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  ~Callers() { stop(); }

  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  int wrong() const { return wrong_; }
  std::int64_t calls() const { return calls_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> wrong_{0};
  std::atomic<std::int64_t> calls_{0};
  std::vector<std::thread> threads_;
};

TEST(LiveThreadsTest, Case59EveryCallIsRightWhileAWriterSwaps) {
  LiveWorld world;
  world.drop_in("one", "live_1", 60);
  world.drop_in("two", "live_2", 50);
  StatusOr<Runtime> runtime = Runtime::open(world.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const std::uint64_t first = runtime->report().generation;
  // The writer alternates, so a generation's number tells who must have served.
  Callers callers(*runtime, [&](int version, std::uint64_t generation) {
    return version == ((generation - first) % 2 == 0 ? 1 : 2);
  });
  std::atomic<bool> stop{false};
  std::atomic<int> reports{0};
  std::thread reader([&] {
    std::uint64_t last = 0;
    while (!stop) {
      const Report report = runtime->report();
      EXPECT_GE(report.generation, last);
      last = report.generation;
      ++reports;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int swap = 0; swap < kSwaps; ++swap) {
    const Status status = runtime->set_routes({{"live_*", {swap % 2 == 0 ? "two" : "one"}}});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  callers.stop();
  stop = true;
  reader.join();
  EXPECT_EQ(callers.wrong(), 0);
  EXPECT_GT(callers.calls(), 0);
  EXPECT_GT(reports, 0);
  const Report report = runtime->report();
  EXPECT_EQ(report.generation, first + kSwaps);
  std::uint64_t counted = 0;
  for (int number = 0; number < 8; ++number) {
    const std::string name = "live_" + std::to_string(number);
    counted += binding_of(report, name, "one")->calls + binding_of(report, name, "two")->calls;
  }
  EXPECT_EQ(counted, static_cast<std::uint64_t>(callers.calls()));
}

TEST(LiveThreadsTest, Case60NoCallIsInsideAModuleThatIsUnmapped) {
  constexpr int kRounds = 30;
  LiveWorld world;
  world.drop_in("one", "live_unloadable_1", 60);
  world.drop_in("two", "live_unloadable_2", 50);
  world.write_routes("one");
  StatusOr<Runtime> runtime = Runtime::open(world.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  Callers callers(*runtime,
                  [](int version, std::uint64_t) { return version == 1 || version == 2; });
  int unmapped = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string gone = round % 2 == 0 ? "one" : "two";
    world.write_routes(round % 2 == 0 ? "two" : "one");
    const Status status = runtime->reload();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(becomes_true([&] {
      for (const ModuleReport& module : runtime->report().modules) {
        if (module.path == world.module_file(gone).native() && module.state != "unmapped")
          return false;
      }
      return true;
    })) << round;
    ++unmapped;
  }
  callers.stop();
  EXPECT_EQ(callers.wrong(), 0);
  EXPECT_EQ(unmapped, kRounds);
}

}  // namespace
}  // namespace opmux::testing
