// SPDX-License-Identifier: Apache-2.0
//
// Hosts for kernels under test: one that runs everything on the calling thread, one that gives each
// grain to another thread in turn. Both remember the last error text of this thread.
#pragma once

#include <string>

#include "opmux/plugin.h"

namespace opmux::test {

const OpmuxHost* serial_host();
const OpmuxHost* threaded_host();

// A host without memory.
const OpmuxHost* poor_host();

// Ends a call on this thread: what its workspace handed out is gone.
void reset_workspace();

std::string take_error();

// Calls of parallel_for on any host since the last call of this function.
int take_parallel_calls();

}  // namespace opmux::test
