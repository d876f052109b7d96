// SPDX-License-Identifier: Apache-2.0
//
// The host that opened this module. Set once by opmux_plugin_open before anything else runs.
#pragma once

#include <string>

#include "opmux/plugin.h"

namespace opmux::torch_shared {

void set_host(const OpmuxHost* host) noexcept;

// Stores `text` as the reason and returns `status`.
OpmuxStatus refuse(OpmuxStatus status, const std::string& text) noexcept;

// For a catch-all handler: what is being thrown, without torch's backtrace, at most a few lines.
std::string current_exception_text() noexcept;

}  // namespace opmux::torch_shared
