// SPDX-License-Identifier: Apache-2.0
//
// rms_norm, fused_add_rms_norm.
#include <cinttypes>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/operators.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

ConstVector as_vector(const Tensor& weight) {
  return {weight.data, weight.present ? weight.step(-1) : 0};
}

}  // namespace

OpmuxStatus rms_norm(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 4);
  const Tensor input = arguments.tensor(0, "input");
  const Tensor weight = arguments.tensor(1, "weight");
  const double epsilon = arguments.real(2, "eps");
  const Tensor out = arguments.tensor(3, "out");
  arguments.require_rank(input, 1, kMaxRank);
  const Element element = arguments.element(input);
  arguments.require_dtype(weight, {input.dtype});
  arguments.require_dtype(out, {input.dtype});
  if (!arguments.valid()) return arguments.status();
  const int64_t width = input.size(-1);
  arguments.require_shape(weight, {width});
  arguments.require_shape(out, input.shape, input.rank);
  if (!arguments.valid()) return arguments.status();
  if (input.elements == 0) return OPMUX_OK;

  const auto kernel = static_cast<const KernelTable*>(binding)->rms_norm[element];
  const Rows sources(input, input.rank - 1);
  const Rows targets(out, out.rank - 1);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernel({sources.at(row), input.step(-1)}, as_vector(weight), {targets.at(row), out.step(-1)},
             width, epsilon);
    }
  };
  parallel_for(arguments.host(), sources.count(), grain_for(width), body);
  return OPMUX_OK;
}

OpmuxStatus fused_add_rms_norm(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 4);
  const Tensor input = arguments.tensor(0, "input");
  const Tensor residual = arguments.tensor(1, "residual");
  const Tensor weight = arguments.optional_tensor(2, "weight");
  const double epsilon = arguments.real(3, "epsilon");
  arguments.require_rank(input, 1, kMaxRank);
  const Element element = arguments.element(input);
  arguments.require_dtype(residual, {input.dtype});
  if (weight.present) arguments.require_dtype(weight, {input.dtype});
  if (!arguments.valid()) return arguments.status();
  const int64_t width = input.size(-1);
  arguments.require_shape(residual, input.shape, input.rank);
  if (weight.present) arguments.require_shape(weight, {width});
  if (!arguments.valid()) return arguments.status();
  if (input.elements == 0) return OPMUX_OK;

  const auto kernel = static_cast<const KernelTable*>(binding)->fused_add_rms_norm[element];
  const Rows inputs(input, input.rank - 1);
  const Rows residuals(residual, residual.rank - 1);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernel({inputs.at(row), input.step(-1)}, {residuals.at(row), residual.step(-1)},
             as_vector(weight), width, epsilon);
    }
  };
  parallel_for(arguments.host(), inputs.count(), grain_for(width), body);
  return OPMUX_OK;
}

}  // namespace opmux::native
