// SPDX-License-Identifier: Apache-2.0
#include "core/registry/counters.hpp"

#include <algorithm>
#include <array>
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

// All blocks of this thread, for threads that use several runtimes in turn.
std::unordered_map<std::uint64_t, CounterBlock*>& blocks_of_this_thread() {
  thread_local std::unordered_map<std::uint64_t, CounterBlock*> blocks;
  return blocks;
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
  const std::uint32_t size = std::max({kSmallestBlock, counter + 1, size_ * 2});
  auto cells = std::make_unique<BindingCounterCell[]>(size);
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

CounterBlock& Counters::local_slow() noexcept {
  CounterBlock*& block = blocks_of_this_thread()[serial_];
  if (block == nullptr) {
    auto fresh = std::make_unique<CounterBlock>();
    block = fresh.get();
    const std::lock_guard lock(mutex_);
    blocks_.push_back(std::move(fresh));
  }
  counter_cache = {serial_, block};
  return *block;
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
