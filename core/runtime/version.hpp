// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opmux {

inline constexpr const char* kVersion = OPMUX_VERSION;

}  // namespace opmux
