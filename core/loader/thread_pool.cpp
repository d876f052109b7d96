// SPDX-License-Identifier: Apache-2.0
#include "core/loader/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/log.hpp"
#include "core/loader/loader.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace opmux::thread_pool {

namespace {

// More chunks than threads, so that a thread that is scheduled late does not hold up the rest.
constexpr std::int64_t kChunksPerThread = 4;
// How long an idle thread looks for the next range before it sleeps: some microseconds, about what
// waking it would cost.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// One parallel_for, on its caller's stack. Everything but `next_chunk` is guarded by the pool's
// mutex or constant.
struct Job {
  OpmuxRangeFunction body;
  void* context;
  std::int64_t size;
  std::int64_t chunks;
  std::atomic<std::int64_t> next_chunk{0};
  int workers = 0;  // that hold a pointer to this job
  Job* next = nullptr;

  bool has_work() const { return next_chunk.load(std::memory_order_relaxed) < chunks; }

  void run() {
    const std::int64_t base = size / chunks;
    const std::int64_t longer = size % chunks;  // the first chunks take one more
    for (;;) {
      const std::int64_t chunk = next_chunk.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunks) return;
      const std::int64_t begin = chunk * base + std::min(chunk, longer);
      body(context, begin, begin + base + (chunk < longer ? 1 : 0));
    }
  }
};

// Nested ranges run inline: the thread that meets one is already a part of a range.
thread_local bool inside_range = false;

class Pool {
 public:
  static Pool& instance() {
    // Never destroyed: its threads wait on it until the process ends.
    static Pool* const pool = std::make_unique<Pool>().release();
    return *pool;
  }

  void set_thread_count(int threads) {
    const std::lock_guard lock(mutex_);
    if (!started_) requested_ = threads;
  }

  void run(std::int64_t size, std::int64_t grain, OpmuxRangeFunction body, void* context) {
    const int threads = start();
    const std::int64_t chunks =
        std::min<std::int64_t>(size / grain, std::int64_t{threads} * kChunksPerThread);
    if (threads == 1 || chunks < 2) {
      body(context, 0, size);
      return;
    }
    Job job{.body = body, .context = context, .size = size, .chunks = chunks};
    {
      const std::lock_guard lock(mutex_);
      job.next = jobs_;
      jobs_ = &job;
      published_.fetch_add(1, std::memory_order_release);
    }
    if (chunks > threads) {
      work_.notify_all();
    } else {
      for (std::int64_t i = 1; i < chunks; ++i) work_.notify_one();
    }
    inside_range = true;
    job.run();
    inside_range = false;
    std::unique_lock lock(mutex_);
    Job** link = &jobs_;
    while (*link != &job) link = &(*link)->next;
    *link = job.next;
    done_.wait(lock, [&job] { return job.workers == 0; });
  }

 private:
  // The number of threads, after starting them if this is the first range. Never throws: with fewer
  // threads than asked for the work is done by fewer.
  int start() {
    if (const int threads = threads_.load(std::memory_order_acquire); threads != 0) return threads;
    const std::lock_guard lock(mutex_);
    if (started_) return threads_.load(std::memory_order_relaxed);
    started_ = true;
    int wanted =
        requested_ > 0 ? requested_ : static_cast<int>(std::thread::hardware_concurrency());
    wanted = std::max(wanted, 1);
    // The host's signals are handled by the host's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int running = 1;
    try {
      while (running < wanted) {
        std::thread([this] { work(); }).detach();
        ++running;
      }
    } catch (const std::system_error& error) {
      log::warn("parallel_for uses " + std::to_string(running) + " threads in place of " +
                std::to_string(wanted) + ": " + error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().continue_after_fork(); });
    threads_.store(running, std::memory_order_release);
    return running;
  }

  [[noreturn]] void work() {
    inside_range = true;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (Job* const job = find_job()) {
        ++job->workers;
        lock.unlock();
        job->run();
        reset_workspace();
        lock.lock();
        if (--job->workers == 0) done_.notify_all();
        continue;
      }
      const std::uint64_t seen = published_.load(std::memory_order_relaxed);
      lock.unlock();
      for (int i = 0; i < kSpins && published_.load(std::memory_order_acquire) == seen; ++i) {
        relax();
      }
      lock.lock();
      work_.wait(lock, [this, seen] {
        return published_.load(std::memory_order_relaxed) != seen || find_job() != nullptr;
      });
    }
  }

  Job* find_job() const {
    for (Job* job = jobs_; job != nullptr; job = job->next) {
      if (job->has_work()) return job;
    }
    return nullptr;
  }

  // The child of a fork has the forking thread alone; ranges run inline there. Nobody will report
  // the end of a chunk that another thread had taken.
  void continue_after_fork() {
    for (Job* job = jobs_; job != nullptr; job = job->next) job->workers = 0;
    threads_.store(1, std::memory_order_relaxed);
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  Job* jobs_ = nullptr;                      // guarded by mutex_
  bool started_ = false;                     // guarded by mutex_
  int requested_ = 0;                        // guarded by mutex_
  std::atomic<int> threads_{0};              // 0 until started
  std::atomic<std::uint64_t> published_{0};  // changed under mutex_, watched without it
};

}  // namespace

void set_thread_count(int threads) { Pool::instance().set_thread_count(threads); }

void parallel_for(std::int64_t size, std::int64_t grain, OpmuxRangeFunction body,
                  void* context) noexcept {
  if (size <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (size / grain < 2 || inside_range) {
    body(context, 0, size);
    return;
  }
  Pool::instance().run(size, grain, body, context);
}

}  // namespace opmux::thread_pool
