// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/loader/loader.hpp"
#include "core/probe/sanitizers.hpp"

namespace opmux {
namespace {

// More threads than the machine may have cores, so that they really interleave.
constexpr int kThreads = 4;

template <class Body>
void parallel_for(std::int64_t size, std::int64_t grain, Body body) {
  host_services()->parallel_for(
      size, grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        (*static_cast<Body*>(context))(begin, end);
      },
      &body);
}

class ParallelFor : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_thread_count(kThreads); }
};

TEST_F(ParallelFor, CoversEveryIndexOnceInChunksOfAtLeastTheGrain) {
  for (const std::int64_t size : {1, 2, 7, 64, 1000, 12345}) {
    for (const std::int64_t grain : {0, 1, 3, 64, 1000, 100000}) {
      std::vector<int> hits(static_cast<std::size_t>(size));
      std::atomic<std::int64_t> smallest{size};
      parallel_for(size, grain, [&](std::int64_t begin, std::int64_t end) {
        ASSERT_LE(0, begin);
        ASSERT_LT(begin, end);
        ASSERT_LE(end, size);
        for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        std::int64_t seen = smallest.load();
        while (end - begin < seen && !smallest.compare_exchange_weak(seen, end - begin)) {
        }
      });
      EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), size);
      EXPECT_GE(smallest.load(), std::min(size, grain)) << size << " by " << grain;
    }
  }
}

TEST_F(ParallelFor, DoesNothingForAnEmptyRange) {
  int calls = 0;
  parallel_for(0, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  parallel_for(-5, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

TEST_F(ParallelFor, KeepsASmallRangeOnTheCallersThread) {
  std::vector<std::pair<std::int64_t, std::int64_t>> chunks;
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(199, 100, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    chunks.emplace_back(begin, end);
  });
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0], std::make_pair(std::int64_t{0}, std::int64_t{199}));
}

TEST_F(ParallelFor, UsesItsThreads) {
  // Each chunk waits until a second thread has come, so one thread alone cannot finish.
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(kThreads * 4, 1, [&](std::int64_t, std::int64_t) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        if (threads.size() >= 2) return;
      }
      if (std::chrono::steady_clock::now() > until) return;
      std::this_thread::yield();
    }
  });
  EXPECT_GE(threads.size(), 2u);
  EXPECT_LE(threads.size(), static_cast<std::size_t>(kThreads));
}

TEST_F(ParallelFor, RunsNestedRangesInline) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(16, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::thread::id thread = std::this_thread::get_id();
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(100, 1, [&](std::int64_t inner_begin, std::int64_t inner_end) {
        EXPECT_EQ(std::this_thread::get_id(), thread);
        sum += inner_end - inner_begin;
      });
    }
  });
  EXPECT_EQ(sum.load(), 1600);
}

TEST_F(ParallelFor, ServesManyCallersAtOnce) {
  constexpr int kCallers = 6;
  constexpr int kRounds = 400;
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&wrong, caller] {
      for (int round = 0; round < kRounds; ++round) {
        const std::int64_t size = 100 + caller * 37 + round % 13;
        std::vector<std::int64_t> values(static_cast<std::size_t>(size));
        parallel_for(size, 8, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += i;
        });
        // Written by other threads: visible now, without any lock of ours.
        std::int64_t sum = 0;
        for (const std::int64_t value : values) sum += value;
        if (sum != size * (size - 1) / 2) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(ParallelFor, GivesEachThreadItsOwnWorkspace) {
  std::atomic<int> wrong{0};
  for (int round = 0; round < 50; ++round) {
    parallel_for(64, 1, [&](std::int64_t begin, std::int64_t) {
      auto* const mine = static_cast<std::int64_t*>(host_services()->workspace(4096));
      for (int i = 0; i < 512; ++i) mine[i] = begin;
      std::this_thread::yield();
      for (int i = 0; i < 512; ++i) {
        if (mine[i] != begin) ++wrong;
      }
    });
    reset_workspace();
  }
  EXPECT_EQ(wrong.load(), 0);
}

#if !defined(OPMUX_WITH_THREAD_SANITIZER)  // which does not support threads after a fork
TEST_F(ParallelFor, GoesOnWithoutThreadsInTheChildOfAFork) {
  parallel_for(1000, 1, [](std::int64_t, std::int64_t) {});
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    while (!stop) parallel_for(64, 1, [](std::int64_t, std::int64_t) {});
  });
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<std::int64_t> sum{0};
      parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      _exit(sum.load() == 1000 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
}
#endif

}  // namespace
}  // namespace opmux
