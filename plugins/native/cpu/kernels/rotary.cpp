// SPDX-License-Identifier: Apache-2.0
//
// Rotary embedding of one head: each product is exact in double and the sum is rounded to float32,
// then to the element type, so that cancellation between the two products costs nothing.
#include "plugins/native/cpu/kernels/elements.hpp"
#include "plugins/native/cpu/kernels/targets.hpp"

namespace opmux::native::OPMUX_KERNEL_TARGET {
namespace {

template <class E, class C>
void rotate(const RotaryHead& head) {
  Block x;
  Block y;
  Block cos;
  Block sin;
  const double sign = head.inverse ? -1.0 : 1.0;
  for (int64_t begin = 0; begin < head.pairs; begin += kBlock) {
    const int64_t size = block_size(begin, head.pairs);
    load<E>(read_only(head.first), begin, size, x);
    load<E>(read_only(head.second), begin, size, y);
    load<C>(head.cos, begin, size, cos);
    load<C>(head.sin, begin, size, sin);
    const int64_t whole = padded(size);
#pragma omp simd
    for (int64_t i = 0; i < whole; ++i) {
      const double a = static_cast<double>(x.values[i]);
      const double b = static_cast<double>(y.values[i]);
      const double c = static_cast<double>(cos.values[i]);
      const double s = sign * static_cast<double>(sin.values[i]);
      x.values[i] = static_cast<float>(a * c - b * s);
      y.values[i] = static_cast<float>(b * c + a * s);
    }
    store<E>(x, begin, size, head.first);
    store<E>(y, begin, size, head.second);
  }
}

template <class E>
void fill(KernelTable::Rotate (&row)[kElementCount]) {
  row[kFloat32] = rotate<E, Float32>;
  row[kFloat16] = rotate<E, Float16>;
  row[kBFloat16] = rotate<E, BFloat16>;
}

}  // namespace

void fill_rotary(KernelTable& table) {
  fill<Float32>(table.rotate[kFloat32]);
  fill<Float16>(table.rotate[kFloat16]);
  fill<BFloat16>(table.rotate[kBFloat16]);
}

}  // namespace opmux::native::OPMUX_KERNEL_TARGET
