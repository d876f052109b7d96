// SPDX-License-Identifier: Apache-2.0
//
// Which library registered what with the Dispatcher, from the moment listening starts.
#pragma once

#include "opmux/plugin.h"

namespace opmux::vllm {

OpmuxStatus start_listening() noexcept;

// Reports every operator defined since then with all keys that have a kernel, and every older
// operator that gained kernels, with the keys it gained. The Dispatcher names no library for a
// kernel without a definition: `library` is then the one library mapped since, or empty when there
// are several.
OpmuxStatus list_registrations(OpmuxRegistrationVisitor visitor, void* context) noexcept;

}  // namespace opmux::vllm
