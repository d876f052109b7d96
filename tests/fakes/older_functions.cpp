// SPDX-License-Identifier: Apache-2.0
//
// examples/torch_functions as an older release may have had it: the same functions by name, with
// other parameters. Nothing calls them.
#include <ATen/core/Tensor.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

FAKE_EXPORT void rms_norm(at::Tensor&, at::Tensor const&, at::Tensor&, float) {}
FAKE_EXPORT void silu_and_mul(at::Tensor&, at::Tensor&, int) {}
