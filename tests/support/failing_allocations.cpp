// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failing_allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// How many more of this thread succeed before one fails.
thread_local constinit std::uint64_t left = kNever;
thread_local constinit bool has_failed = false;
thread_local constinit bool goes_on = false;

void* allocate(std::size_t size, std::size_t alignment) {
  if (left == 0) {
    if (!goes_on) left = kNever;
    has_failed = true;
    throw std::bad_alloc();
  }
  if (left != kNever) --left;
  if (size == 0) size = 1;
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All forms that a program can replace: those that a sanitizer has instead would not match.
void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return operator new(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, std::align_val_t alignment,
                     const std::nothrow_t& tag) noexcept {
  return operator new(size, alignment, tag);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace opmux::testing {

bool fails_at(std::uint64_t n, Failing failing, const std::function<void()>& what) {
  has_failed = false;
  goes_on = failing == Failing::kFromThenOn;
  left = n;
  what();
  left = kNever;
  return has_failed;
}

void stop_failing() { left = kNever; }

AllocationsDoNotFail::AllocationsDoNotFail() : before_(left) { left = kNever; }
AllocationsDoNotFail::~AllocationsDoNotFail() { left = before_; }

}  // namespace opmux::testing
