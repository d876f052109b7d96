// SPDX-License-Identifier: Apache-2.0
//
// The native CPU kernels: always there, linked in, and reached through the same entry point and the
// same operator table as any plugin module. The kernels start no threads and allocate nothing: they
// use the host's parallel_for and workspace. Thread safe.
#pragma once

#include "opmux/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

// An OpmuxPluginOpen. The module stays valid for the life of the process.
OpmuxStatus opmux_native_open(const OpmuxHost* host, const OpmuxModule** module);

#ifdef __cplusplus
}
#endif
