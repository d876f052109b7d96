// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the native kernels, one row or one head at a time, compiled once per target
// (instruction set) and reached through one table per target. Every target gives the same bits for
// the same input: no contraction into fused multiply-adds, and sums in a fixed order.
//
// Rules for the kernel sources: they are compiled with instructions that the machine may not have,
// so they must not emit any function that the linker could merge with a function of another source
// file (everything is in an anonymous namespace, no inline function of the standard library is
// used). They neither allocate nor throw, and read and write any alignment. Pointers are bytes,
// strides are elements.
#pragma once

#include <cstdint>

namespace opmux::native {

// The element types that the floating-point kernels take; values index the tables below.
enum Element : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2, kElementCount = 3 };

enum Activation : int { kSilu = 0, kGelu = 1, kGeluTanh = 2, kActivationCount = 3 };

enum class Scoring : int { kNone, kSoftmax, kSigmoid };

// A vector in memory: `stride` elements from one element to the next.
struct ConstVector {
  const char* data;
  int64_t stride;
};
struct Vector {
  char* data;
  int64_t stride;
};

struct RotaryHead {
  Vector first;     // the first element of each pair
  Vector second;    // the second element of each pair
  ConstVector cos;  // one per pair
  ConstVector sin;  // one per pair
  int64_t pairs;
  bool inverse;  // rotates by the negative angle
};

// Keys of a block of attention, and elements from one row of its scores to the next: what is beyond
// the last group of sixteen may be written.
inline constexpr int64_t kAttentionKeys = 64;
inline constexpr int64_t kAttentionPitch = kAttentionKeys + 16;

// Memory that will be needed soon and is fetched meanwhile: `bytes` of each row of [begin, end).
struct AttentionAhead {
  const char* const* rows;
  int64_t begin;
  int64_t end;
  int64_t offset;
  int64_t bytes;
};

// scores[row][key] = the sum of queries[row][i] * keys[key][i]. `size` and `key_count` are
// multiples of 16, rows are padded with zeros, keys with any that can be read. Keys
// begin `offset` bytes after their pointers.
struct AttentionScores {
  const float* queries;
  int64_t query_pitch;
  int64_t rows;
  const char* const* keys;
  int64_t offset;
  int64_t key_count;
  int64_t size;
  float* scores;
  AttentionAhead ahead;
};

// How a score becomes the logarithm of a weight: s = scale * score, then cap * tanh(s / cap) unless
// cap is 0, then less slope * |distance - key|, where the block's keys count from 0.
struct AttentionRule {
  float scale;
  float cap;
  float slope;
  int64_t distance;
};

// A row's softmax over the keys so far: the greatest score, the sum of exp(score - maximum), and
// what the last block has multiplied sums with.
struct AttentionRow {
  float maximum;
  float factor;
  double sum;
};

// sums[row] = sums[row] * states[row].factor + the sum over keys [begin, end) of
// weights[row][key] * values[key].
struct AttentionValues {
  const float* weights;
  const AttentionRow* states;
  int64_t rows;
  const char* const* values;
  int64_t offset;
  int64_t begin;
  int64_t end;
  int64_t size;
  float* sums;
  int64_t sum_pitch;
  AttentionAhead ahead;
};

struct KernelTable {
  const char* target;

  // out = activation(gate) * up. `out` may be `gate` or `up` when the strides are equal.
  using Gated = void (*)(ConstVector gate, ConstVector up, Vector out, int64_t count);
  Gated gated[kActivationCount][kElementCount];

  // out = input / sqrt(mean(input^2) + epsilon) * weight; weight.data may be null (all ones).
  using RmsNorm = void (*)(ConstVector input, ConstVector weight, Vector out, int64_t count,
                           double epsilon);
  RmsNorm rms_norm[kElementCount];

  // residual = input + residual rounded to the element type; input = rms_norm(residual).
  using FusedAddRmsNorm = void (*)(Vector input, Vector residual, ConstVector weight, int64_t count,
                                   double epsilon);
  FusedAddRmsNorm fused_add_rms_norm[kElementCount];

  // Rotates one head in place; first index: element of the head, second: element of cos and sin.
  using Rotate = void (*)(const RotaryHead& head);
  Rotate rotate[kElementCount][kElementCount];

  // Router scores of one row, as float32. Softmax: a row whose maximum or sum is not a finite
  // number scores 0 everywhere; sigmoid: a NaN scores 0.
  using Scores = void (*)(ConstVector gating, int64_t experts, Scoring scoring, float* scores);
  Scores scores[kElementCount];

  // keys[i] orders scores[i] + bias[i]: a greater sum has a greater key, NaN sorts as -infinity.
  // bias.data may be null.
  using Keys = void (*)(const float* scores, ConstVector bias, int64_t experts, int32_t* keys);
  Keys keys[kElementCount];

  // values = source as float32, with zeros up to a multiple of 16.
  using Widen = void (*)(ConstVector source, int64_t count, float* values);
  Widen widen[kElementCount];

  // out = values * scale, rounded.
  using PutScaled = void (*)(const float* values, double scale, int64_t count, Vector out);
  PutScaled put_scaled[kElementCount];

  // First the scores of a block, by the element of its keys; then, row by row, its weights in place
  // of the scores of the keys that the row sees; then the sums, by the element of its values.
  void (*attention_scores[kElementCount])(const AttentionScores& block);
  void (*attention_weigh)(const AttentionRule& rule, float* scores, int64_t count,
                          AttentionRow& row);
  void (*attention_add[kElementCount])(const AttentionValues& block);

  // The index of the greatest key, the lowest one on ties, and marks it as taken.
  int64_t (*take_greatest)(int32_t* keys, int64_t count);
};

// A key that is below every score's.
inline constexpr int32_t kTakenKey = INT32_MIN;

// The tables of the targets that this machine can run, best first; the last one is the baseline,
// which every machine of the architecture runs. Thread safe.
struct KernelTables {
  const KernelTable* tables[3];
  int count;
};
KernelTables kernel_tables();

}  // namespace opmux::native
