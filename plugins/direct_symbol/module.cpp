// SPDX-License-Identifier: Apache-2.0
//
// The module's entry point.
#include "plugins/torch/module.hpp"

#include "opmux/plugin.h"
#include "plugins/direct_symbol/binding.hpp"
#include "plugins/torch/device.hpp"

namespace opmux::direct_symbol {
namespace {

const OpmuxModule kModule = {
    sizeof(OpmuxModule),
    OPMUX_PLUGIN_ABI_MAJOR,
    OPMUX_PLUGIN_ABI_MINOR,
    0,
    "direct_symbol",
    OPMUX_VERSION,
    torch_shared::kBuildIdentity,
    nullptr,
    nullptr,
    nullptr,
    bind,
    &torch_shared::kDeviceServices,
    0,  // flags: it stays mapped
    0,
};

}  // namespace
}  // namespace opmux::direct_symbol

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* host,
                                                             const OpmuxModule** module) {
  return opmux::torch_shared::open_module(host, opmux::direct_symbol::kModule, module);
}
