// SPDX-License-Identifier: Apache-2.0
//
// Counts the calls inside a plugin module that may be unmapped; other modules are never counted.
//
// enter() adds one to a shard and then looks whether the module is closing; close() says that it is
// and then is_drained() reads the shards. All of them are sequentially consistent: either a call
// sees that the module is closing and backs off, or its increment comes before the read of the
// sum. A record is never freed, so a late call can always look.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace opmux {

class ModuleUse {
 public:
  // The shard to give to leave(), or -1 when the module is closing and must not be entered.
  int enter() noexcept {
    const std::size_t shard = shard_of_this_thread();
    shards_[shard].inside.fetch_add(1);
    if (!closing_.load()) [[likely]]
      return static_cast<int>(shard);
    shards_[shard].inside.fetch_sub(1);
    return -1;
  }
  // Beside a hold of this shard, which proves that the module is mapped, closing or not. Whether
  // the hold was still there when the count went up is for the caller to look at afterwards.
  void enter_beside(int shard) noexcept {
    shards_[static_cast<std::size_t>(shard)].inside.fetch_add(1);
  }
  void leave(int shard) noexcept {
    shards_[static_cast<std::size_t>(shard)].inside.fetch_sub(1, std::memory_order_release);
  }

  // From now on nobody enters. Calls that are inside go on.
  void close() noexcept { closing_.store(true); }
  // Only while the module is certainly mapped.
  void reopen() noexcept { closing_.store(false); }
  // Calls that are inside, and scopes that hold the module. After close(), 0 is proof that nobody
  // is inside and nobody will be.
  std::int64_t inside() const noexcept {
    std::int64_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.inside.load();
    return sum;
  }

 private:
  struct alignas(64) Shard {
    std::atomic<std::int64_t> inside{0};
  };
  static constexpr std::size_t kShards = 16;

  static std::size_t shard_of_this_thread() noexcept {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t shard = next.fetch_add(1, std::memory_order_relaxed) % kShards;
    return shard;
  }

  std::atomic<bool> closing_{false};
  std::array<Shard, kShards> shards_{};
};

// Holds a module for as long as it lives; empty when the module is closing.
class ModuleHold {
 public:
  explicit ModuleHold(ModuleUse& use) noexcept : use_(&use), shard_(use.enter()) {}
  // A second one beside a hold, in its shard: the sum of the shards, which are read one after the
  // other, then never looks like nobody is inside while one of the two lives.
  static ModuleHold beside(ModuleUse& use, int shard) noexcept {
    use.enter_beside(shard);
    return {use, shard};
  }
  ModuleHold(ModuleHold&& other) noexcept : use_(other.use_), shard_(other.shard_) {
    other.shard_ = -1;
  }
  ModuleHold& operator=(ModuleHold&&) = delete;
  ~ModuleHold() {
    if (shard_ >= 0) use_->leave(shard_);
  }
  explicit operator bool() const noexcept { return shard_ >= 0; }
  ModuleUse& use() const noexcept { return *use_; }
  int shard() const noexcept { return shard_; }

 private:
  ModuleHold(ModuleUse& use, int shard) noexcept : use_(&use), shard_(shard) {}

  ModuleUse* use_;
  int shard_;
};

}  // namespace opmux
