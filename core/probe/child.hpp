// SPDX-License-Identifier: Apache-2.0
//
// What opmux-probe does: loads what its parent asks for, step by step, and says each step before it
// is taken, so that the parent knows what ended it. Runs in a process of its own.
#pragma once

namespace opmux::probing {

// Speaks the protocol on `descriptor` and ends the process; static destructors of what was loaded
// do not run.
[[noreturn]] void run_probe(int descriptor);

}  // namespace opmux::probing
