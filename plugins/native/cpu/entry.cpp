// SPDX-License-Identifier: Apache-2.0
//
// The exported entry point of the native kernels built as a module.
#include "plugins/native/cpu/native.hpp"

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* host,
                                                             const OpmuxModule** module) {
  return opmux_native_open(host, module);
}
