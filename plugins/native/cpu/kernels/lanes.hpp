// SPDX-License-Identifier: Apache-2.0
//
// Vectors of the target's own width. Sums run in sixteen lanes on every target, one vector or
// several, and are folded in one order, so that each target gives the same bits.
//
// For kernel sources only: see the rules in kernels.hpp.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/kernels/elements.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace opmux::native {
namespace {

#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif
// Vectors that hold sixteen lanes.
inline constexpr int kVectors = static_cast<int>(kGroup) / kWidth;

typedef float Lanes __attribute__((vector_size(4 * kWidth)));
typedef float LooseLanes __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));

OPMUX_KERNEL_INLINE Lanes lanes_at(const float* values) {
  return *reinterpret_cast<const LooseLanes*>(values);
}
OPMUX_KERNEL_INLINE void put_lanes(Lanes lanes, float* values) {
  *reinterpret_cast<LooseLanes*>(values) = lanes;
}
OPMUX_KERNEL_INLINE Lanes all_lanes(float value) { return Lanes{} + value; }

// One vector of stored elements as float32, the same bits as E::widen.
template <class E>
OPMUX_KERNEL_INLINE Lanes widen_lanes(const char* data) {
  float values[kWidth];
  load_contiguous<E>(data, kWidth, values);
  return lanes_at(values);
}

template <>
OPMUX_KERNEL_INLINE Lanes widen_lanes<Float32>(const char* data) {
  return *reinterpret_cast<const LooseLanes*>(data);
}

#if defined(__AVX512F__)
template <>
OPMUX_KERNEL_INLINE Lanes widen_lanes<BFloat16>(const char* data) {
  const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
  const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(stored), 16);
  return __builtin_bit_cast(Lanes, bits);
}
template <>
OPMUX_KERNEL_INLINE Lanes widen_lanes<Float16>(const char* data) {
  const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
  return __builtin_bit_cast(Lanes, _mm512_cvtph_ps(stored));
}
#elif defined(__AVX2__)
template <>
OPMUX_KERNEL_INLINE Lanes widen_lanes<BFloat16>(const char* data) {
  const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(stored), 16);
  return __builtin_bit_cast(Lanes, bits);
}
template <>
OPMUX_KERNEL_INLINE Lanes widen_lanes<Float16>(const char* data) {
  const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  return __builtin_bit_cast(Lanes, _mm256_cvtph_ps(stored));
}
#endif

// Each fold adds lane i of a run to lane i + half of the run, for runs of two vectors at a time.
#if defined(__AVX512F__)
OPMUX_KERNEL_INLINE Lanes fold_sixteen(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
         __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                 31);
}
OPMUX_KERNEL_INLINE Lanes fold_eight(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
OPMUX_KERNEL_INLINE Lanes fold_four(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
         __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
OPMUX_KERNEL_INLINE Lanes fold_two(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}
OPMUX_KERNEL_INLINE Lanes fold_quarter(const Lanes* sums) {
  return fold_eight(fold_sixteen(sums[0], sums[4]), fold_sixteen(sums[8], sums[12]));
}
// The sum of each of sixteen vectors, in their order.
OPMUX_KERNEL_INLINE Lanes fold_all(const Lanes* sums) {
  return fold_two(fold_four(fold_quarter(sums), fold_quarter(sums + 1)),
                  fold_four(fold_quarter(sums + 2), fold_quarter(sums + 3)));
}
#elif defined(__AVX2__)
OPMUX_KERNEL_INLINE Lanes fold_eight(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
OPMUX_KERNEL_INLINE Lanes fold_four(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
         __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
OPMUX_KERNEL_INLINE Lanes fold_two(Lanes a, Lanes b) {
  return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}
// The sum of each of eight vectors, in their order.
OPMUX_KERNEL_INLINE Lanes fold_all(const Lanes* sums) {
  return fold_two(fold_four(fold_eight(sums[0], sums[4]), fold_eight(sums[1], sums[5])),
                  fold_four(fold_eight(sums[2], sums[6]), fold_eight(sums[3], sums[7])));
}
#else
// The sum of each of four vectors, in their order.
OPMUX_KERNEL_INLINE Lanes fold_all(const Lanes* sums) {
  const Lanes first = __builtin_shufflevector(sums[0], sums[1], 0, 1, 4, 5) +
                      __builtin_shufflevector(sums[0], sums[1], 2, 3, 6, 7);
  const Lanes second = __builtin_shufflevector(sums[2], sums[3], 0, 1, 4, 5) +
                       __builtin_shufflevector(sums[2], sums[3], 2, 3, 6, 7);
  return __builtin_shufflevector(first, second, 0, 2, 4, 6) +
         __builtin_shufflevector(first, second, 1, 3, 5, 7);
}
#endif

// The first fold of sixteen lanes, down to one vector.
OPMUX_KERNEL_INLINE Lanes fold_vectors(const Lanes (&sums)[kVectors]) {
  if constexpr (kVectors == 4) {
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  } else if constexpr (kVectors == 2) {
    return sums[0] + sums[1];
  } else {
    return sums[0];
  }
}

}  // namespace
}  // namespace opmux::native
