// SPDX-License-Identifier: Apache-2.0
//
// The module's entry point.
#include "plugins/torch/module.hpp"

#include "opmux/plugin.h"
#include "plugins/torch/device.hpp"
#include "plugins/vllm/binding.hpp"
#include "plugins/vllm/registrations.hpp"

namespace opmux::vllm {
namespace {

const OpmuxModule kModule = {
    sizeof(OpmuxModule),
    OPMUX_PLUGIN_ABI_MAJOR,
    OPMUX_PLUGIN_ABI_MINOR,
    0,
    "vllm",
    OPMUX_VERSION,
    torch_shared::kBuildIdentity,
    nullptr,
    start_listening,
    list_registrations,
    bind,
    &torch_shared::kDeviceServices,
    0,  // flags: it stays mapped
    0,
};

}  // namespace
}  // namespace opmux::vllm

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* host,
                                                             const OpmuxModule** module) {
  return opmux::torch_shared::open_module(host, opmux::vllm::kModule, module);
}
