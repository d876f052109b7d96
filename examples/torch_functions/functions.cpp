// SPDX-License-Identifier: Apache-2.0
//
// A provider that registers nothing: it exports two C++ functions, in the form that vLLM's builds
// for other vendors export them. opmux calls them by functions.yaml alone.
#include <ATen/ATen.h>

#define EXAMPLE_EXPORT __attribute__((visibility("default")))

// out = input / sqrt(mean(input^2) + epsilon) * weight, over the last dimension, in float32.
EXAMPLE_EXPORT void rms_norm(at::Tensor& out, at::Tensor& input, at::Tensor& weight,
                             double epsilon) {
  const at::Tensor wide = input.to(at::kFloat);
  const at::Tensor scale = at::rsqrt((wide * wide).mean(-1, /*keepdim=*/true) + epsilon);
  out.copy_(wide * scale * weight.to(at::kFloat));
}

// out = silu(first half of the last dimension) * second half.
EXAMPLE_EXPORT void silu_and_mul(at::Tensor& out, at::Tensor& input) {
  const auto halves = input.chunk(2, -1);
  at::mul_out(out, at::silu(halves[0]), halves[1]);
}
