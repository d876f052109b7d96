// SPDX-License-Identifier: Apache-2.0
#include "core/registry/counters.hpp"

#include <unordered_map>

namespace opmux {

thread_local constinit CounterCache counter_cache{};

namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return serial.fetch_add(1) + 1;
}

// All blocks of this thread, for threads that use several runtimes in turn.
std::unordered_map<std::uint64_t, CounterBlock*>& blocks_of_this_thread() {
  thread_local std::unordered_map<std::uint64_t, CounterBlock*> blocks;
  return blocks;
}

}  // namespace

Counters::Counters(std::size_t size) : serial_(next_serial()), size_(size) {}

CounterBlock& Counters::local_slow() noexcept {
  CounterBlock*& block = blocks_of_this_thread()[serial_];
  if (block == nullptr) {
    auto fresh = std::make_unique<CounterBlock>(size_);
    block = fresh.get();
    const std::lock_guard lock(mutex_);
    blocks_.push_back(std::move(fresh));
  }
  counter_cache = {serial_, block};
  return *block;
}

BindingCounts Counters::sum(std::uint32_t binding) const {
  BindingCounts total;
  const std::lock_guard lock(mutex_);
  for (const auto& block : blocks_) {
    const BindingCounterCell& cell = block->cells[binding];
    total.calls += cell.calls.load(std::memory_order_relaxed);
    total.refused += cell.refused.load(std::memory_order_relaxed);
    total.errors += cell.errors.load(std::memory_order_relaxed);
  }
  return total;
}

}  // namespace opmux
