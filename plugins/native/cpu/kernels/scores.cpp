// SPDX-License-Identifier: Apache-2.0
//
// Router scores and the selection of the greatest ones.
#include "plugins/native/cpu/kernels/elements.hpp"
#include "plugins/native/cpu/kernels/exponential.hpp"
#include "plugins/native/cpu/kernels/keys.hpp"
#include "plugins/native/cpu/kernels/targets.hpp"

namespace opmux::native::OPMUX_KERNEL_TARGET {
namespace {

constexpr float kInfinity = __builtin_inff();

OPMUX_KERNEL_INLINE int32_t greatest(const int32_t* keys, int64_t count) {
  int32_t result = kTakenKey;
#pragma omp simd reduction(max : result)
  for (int64_t i = 0; i < count; ++i) result = keys[i] > result ? keys[i] : result;
  return result;
}

int64_t take_greatest(int32_t* keys, int64_t count) {
  const int32_t key = greatest(keys, count);
  int64_t index = 0;
  while (index + 1 < count && keys[index] != key) ++index;
  keys[index] = kTakenKey;
  return index;
}

// exp is relative to the row's maximum and off by 2 units of 2^-24, the sum of doubles thereby by
// 2, the score rounds by 1: below 5 units in all.
void softmax(int64_t experts, float* scores) {
  int32_t top = kTakenKey;
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < experts; ++i) {
    const int32_t key = key_of(scores[i]);
    top = key > top ? key : top;
  }
  const double maximum = static_cast<double>(value_of(top));
  constexpr double kBound = static_cast<double>(kLowest);
#pragma omp simd
  for (int64_t i = 0; i < experts; ++i) {
    const double z = static_cast<double>(scores[i]) - maximum;  // NaN stays NaN
    const Exponential e = exponential<Accuracy::kFloat32>(z < kBound ? kBound : z);
    const Scale scale = scale_of(e.exponent);
    scores[i] = e.mantissa * scale.coarse * scale.coarse * scale.fine;
  }
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= experts; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(scores[i + lane]);
  }
  for (int lane = 0; i < experts; ++i, ++lane) sums[lane] += static_cast<double>(scores[i]);
  double sum = 0.0;
  for (int lane = 0; lane < 8; ++lane) sum += sums[lane];
  // The maximum itself adds 1, so that only a NaN can leave the range.
  const double inverse = sum >= 1.0 && sum <= static_cast<double>(experts) ? 1.0 / sum : 0.0;
  if (inverse == 0.0) {
    for (int64_t j = 0; j < experts; ++j) scores[j] = 0.0f;
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < experts; ++j) {
    scores[j] = static_cast<float>(static_cast<double>(scores[j]) * inverse);
  }
}

// 1 / (1 + exp(-x)), or exp(x) / (1 + exp(x)) for negative x: off by 2 units of 2^-24 each for
// numerator and denominator and 1 for the quotient, below 5 in all.
void sigmoid(int64_t experts, float* scores) {
#pragma omp simd
  for (int64_t i = 0; i < experts; ++i) {
    const float x = scores[i];
    const float z = -__builtin_fabsf(x);
    const Exponential e = exponential<Accuracy::kFloat32>(z > kLowest ? z : kLowest);
    const Scale scale = scale_of(e.exponent);
    const float exp = e.mantissa * scale.coarse * scale.coarse * scale.fine;
    const float score = (x < 0.0f ? exp : 1.0f) / (1.0f + exp);
    scores[i] = x >= -kInfinity ? score : 0.0f;
  }
}

template <class E>
void score(ConstVector gating, int64_t experts, Scoring scoring, float* scores) {
  if (gating.stride == 1) {
    load_contiguous<E>(gating.data, experts, scores);
  } else {
    for (int64_t i = 0; i < experts; ++i) {
      scores[i] = E::widen(
          reinterpret_cast<const typename E::Stored*>(gating.data + i * gating.stride * E::kBytes)
              ->value);
    }
  }
  if (scoring == Scoring::kSoftmax) softmax(experts, scores);
  if (scoring == Scoring::kSigmoid) sigmoid(experts, scores);
}

template <class E>
void keys(const float* scores, ConstVector bias, int64_t experts, int32_t* result) {
  if (bias.data == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < experts; ++i) result[i] = key_of(scores[i]);
    return;
  }
  Block b;
  for (int64_t begin = 0; begin < experts; begin += kBlock) {
    const int64_t size = block_size(begin, experts);
    load<E>(bias, begin, size, b);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      result[begin + i] = key_of(scores[begin + i] + b.values[i]);
    }
  }
}

template <class E>
void fill(Element element, KernelTable& table) {
  table.scores[element] = score<E>;
  table.keys[element] = keys<E>;
}

}  // namespace

void fill_scores(KernelTable& table) {
  fill<Float32>(kFloat32, table);
  fill<Float16>(kFloat16, table);
  fill<BFloat16>(kBFloat16, table);
  table.take_greatest = take_greatest;
}

}  // namespace opmux::native::OPMUX_KERNEL_TARGET
