// SPDX-License-Identifier: Apache-2.0
//
// Counters per binding and thread. A thread writes only its own block, with plain stores; readers
// sum over the blocks, so a call pays no read-modify-write and no shared cache line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace opmux {

struct BindingCounts {
  std::uint64_t calls = 0;
  std::uint64_t refused = 0;
  std::uint64_t errors = 0;
};

// Written by one thread, read by any.
struct BindingCounterCell {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> errors{0};

  static void increment(std::atomic<std::uint64_t>& cell) noexcept {
    cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

class Counters;

// One thread's cells of one Counters.
struct CounterBlock {
  explicit CounterBlock(std::size_t size) : cells(size) {}
  std::vector<BindingCounterCell> cells;
  std::uint32_t last_served = UINT32_MAX;  // read by the owning thread only
};

// Which block this thread used last; one compare finds it again.
struct CounterCache {
  std::uint64_t serial = 0;
  CounterBlock* block = nullptr;
};
extern thread_local constinit CounterCache counter_cache __attribute__((tls_model("initial-exec")));

class Counters {
 public:
  // `size` is the number of bindings that can ever be counted, fixed for the object's life.
  explicit Counters(std::size_t size);

  // The calling thread's block; allocated at the thread's first call.
  CounterBlock& local() noexcept {
    if (counter_cache.serial == serial_) [[likely]]
      return *counter_cache.block;
    return local_slow();
  }

  BindingCounts sum(std::uint32_t binding) const;

 private:
  CounterBlock& local_slow() noexcept;

  const std::uint64_t serial_;  // never reused, so that a stale cache cannot match
  const std::size_t size_;
  mutable std::mutex mutex_;
  // A block outlives its thread, so no count is lost.
  std::vector<std::unique_ptr<CounterBlock>> blocks_;
};

}  // namespace opmux
