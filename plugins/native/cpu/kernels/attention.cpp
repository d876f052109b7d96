// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of attention: scores of a tile of query rows against a block of keys, their
// softmax as far as the row has come, and the weighted sum of the block's values. Everything is
// float32. A row's result does not depend on which other rows share its tile.
#include "plugins/native/cpu/kernels/elements.hpp"
#include "plugins/native/cpu/kernels/exponential.hpp"
#include "plugins/native/cpu/kernels/lanes.hpp"
#include "plugins/native/cpu/kernels/targets.hpp"

namespace opmux::native::OPMUX_KERNEL_TARGET {
namespace {

// Rows and keys of a tile of scores, whose sums stay in registers: sixteen of 32 registers, or
// eight of 16.
constexpr int kTileRows = kWidth == 16 ? 4 : kWidth == 8 ? 2 : 1;
constexpr int kTileKeys = kWidth == 4 ? 2 : kTileRows;
// Rows and groups of sixteen columns of a tile of values.
constexpr int kSumRows = kWidth == 16 ? 4 : kWidth == 8 ? 2 : 1;
constexpr int kSumGroups = kWidth == 16 ? 4 : 2;

// Weights below exp of this are zero; the power of two of others is a normal number.
constexpr float kNoWeight = -86.0f;
constexpr float kInfinity = __builtin_inff();

template <class E>
void widen(ConstVector source, int64_t count, float* values) {
  if (source.stride == 1) {
    load_contiguous<E>(source.data, count, values);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = E::widen(
          reinterpret_cast<const typename E::Stored*>(source.data + i * source.stride * E::kBytes)
              ->value);
    }
  }
  for (int64_t i = count; i < padded(count); ++i) values[i] = 0.0f;
}

constexpr int64_t kLineBytes = 64;

// Hands out the lines of what is ahead evenly over `steps` steps.
class Fetching {
 public:
  OPMUX_KERNEL_INLINE Fetching(const AttentionAhead& ahead, int64_t steps)
      : ahead_(ahead), row_(ahead.begin) {
    const int64_t lines = (ahead.end - ahead.begin) * ((ahead.bytes + kLineBytes - 1) / kLineBytes);
    each_ = (lines + steps - 1) / steps;
  }

  OPMUX_KERNEL_INLINE void step() {
    for (int64_t i = 0; i < each_ && row_ < ahead_.end; ++i) {
      __builtin_prefetch(ahead_.rows[row_] + ahead_.offset + at_);
      at_ += kLineBytes;
      if (at_ >= ahead_.bytes) {
        at_ = 0;
        ++row_;
      }
    }
  }

