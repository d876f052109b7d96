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

struct Generation;

struct BindingCounts {
  std::uint64_t calls = 0;
  std::uint64_t refused_by_condition = 0;
  std::uint64_t refused_by_provider = 0;
  std::uint64_t quarantined = 0;  // calls that passed it by while it was in quarantine
  std::uint64_t errors = 0;
  std::uint64_t shadow_calls = 0;
  std::uint64_t shadow_differences = 0;
  std::uint64_t shadow_errors = 0;
};

// Written by one thread, read by any. One cache line.
struct alignas(64) BindingCounterCell {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> refused_by_condition{0};
  std::atomic<std::uint64_t> refused_by_provider{0};
  std::atomic<std::uint64_t> quarantined{0};
  std::atomic<std::uint64_t> errors{0};
  std::atomic<std::uint64_t> shadow_calls{0};
  std::atomic<std::uint64_t> shadow_differences{0};
  std::atomic<std::uint64_t> shadow_errors{0};

  static void increment(std::atomic<std::uint64_t>& cell) noexcept {
    cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

// One thread's cells of one Counters, and what the thread called last. When the thread ends, the
// next new one goes on with its block.
class CounterBlock {
 public:
  BindingCounterCell& cell(std::uint32_t counter) noexcept {
    if (counter < size_) [[likely]]
      return cells_[counter];
    return grow(counter);
  }

  // Read by the owning thread only.
  std::uint32_t last_served = UINT32_MAX;
  const Generation* last_generation = nullptr;

  // For the owning thread when it ends.
  void give_back() noexcept { is_used_.store(false, std::memory_order_release); }

 private:
  friend class Counters;
  // Without memory the counts of the call are lost, not the call.
  BindingCounterCell& grow(std::uint32_t counter) noexcept;

  // Replaced by its owner under the mutex that readers hold; the owner reads it without.
  std::unique_ptr<BindingCounterCell[]> cells_;
  std::uint32_t size_ = 0;
  std::atomic<bool> is_used_{true};
  std::mutex mutex_;
};

// Which block this thread used last; one compare finds it again.
struct CounterCache {
  std::uint64_t serial = 0;
  CounterBlock* block = nullptr;
};
extern thread_local constinit CounterCache counter_cache __attribute__((tls_model("initial-exec")));

class Counters {
 public:
  Counters();

  // The calling thread's block; taken from a thread that ended, or allocated, at its first call.
  CounterBlock& local() noexcept {
    if (counter_cache.serial == serial_) [[likely]]
      return *counter_cache.block;
    return local_slow();
  }

  BindingCounts sum(std::uint32_t counter) const;
  // As many as there were threads at one time.
  std::size_t block_count() const;

 private:
  CounterBlock& local_slow() noexcept;
  std::shared_ptr<CounterBlock> take_block();

  const std::uint64_t serial_;  // never reused, so that a stale cache cannot match
  mutable std::mutex mutex_;
  // A block outlives its thread, so no count is lost.
  std::vector<std::shared_ptr<CounterBlock>> blocks_;
};

}  // namespace opmux
