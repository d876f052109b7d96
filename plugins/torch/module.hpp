// SPDX-License-Identifier: Apache-2.0
//
// The handshake of a module that links torch. A module is built against one release of torch and
// refuses every other: torch's classes and the device guards' virtual tables change between
// releases.
#pragma once

#include <torch/headeronly/version.h>

#include "opmux/plugin.h"

namespace opmux::torch_shared {

// For OpmuxModule.build_identity.
inline constexpr const char kBuildIdentity[] = "torch " TORCH_VERSION;

// All that opmux_plugin_open does: checks the host and the torch of this process, keeps the host
// for refuse(), and hands `own` out as `*module`.
OpmuxStatus open_module(const OpmuxHost* host, const OpmuxModule& own,
                        const OpmuxModule** module) noexcept;

}  // namespace opmux::torch_shared
