// SPDX-License-Identifier: Apache-2.0
//
// A Dispatcher provider whose kernels do nothing.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

void noop_2(const at::Tensor&, at::Tensor&) {}
void noop_12(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::Tensor&, std::int64_t,
             std::int64_t, std::int64_t, std::int64_t, double, double, bool, bool) {}

}  // namespace

TORCH_LIBRARY(opmux_bench, library) {
  library.def("noop_2(Tensor input, Tensor(a!) out) -> ()");
  library.def(
      "noop_12(Tensor a, Tensor b, Tensor c, Tensor(a!) d, int e, int f, int g, int h, float i, "
      "float j, bool k, bool l) "
      "-> ()");
}
TORCH_LIBRARY_IMPL(opmux_bench, CPU, library) {
  library.impl("noop_2", &noop_2);
  library.impl("noop_12", &noop_12);
}
