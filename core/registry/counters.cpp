// SPDX-License-Identifier: Apache-2.0
#include "core/registry/counters.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <unordered_map>
#include <utility>

namespace opmux {

thread_local constinit CounterCache counter_cache{};

namespace {

constexpr std::uint32_t kSmallestBlock = 64;

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return serial.fetch_add(1) + 1;
}

// All blocks of this thread, for threads that use several runtimes in turn. Behind a key of
// pthreads and not thread_local: its destructor runs after those of thread_local objects, which may
// still call operators, and again for what such calls make.
using ThreadBlocks = std::unordered_map<std::uint64_t, std::shared_ptr<CounterBlock>>;

void give_back_blocks(void* value) noexcept {
  const std::unique_ptr<ThreadBlocks> blocks(static_cast<ThreadBlocks*>(value));
  counter_cache = {};
  for (const auto& [serial, block] : *blocks) block->give_back();
}

std::shared_ptr<CounterBlock>& block_of_this_thread(std::uint64_t serial) {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, &give_back_blocks) != 0) throw std::bad_alloc();
    return made;
  }();
  auto* blocks = static_cast<ThreadBlocks*>(pthread_getspecific(key));
  if (blocks == nullptr) {
    auto made = std::make_unique<ThreadBlocks>();
    if (pthread_setspecific(key, made.get()) != 0) throw std::bad_alloc();
    blocks = made.release();
  }
  return (*blocks)[serial];
}

// Where counts go that there is no memory for.
BindingCounterCell lost_counts;
// This thread's block without cells. Never destroyed: to register a destructor takes memory.
alignas(
    CounterBlock) thread_local constinit std::array<std::byte, sizeof(CounterBlock)> lost_storage{};
thread_local constinit CounterBlock* lost_block = nullptr;

CounterBlock& lost_block_of_this_thread() noexcept {
  if (lost_block == nullptr) lost_block = new (lost_storage.data()) CounterBlock;
  return *lost_block;
}

using CellMember = std::atomic<std::uint64_t> BindingCounterCell::*;
using CountMember = std::uint64_t BindingCounts::*;
constexpr std::array<std::pair<CellMember, CountMember>, 8> kMembers{{
    {&BindingCounterCell::calls, &BindingCounts::calls},
    {&BindingCounterCell::refused_by_condition, &BindingCounts::refused_by_condition},
    {&BindingCounterCell::refused_by_provider, &BindingCounts::refused_by_provider},
    {&BindingCounterCell::quarantined, &BindingCounts::quarantined},
    {&BindingCounterCell::errors, &BindingCounts::errors},
    {&BindingCounterCell::shadow_calls, &BindingCounts::shadow_calls},
    {&BindingCounterCell::shadow_differences, &BindingCounts::shadow_differences},
    {&BindingCounterCell::shadow_errors, &BindingCounts::shadow_errors},
}};

}  // namespace

BindingCounterCell& CounterBlock::grow(std::uint32_t counter) noexcept {
  if (this == lost_block) return lost_counts;
  const std::uint32_t size = std::max({kSmallestBlock, counter + 1, size_ * 2});
  std::unique_ptr<BindingCounterCell[]> cells(new (std::nothrow) BindingCounterCell[size]);
  if (cells == nullptr) return lost_counts;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 0; index < size_; ++index) {
    for (const auto& [cell, count] : kMembers) {
      (cells[index].*cell)
          .store((cells_[index].*cell).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }
  cells_ = std::move(cells);
  size_ = size;
  return cells_[counter];
}

Counters::Counters() : serial_(next_serial()) {}

std::size_t Counters::block_count() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

std::shared_ptr<CounterBlock> Counters::take_block() {
  const std::lock_guard lock(mutex_);
  for (const auto& block : blocks_) {
    if (!block->is_used_.exchange(true, std::memory_order_acquire)) {
      block->last_served = UINT32_MAX;
      block->last_generation = nullptr;
      return block;
    }
  }
  blocks_.push_back(std::make_shared<CounterBlock>());
  return blocks_.back();
}

CounterBlock& Counters::local_slow() noexcept {
  try {
    std::shared_ptr<CounterBlock>& block = block_of_this_thread(serial_);
    if (block == nullptr) block = take_block();
    counter_cache = {serial_, block.get()};
    return *block;
  } catch (const std::bad_alloc&) {
    return lost_block_of_this_thread();
  }
}

BindingCounts Counters::sum(std::uint32_t counter) const {
  BindingCounts total;
  const std::lock_guard lock(mutex_);
  for (const auto& block : blocks_) {
    const std::lock_guard block_lock(block->mutex_);
    if (counter >= block->size_) continue;
    const BindingCounterCell& cells = block->cells_[counter];
    for (const auto& [cell, count] : kMembers)
      total.*count += (cells.*cell).load(std::memory_order_relaxed);
  }
  return total;
}

}  // namespace opmux
