// SPDX-License-Identifier: Apache-2.0
//
// silu_and_mul, gelu_and_mul, gelu_tanh_and_mul.
#include <algorithm>
#include <cinttypes>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/operators.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

// Columns of one piece of work: long rows are cut, so that one row too uses all threads.
constexpr int64_t kColumns = 16384;

OpmuxStatus gated(Activation activation, void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 2);
  const Tensor input = arguments.tensor(0, "input");
  const Tensor out = arguments.tensor(1, "out");
  arguments.require_rank(input, 1, kMaxRank);
  const Element element = arguments.element(input);
  arguments.require_dtype(out, {input.dtype});
  if (!arguments.valid()) return arguments.status();
  arguments.require(input.size(-1) % 2 == 0,
                    "`input`: expected an even size of the last dimension, found %" PRId64,
                    input.size(-1));
  int64_t shape[kMaxRank];
  std::copy_n(input.shape, input.rank, shape);
  const int64_t width = input.size(-1) / 2;
  shape[input.rank - 1] = width;
  arguments.require_shape(out, shape, input.rank);
  if (!arguments.valid()) return arguments.status();
  if (out.elements == 0) return OPMUX_OK;

  const auto kernel = static_cast<const KernelTable*>(binding)->gated[activation][element];
  const Rows sources(input, input.rank - 1);
  const Rows targets(out, out.rank - 1);
  const int64_t in_step = input.step(-1);
  const int64_t out_step = out.step(-1);
  const int64_t bytes = input.element_bytes();
  const int64_t pieces = (width + kColumns - 1) / kColumns;
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / pieces;
      const int64_t column = i % pieces * kColumns;
      const char* gate = sources.at(row) + column * in_step * bytes;
      const char* up = gate + width * in_step * bytes;
      char* target = targets.at(row) + column * out_step * bytes;
      kernel({gate, in_step}, {up, in_step}, {target, out_step},
             std::min(kColumns, width - column));
    }
  };
  parallel_for(arguments.host(), sources.count() * pieces, grain_for(std::min(width, kColumns)),
               body);
  return OPMUX_OK;
}

}  // namespace

OpmuxStatus silu_and_mul(void* binding, const OpmuxCall* call) {
  return gated(kSilu, binding, call);
}

OpmuxStatus gelu_and_mul(void* binding, const OpmuxCall* call) {
  return gated(kGelu, binding, call);
}

OpmuxStatus gelu_tanh_and_mul(void* binding, const OpmuxCall* call) {
  return gated(kGeluTanh, binding, call);
}

}  // namespace opmux::native
