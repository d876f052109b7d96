// SPDX-License-Identifier: Apache-2.0
//
// rms_norm. The sum of squares is kept in double, so that it cannot overflow and is off by no more
// than the order of 2^-53 for each element. float32 results are computed in double and rounded
// once: off by 1 unit of 2^-24. Others are off by 3 units before they are rounded to the element
// type.
#include "plugins/native/cpu/kernels/elements.hpp"
#include "plugins/native/cpu/kernels/targets.hpp"

namespace opmux::native::OPMUX_KERNEL_TARGET {
namespace {

// Four times four sums side by side, so that every target adds in the same order.
typedef double Doubles __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(16)));
typedef float LooseFloats __attribute__((vector_size(16), aligned(4), may_alias));

struct Squares {
  Doubles sums[4] = {};
};

OPMUX_KERNEL_INLINE Doubles square_of(const float* values) {
  const Floats narrow = *reinterpret_cast<const LooseFloats*>(values);
  const Doubles wide = __builtin_convertvector(narrow, Doubles);
  return wide * wide;
}

OPMUX_KERNEL_INLINE void add_squares(const Block& block, int64_t size, Squares& squares) {
  Doubles first = squares.sums[0];
  Doubles second = squares.sums[1];
  Doubles third = squares.sums[2];
  Doubles fourth = squares.sums[3];
  for (int64_t i = 0; i < padded(size); i += kGroup) {
    first += square_of(block.values + i);
    second += square_of(block.values + i + 4);
    third += square_of(block.values + i + 8);
    fourth += square_of(block.values + i + 12);
  }
  squares.sums[0] = first;
  squares.sums[1] = second;
  squares.sums[2] = third;
  squares.sums[3] = fourth;
}

OPMUX_KERNEL_INLINE double inverse_root(const Squares& squares, int64_t count, double epsilon) {
  const Doubles sums = (squares.sums[0] + squares.sums[1]) + (squares.sums[2] + squares.sums[3]);
  const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return 1.0 / __builtin_sqrt(sum / static_cast<double>(count) + epsilon);
}

// x = x * scale * w, in Number.
template <class Number>
OPMUX_KERNEL_INLINE void scale_block(Block& x, const Block& w, int64_t size, double scale) {
  const int64_t whole = padded(size);
  const Number factor = static_cast<Number>(scale);
#pragma omp simd
  for (int64_t i = 0; i < whole; ++i) {
    x.values[i] = static_cast<float>(static_cast<Number>(x.values[i]) * factor *
                                     static_cast<Number>(w.values[i]));
  }
}

// The second pass: `source` is scaled into `out`.
template <class E>
OPMUX_KERNEL_INLINE void scale_row(ConstVector source, ConstVector weight, Vector out,
                                   int64_t count, double scale) {
  Block x;
  Block w;
  if (weight.data == nullptr) {
    for (int64_t i = 0; i < kBlock; ++i) w.values[i] = 1.0f;
  }
  // For 16-bit results two roundings more do not show, unless the factor leaves float32's range.
  const bool narrow = E::kAccuracy == Accuracy::kHalf && scale > 0x1p-64 && scale < 0x1p64;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = block_size(begin, count);
    load<E>(source, begin, size, x);
    if (weight.data != nullptr) load<E>(weight, begin, size, w);
    if (narrow) {
      scale_block<float>(x, w, size, scale);
    } else {
      scale_block<double>(x, w, size, scale);
    }
    store<E>(x, begin, size, out);
  }
}

template <class E>
void rms_norm(ConstVector input, ConstVector weight, Vector out, int64_t count, double epsilon) {
  Block x;
  Squares squares;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = block_size(begin, count);
    load<E>(input, begin, size, x);
    add_squares(x, size, squares);
  }
  const double scale = inverse_root(squares, count, epsilon);
  scale_row<E>(input, weight, out, count, scale);
}

template <class E>
void fused_add_rms_norm(Vector input, Vector residual, ConstVector weight, int64_t count,
                        double epsilon) {
  Block x;
  Block y;
  Squares squares;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = block_size(begin, count);
    load<E>(read_only(input), begin, size, x);
    load<E>(read_only(residual), begin, size, y);
    const int64_t whole = padded(size);
    // The sum is rounded to the element type before it is squared. For 16-bit elements rounding to
    // float32 first changes nothing: 24 bits are at least 2 * 11 + 2.
#pragma omp simd
    for (int64_t i = 0; i < whole; ++i) x.values[i] += y.values[i];
    store<E>(x, begin, size, residual);
    load<E>(read_only(residual), begin, size, x);
    add_squares(x, size, squares);
  }
  const double scale = inverse_root(squares, count, epsilon);
  scale_row<E>(read_only(residual), weight, input, count, scale);
}

template <class E>
void fill(Element element, KernelTable& table) {
  table.rms_norm[element] = rms_norm<E>;
  table.fused_add_rms_norm[element] = fused_add_rms_norm<E>;
}

}  // namespace

void fill_norm(KernelTable& table) {
  fill<Float32>(kFloat32, table);
  fill<Float16>(kFloat16, table);
  fill<BFloat16>(kBFloat16, table);
}

}  // namespace opmux::native::OPMUX_KERNEL_TARGET
