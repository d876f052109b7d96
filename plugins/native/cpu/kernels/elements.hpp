// SPDX-License-Identifier: Apache-2.0
//
// Element types of the kernels and their conversion from and to float32, a block at a time. Rounds
// to nearest, ties to even; subnormals, infinities and NaNs (quieted, payload cut) are kept. The
// software and the hardware conversions of float16 give the same bits.
//
// For kernel sources only: see the rules in kernels.hpp.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/kernels/kernels.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define OPMUX_KERNEL_INLINE inline __attribute__((always_inline))

namespace opmux::native {
namespace {

// How close to exp a kernel must come: for results in float32, or for results that are rounded to
// 11 bits or fewer.
enum class Accuracy { kFloat32, kHalf };

// Memory of any alignment and origin. Structs, since a template drops the attributes of a typedef.
struct __attribute__((packed, may_alias)) LooseUint16 {
  uint16_t value;
};
struct __attribute__((packed, may_alias)) LooseFloat {
  float value;
};

OPMUX_KERNEL_INLINE uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
OPMUX_KERNEL_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

struct Float32 {
  using Stored = LooseFloat;
  static constexpr int64_t kBytes = 4;
  static constexpr Accuracy kAccuracy = Accuracy::kFloat32;
  static OPMUX_KERNEL_INLINE float widen(float value) { return value; }
  static OPMUX_KERNEL_INLINE float narrow(float value) { return value; }
};

struct BFloat16 {
  using Stored = LooseUint16;
  static constexpr int64_t kBytes = 2;
  static constexpr Accuracy kAccuracy = Accuracy::kHalf;
  static OPMUX_KERNEL_INLINE float widen(uint16_t stored) {
    return float_of(static_cast<uint32_t>(stored) << 16);
  }
  static OPMUX_KERNEL_INLINE uint16_t narrow(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quieted = (bits >> 16) | 0x40u;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>(is_nan ? quieted : rounded);
  }
};

struct Float16 {
  using Stored = LooseUint16;
  static constexpr int64_t kBytes = 2;
  static constexpr Accuracy kAccuracy = Accuracy::kHalf;
  static OPMUX_KERNEL_INLINE float widen(uint16_t stored) {
    const uint32_t magnitude = stored & 0x7fffu;
    const uint32_t sign = static_cast<uint32_t>(stored & 0x8000u) << 16;
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    const uint32_t special = (magnitude << 13) | 0x7f800000u | quiet;
    // A subnormal is magnitude * 2^-24, exact in float32.
    const uint32_t subnormal =
        bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    const uint32_t finite = magnitude < 0x400u ? subnormal : normal;
    return float_of((magnitude >= 0x7c00u ? special : finite) | sign);
  }
  static OPMUX_KERNEL_INLINE uint16_t narrow(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    // Normal results: round at bit 13, then move the exponent; a carry may reach infinity.
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    const uint32_t normal = (rounded - (112u << 23)) >> 13;
    const uint32_t bounded = normal > 0x7c00u ? 0x7c00u : normal;
    // Subnormal results: adding 0.5, whose last place is 2^-24, rounds to a multiple of it.
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t quiet = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : bounded;
    return static_cast<uint16_t>((magnitude > 0x7f800000u ? quiet : finite) | sign);
  }
};

// Elements that the kernels work on at a time: a few buffers of it stay in the L1 cache.
inline constexpr int64_t kBlock = 512;
// Blocks are computed in whole groups; what is beyond the end of the row is zero.
inline constexpr int64_t kGroup = 16;

struct alignas(64) Block {
  float values[kBlock];
};

OPMUX_KERNEL_INLINE int64_t padded(int64_t count) { return (count + kGroup - 1) & ~(kGroup - 1); }

template <class E>
OPMUX_KERNEL_INLINE void load_contiguous(const char* data, int64_t count, float* values) {
  const auto* stored = reinterpret_cast<const typename E::Stored*>(data);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] = E::widen(stored[i].value);
}

template <class E>
OPMUX_KERNEL_INLINE void store_contiguous(const float* values, int64_t count, char* data) {
  auto* stored = reinterpret_cast<typename E::Stored*>(data);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) stored[i].value = E::narrow(values[i]);
}

#if defined(__F16C__)
template <>
OPMUX_KERNEL_INLINE void load_contiguous<Float16>(const char* data, int64_t count, float* values) {
  const auto* stored = reinterpret_cast<const LooseUint16*>(data);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 2 * i));
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) values[i] = Float16::widen(stored[i].value);
}

template <>
OPMUX_KERNEL_INLINE void store_contiguous<Float16>(const float* values, int64_t count, char* data) {
  auto* stored = reinterpret_cast<LooseUint16*>(data);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 floats = _mm256_loadu_ps(values + i);
    const __m128i halves = _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data + 2 * i), halves);
  }
  for (; i < count; ++i) stored[i].value = Float16::narrow(values[i]);
}
#endif

// Reads elements [begin, begin + count) into the block and zeroes the rest of the last group.
template <class E>
OPMUX_KERNEL_INLINE void load(ConstVector source, int64_t begin, int64_t count, Block& block) {
  if (source.stride == 1) {
    load_contiguous<E>(source.data + begin * E::kBytes, count, block.values);
  } else {
    const char* data = source.data + begin * source.stride * E::kBytes;
    for (int64_t i = 0; i < count; ++i) {
      block.values[i] = E::widen(
          reinterpret_cast<const typename E::Stored*>(data + i * source.stride * E::kBytes)->value);
    }
  }
  for (int64_t i = count; i < padded(count); ++i) block.values[i] = 0.0f;
}

template <class E>
OPMUX_KERNEL_INLINE void store(const Block& block, int64_t begin, int64_t count, Vector target) {
  if (target.stride == 1) {
    store_contiguous<E>(block.values, count, target.data + begin * E::kBytes);
    return;
  }
  char* data = target.data + begin * target.stride * E::kBytes;
  for (int64_t i = 0; i < count; ++i) {
    reinterpret_cast<typename E::Stored*>(data + i * target.stride * E::kBytes)->value =
        E::narrow(block.values[i]);
  }
}

OPMUX_KERNEL_INLINE ConstVector read_only(Vector vector) { return {vector.data, vector.stride}; }

OPMUX_KERNEL_INLINE int64_t block_size(int64_t begin, int64_t count) {
  return count - begin < kBlock ? count - begin : kBlock;
}

}  // namespace
}  // namespace opmux::native
