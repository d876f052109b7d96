// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opmux::bench {

// Calls of malloc, calloc, realloc and aligned_alloc by this thread, in every library of the
// process.
std::uint64_t allocation_count();

}  // namespace opmux::bench
