// SPDX-License-Identifier: Apache-2.0
//
// The threads behind parallel_for. They are started by the first range that is worth sharing and
// stay for the life of the process; after a fork the child goes on without them. Thread safety: all
// functions may be called from any thread; ranges of several callers run side by side.
#pragma once

#include <cstdint>

#include "opmux/plugin.h"

namespace opmux::thread_pool {

// The caller's thread included; 0 means all cores. Ignored once threads have been started.
void set_thread_count(int threads);

// Contract of OpmuxHost::parallel_for. Allocates nothing once the threads run.
void parallel_for(std::int64_t size, std::int64_t grain, OpmuxRangeFunction body,
                  void* context) noexcept;

}  // namespace opmux::thread_pool
