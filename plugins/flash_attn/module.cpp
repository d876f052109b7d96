// SPDX-License-Identifier: Apache-2.0
//
// The adapter for FlashAttention's C++ functions: it maps the operators' arguments, which manifests
// cannot express here (one-token decode, cache_seqlens as an int, results that must be copied).
#include "plugins/torch/module.hpp"
#include "opmux/plugin.h"
#include "plugins/flash_attn/binding.hpp"
#include "plugins/torch/device.hpp"

namespace {

const OpmuxModule kModule = {
    sizeof(OpmuxModule),
    OPMUX_PLUGIN_ABI_MAJOR,
    OPMUX_PLUGIN_ABI_MINOR,
    0,
    "flash_attn",
    OPMUX_VERSION,
    opmux::torch_shared::kBuildIdentity,
    nullptr,
    nullptr,
    nullptr,
    opmux::flash_attn::bind,
    &opmux::torch_shared::kDeviceServices,
    0,  // flags: it stays mapped
    0,
};

}  // namespace

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* host,
                                                             const OpmuxModule** module) {
  return opmux::torch_shared::open_module(host, kModule, module);
}
