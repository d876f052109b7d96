// SPDX-License-Identifier: Apache-2.0
//
// Calls one operator on whatever serves it best here.
#include <opmux/opmux.hpp>

#include <cstdio>

int main() {
  const auto runtime = opmux::Runtime::open();
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
    return 1;
  }
  // Resolved once: the name is looked up and the signature checked against the schema.
  const auto silu_and_mul = runtime->op<void(opmux::Tensor, opmux::Tensor)>("silu_and_mul");
  if (!silu_and_mul.ok()) {
    std::fprintf(stderr, "%s\n", silu_and_mul.status().message().c_str());
    return 1;
  }
  float input[2][8] = {{1, 2, 3, 4, 1, 1, 1, 1}, {0, -1, -2, -3, 2, 2, 2, 2}};
  float out[2][4] = {};
  const opmux::Status status = (*silu_and_mul)(opmux::Tensor(input, opmux::DType::kFloat32, {2, 8}),
                                               opmux::Tensor(out, opmux::DType::kFloat32, {2, 4}));
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  std::printf("served by %s:", silu_and_mul->boxed().last_provider().c_str());
  for (const float value : out[0]) std::printf(" %.4f", static_cast<double>(value));
  std::printf("\n");
  return 0;
}