 private:
  const AttentionAhead& ahead_;
  int64_t row_;
  int64_t at_ = 0;
  int64_t each_;
};

// The lanes of kRows * kKeys sums of products, each folded to one vector.
template <class E, int kRows, int kKeys>
OPMUX_KERNEL_INLINE void multiply_tile(const AttentionScores& block, int64_t row, int64_t key,
                                       Lanes (*sums)[kGroup]) {
  Lanes products[kRows][kKeys][kVectors] = {};
  const float* queries = block.queries + row * block.query_pitch;
  const char* keys[kKeys];
  for (int j = 0; j < kKeys; ++j) keys[j] = block.keys[key + j] + block.offset;
  for (int64_t i = 0; i < block.size; i += kGroup) {
    for (int vector = 0; vector < kVectors; ++vector) {
      const int64_t at = i + vector * kWidth;
      Lanes wide[kKeys];
      for (int j = 0; j < kKeys; ++j) wide[j] = widen_lanes<E>(keys[j] + at * E::kBytes);
      for (int r = 0; r < kRows; ++r) {
        const Lanes query = lanes_at(queries + r * block.query_pitch + at);
        for (int j = 0; j < kKeys; ++j) products[r][j][vector] += query * wide[j];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kKeys; ++j) sums[r][key % kGroup + j] = fold_vectors(products[r][j]);
  }
}

template <class E, int kRows, int kKeys>
void score_rows(const AttentionScores& block, int64_t row) {
  Lanes sums[kRows][kGroup];
  Fetching fetching(block.ahead, block.key_count / kKeys);
  for (int64_t begin = 0; begin < block.key_count; begin += kGroup) {
    for (int64_t key = begin; key < begin + kGroup; key += kKeys) {
      if (row == 0) fetching.step();
      multiply_tile<E, kRows, kKeys>(block, row, key, sums);
    }
    for (int r = 0; r < kRows; ++r) {
      float* scores = block.scores + (row + r) * kAttentionPitch + begin;
      for (int i = 0; i < kGroup; i += kWidth) put_lanes(fold_all(sums[r] + i), scores + i);
    }
  }
}

template <class E>
void score(const AttentionScores& block) {
  int64_t row = 0;
  for (; row + kTileRows <= block.rows; row += kTileRows) {
    score_rows<E, kTileRows, kTileKeys>(block, row);
  }
  for (; row < block.rows; ++row) score_rows<E, 1, kTileRows * kTileKeys / 2>(block, row);
}

OPMUX_KERNEL_INLINE float exponential_of(float z) {
  const Exponential e = exponential<Accuracy::kFloat32>(z < kNoWeight ? kNoWeight : z);
  return z < kNoWeight ? 0.0f : e.mantissa * power_of_two(e.exponent);
}

// Off by 5 units of 2^-24, relative. Below 0.625 the polynomial of Moshier's Cephes library
// (tanhf), whose terms are small beside x; above, (1 - e) / (1 + e) with e = exp(-2 |x|) < 0.29.
OPMUX_KERNEL_INLINE float tanh_of(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float square = x * x;
  float sum = -5.70498872745e-3f * square + 2.06390887954e-2f;
  sum = sum * square - 5.37397155531e-2f;
  sum = sum * square + 1.33314422036e-1f;
  sum = sum * square - 3.33332819422e-1f;
  const float small = sum * square * x + x;
  const float e = exponential_of(-2.0f * magnitude);
  const float large = __builtin_copysignf((1.0f - e) / (1.0f + e), x);
  return magnitude < 0.625f ? small : large;
}

// The greatest score, NaN aside.
OPMUX_KERNEL_INLINE float greatest(const float* scores, int64_t count, float maximum) {
  Lanes lanes = all_lanes(maximum);
  for (int64_t i = 0; i < count; i += kWidth) {
    const Lanes values = lanes_at(scores + i);
    lanes = values > lanes ? values : lanes;
  }
  for (int i = 0; i < kWidth; ++i) maximum = lanes[i] > maximum ? lanes[i] : maximum;
  return maximum;
}

OPMUX_KERNEL_INLINE double sum_of(const float* weights, int64_t count) {
  Lanes sums[kVectors] = {};
  for (int64_t i = 0; i < count; i += kGroup) {
    for (int vector = 0; vector < kVectors; ++vector) {
      sums[vector] += lanes_at(weights + i + vector * kWidth);
    }
  }
  float lanes[kGroup];
  for (int vector = 0; vector < kVectors; ++vector) {
    put_lanes(sums[vector], lanes + vector * kWidth);
  }
  double sum = 0.0;
  for (int i = 0; i < kGroup; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

void weigh(const AttentionRule& rule, float* scores, int64_t count, AttentionRow& row) {
  const int64_t whole = padded(count);
  const float scale = rule.scale;
#pragma omp simd
  for (int64_t i = 0; i < whole; ++i) scores[i] *= scale;
  if (rule.cap > 0.0f) {
    const float cap = rule.cap;
#pragma omp simd
    for (int64_t i = 0; i < whole; ++i) scores[i] = cap * tanh_of(scores[i] / cap);
  }
  if (rule.slope != 0.0f) {
    const float slope = rule.slope;
    const float distance = static_cast<float>(rule.distance);
#pragma omp simd
    for (int32_t i = 0; i < static_cast<int32_t>(whole); ++i) {
      scores[i] -= slope * __builtin_fabsf(distance - static_cast<float>(i));
    }
  }
  for (int64_t i = count; i < whole; ++i) scores[i] = -kInfinity;
  const float before = row.maximum;
  const float maximum = greatest(scores, whole, before);
  // A row that has seen only scores of -infinity has no weights.
  const float base = maximum == -kInfinity ? 0.0f : maximum;
#pragma omp simd
  for (int64_t i = 0; i < whole; ++i) scores[i] = exponential_of(scores[i] - base);
  row.maximum = maximum;
  row.factor = exponential_of(before - base);
  row.sum = row.sum * static_cast<double>(row.factor) + sum_of(scores, whole);
}

template <class E, int kRows, int kGroups, bool kFetch>
OPMUX_KERNEL_INLINE void add_tile(const AttentionValues& block, int64_t row, int64_t column) {
  Fetching fetching(block.ahead, block.end - block.begin);
  Lanes sums[kRows][kGroups * kVectors] = {};
  const float* weights = block.weights + row * kAttentionPitch;
  for (int64_t key = block.begin; key < block.end; ++key) {
    const char* value = block.values[key] + block.offset + column * E::kBytes;
    if (kFetch) fetching.step();
    Lanes wide[kGroups * kVectors];
    for (int i = 0; i < kGroups * kVectors; ++i) {
      wide[i] = widen_lanes<E>(value + i * kWidth * E::kBytes);
    }
    for (int r = 0; r < kRows; ++r) {
      const Lanes weight = all_lanes(weights[r * kAttentionPitch + key]);
      for (int i = 0; i < kGroups * kVectors; ++i) sums[r][i] += weight * wide[i];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = block.sums + (row + r) * block.sum_pitch + column;
    const Lanes factor = all_lanes(block.states[row + r].factor);
    for (int i = 0; i < kGroups * kVectors; ++i) {
      put_lanes(lanes_at(out + i * kWidth) * factor + sums[r][i], out + i * kWidth);
    }
  }
}

template <class E, int kRows, int kGroups>
OPMUX_KERNEL_INLINE void add_rows(const AttentionValues& block, int64_t row) {
  int64_t column = 0;
  if (row == 0 && kGroups * kGroup <= block.size) {
    add_tile<E, kRows, kGroups, true>(block, row, column);
    column += kGroups * kGroup;
  }
  for (; column + kGroups * kGroup <= block.size; column += kGroups * kGroup) {
    add_tile<E, kRows, kGroups, false>(block, row, column);
  }
  for (; column < block.size; column += kGroup) add_tile<E, kRows, 1, false>(block, row, column);
}

template <class E>
void add_values(const AttentionValues& block) {
  int64_t row = 0;
  for (; row + kSumRows <= block.rows; row += kSumRows) {
    add_rows<E, kSumRows, kSumGroups>(block, row);
  }
  for (; row < block.rows; ++row) add_rows<E, 1, 2 * kSumGroups>(block, row);
}

template <class E>
void put_scaled(const float* values, double scale, int64_t count, Vector out) {
  Block block;
  const float factor = static_cast<float>(scale);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = block_size(begin, count);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) block.values[i] = values[begin + i] * factor;
    store<E>(block, begin, size, out);
  }
}

template <class E>
void fill(Element element, KernelTable& table) {
  table.widen[element] = widen<E>;
  table.attention_scores[element] = score<E>;
  table.attention_add[element] = add_values<E>;
  table.put_scaled[element] = put_scaled<E>;
}

}  // namespace

void fill_attention(KernelTable& table) {
  fill<Float32>(kFloat32, table);
  fill<Float16>(kFloat16, table);
  fill<BFloat16>(kBFloat16, table);
  table.attention_weigh = weigh;
}

}  // namespace opmux::native::OPMUX_KERNEL_TARGET
