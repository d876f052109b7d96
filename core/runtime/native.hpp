// SPDX-License-Identifier: Apache-2.0
//
// The native kernels that are part of this program: provider `native`, always there, through the
// same entry point and handshake as any module.
#pragma once

#include "core/base/result.hpp"
#include "core/loader/loader.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux {

// The linked-in module after its handshake; made once per process.
const Result<PluginModule>& native_module();

// Gives every operator of the module's table a declaration and a binding of provider `native` where
// the manifests have none, so that no missing, masked or broken file takes the last resort away.
void add_native_bindings(ManifestSet& manifests, const OpmuxModule& native);

}  // namespace opmux
