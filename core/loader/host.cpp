// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/loader/loader.hpp"
#include "core/loader/thread_pool.hpp"

namespace opmux {

// Apart from the workspace, which has a destructor, so that the test costs no more than itself.
thread_local constinit bool workspace_in_use = false;

namespace {

constexpr std::size_t kAlignment = 64;
// Memory that a thread keeps between calls; what one call needed beyond it is given back.
constexpr std::size_t kKeptBytes = std::size_t{64} << 20;
// No machine has more; beyond it sizes are mistakes.
constexpr std::size_t kMostBytes = std::size_t{1} << 39;
constexpr std::size_t kFirstBlockBytes = std::size_t{64} << 10;

struct AlignedDelete {
  void operator()(std::byte* data) const noexcept {
    ::operator delete[](data, std::align_val_t{kAlignment});
  }
};

// Hands out memory in a row; blocks that were handed out stay where they are until `reset`, which
// leaves one block as large as the call needed in all, so that the next call of this kind allocates
// nothing.
class Workspace {
 public:
  void* allocate(std::size_t bytes) {
    if (bytes > kMostBytes) return nullptr;
    bytes = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    if (blocks_.empty() || blocks_.back().size - used_ < bytes) {
      if (!add_block(bytes)) return nullptr;
    }
    void* const result = blocks_.back().data.get() + used_;
    used_ += bytes;
    return result;
  }

  void reset() noexcept {
    used_ = 0;
    if (blocks_.size() == 1 && blocks_.front().size <= kKeptBytes) return;
    std::size_t total = 0;
    for (const Block& block : blocks_) total += block.size;
    blocks_.clear();
    if (total <= kKeptBytes) add_block(total);
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[], AlignedDelete> data;
    std::size_t size;
  };

  bool add_block(std::size_t bytes) noexcept {
    const std::size_t size = std::max(bytes, kFirstBlockBytes);
    try {
      blocks_.reserve(blocks_.size() + 1);
      blocks_.push_back({std::unique_ptr<std::byte[], AlignedDelete>(static_cast<std::byte*>(
                             ::operator new[](size, std::align_val_t{kAlignment}))),
                         size});
    } catch (const std::bad_alloc&) {
      return false;
    }
    used_ = 0;
    return true;
  }

  std::vector<Block> blocks_;
  std::size_t used_ = 0;  // of the last block
};

thread_local Workspace thread_workspace;
thread_local std::string module_error;

void host_log(std::int32_t level, const char* module, const char* text) {
  using log::Level;
  constexpr std::array kLevels{Level::kTrace, Level::kDebug, Level::kInfo,
                               Level::kWarn,  Level::kError, Level::kError};
  const auto index = static_cast<std::size_t>(std::clamp(level, 0, 5));
  if (!log::enabled(kLevels[index])) return;
  log::write(kLevels[index], printable(module == nullptr ? "module" : module) + ": " +
                                 printable(text == nullptr ? "" : text));
}

void host_set_error(const char* text) { module_error = text == nullptr ? "" : text; }

void host_parallel_for(std::int64_t size, std::int64_t grain, OpmuxRangeFunction body,
                       void* context) {
  thread_pool::parallel_for(size, grain, body, context);
}

void* host_workspace(std::size_t bytes) {
  workspace_in_use = true;
  return thread_workspace.allocate(bytes);
}

constexpr OpmuxHost kHost{.struct_size = sizeof(OpmuxHost),
                          .abi_major = OPMUX_PLUGIN_ABI_MAJOR,
                          .abi_minor = OPMUX_PLUGIN_ABI_MINOR,
                          .reserved = 0,
                          .log = host_log,
                          .set_error = host_set_error,
                          .parallel_for = host_parallel_for,
                          .workspace = host_workspace};

}  // namespace

const OpmuxHost* host_services() { return &kHost; }

std::string take_module_error() { return std::exchange(module_error, std::string()); }

void reset_workspace() noexcept {
  if (!workspace_in_use) return;
  workspace_in_use = false;
  thread_workspace.reset();
}

void set_thread_count(int threads) { thread_pool::set_thread_count(threads); }

}  // namespace opmux
