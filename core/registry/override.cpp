// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/registry/registry.hpp"

namespace opmux {

namespace detail {
void Override::release() noexcept {
  if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) std::unique_ptr<Override>(this).reset();
}

thread_local constinit Override* innermost_override = nullptr;
thread_local constinit int held_calls = 0;
}  // namespace detail

namespace {

// Takes ended overrides out of this thread's list. Only the owner changes the list.
void remove_ended() {
  if (detail::held_calls > 0) return;
  detail::Override** at = &detail::innermost_override;
  while (*at != nullptr) {
    detail::Override* const found = *at;
    if (!found->ended.load(std::memory_order_acquire)) {
      at = &found->outer;
      continue;
    }
    *at = found->outer;
    found->release();
  }
}

// Scopes that were moved elsewhere may outlive the thread that they were made on.
struct EndOfThread {
  EndOfThread() = default;
  EndOfThread(const EndOfThread&) = delete;
  EndOfThread& operator=(const EndOfThread&) = delete;
  ~EndOfThread() {
    while (detail::innermost_override != nullptr)
      std::exchange(detail::innermost_override, detail::innermost_override->outer)->release();
  }
};

}  // namespace

const detail::Override* Registry::find_override(std::uint32_t index) const noexcept {
  for (const detail::Override* at = detail::innermost_override; at != nullptr; at = at->outer) {
    if (at->registry == this && !at->ended.load(std::memory_order_relaxed) &&
        index < at->generation->routes.size() && at->generation->routes[index] != nullptr)
      return at;
  }
  return nullptr;
}

std::optional<OverrideScope> OverrideScope::make(const Registry& registry,
                                                 const Generation& generation) {
  std::set<ModuleUse*> modules;
  for (const OperatorRoute* route : generation.routes) {
    if (route == nullptr) continue;
    for (const DeviceRoute& device : route->devices) {
      for (const BoundCall* binding : device.entries) {
        if (binding->module != nullptr) modules.insert(binding->module);
      }
    }
  }
  std::vector<ModuleHold> holds;
  for (ModuleUse* module : modules) {
    holds.emplace_back(*module);
    if (!holds.back()) return std::nullopt;
  }
  return OverrideScope(registry, generation, std::move(holds));
}

OverrideScope::OverrideScope(const Registry& registry, const Generation& generation,
                             std::vector<ModuleHold> holds)
    : holds_(std::move(holds)), thread_(std::this_thread::get_id()) {
  thread_local const EndOfThread end_of_thread;
  (void)end_of_thread;
  remove_ended();
  auto made = std::make_unique<detail::Override>();
  made->registry = &registry;
  made->generation = &generation;
  made->outer = detail::innermost_override;
  for (const ModuleHold& hold : holds_) made->held_shards.emplace_back(&hold.use(), hold.shard());
  override_ = detail::innermost_override = made.release();
}

OverrideScope::OverrideScope(OverrideScope&& other) noexcept
    : override_(std::exchange(other.override_, nullptr)),
      holds_(std::move(other.holds_)),
      thread_(other.thread_) {}

OverrideScope::~OverrideScope() {
  if (override_ == nullptr) return;
  // Before the holds go: a call on the override's thread counts itself in and then looks here.
  override_->ended.store(true);
  override_->release();
  if (std::this_thread::get_id() == thread_) remove_ended();
}

}  // namespace opmux
