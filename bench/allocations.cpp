// SPDX-License-Identifier: Apache-2.0
//
// Replaces the process's allocation functions by counting ones over glibc's own.
#include "bench/allocations.hpp"

#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t size);                     // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);  // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* pointer, std::size_t size);     // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment,
                      std::size_t size);  // NOLINT(bugprone-reserved-identifier)
}

namespace {
thread_local constinit std::uint64_t count = 0;
}  // namespace

extern "C" {
__attribute__((visibility("default"))) void* malloc(std::size_t size) {
  ++count;
  return __libc_malloc(size);
}
__attribute__((visibility("default"))) void* calloc(std::size_t number, std::size_t size) {
  ++count;
  return __libc_calloc(number, size);
}
__attribute__((visibility("default"))) void* realloc(void* pointer, std::size_t size) {
  ++count;
  return __libc_realloc(pointer, size);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment,
                                                           std::size_t size) {
  ++count;
  return __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) int posix_memalign(void** pointer, std::size_t alignment,
                                                          std::size_t size) {
  ++count;
  *pointer = __libc_memalign(alignment, size);
  return *pointer == nullptr ? ENOMEM : 0;
}
}

namespace opmux::bench {

std::uint64_t allocation_count() { return count; }

}  // namespace opmux::bench
