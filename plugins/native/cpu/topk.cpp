// SPDX-License-Identifier: Apache-2.0
//
// topk_softmax, topk_sigmoid, grouped_topk: the router's choice of experts.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/kernels/elements.hpp"
#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/kernels/keys.hpp"
#include "plugins/native/cpu/operators.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

// Rows are shared out as at most this many pieces, each with scratch memory of its own.
constexpr int64_t kPieces = 64;
constexpr int64_t kScratchBytes = int64_t{16} << 20;

// The split of the rows, and the scratch memory of the pieces, whose size does not depend on the
// number of rows.
struct Pieces {
  int64_t count = 0;
  int64_t rows = 0;  // of each piece, the last one may have fewer
  int64_t words = 0;
  char* scratch = nullptr;

  float* floats(int64_t piece) const {
    return reinterpret_cast<float*>(scratch + piece * words * 4);
  }
};

// `words` of 32 bits of scratch for each piece, rounded up so that each begins on a cache line.
Pieces split(Arguments& arguments, int64_t rows, int64_t experts, int64_t words) {
  Pieces pieces;
  pieces.words = (words + 15) / 16 * 16;
  const int64_t fit = std::max<int64_t>(1, kScratchBytes / (pieces.words * 4));
  const int64_t worth = std::max<int64_t>(1, rows / grain_for(experts));
  pieces.count = std::min({kPieces, fit, worth, rows});
  pieces.rows = (rows + pieces.count - 1) / pieces.count;
  pieces.scratch = static_cast<char*>(arguments.workspace(pieces.count * pieces.words * 4));
  return pieces;
}

template <class Body>
void for_each_row(const OpmuxHost& host, int64_t rows, const Pieces& pieces, const Body& body) {
  parallel_for(host, pieces.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t last = std::min(rows, (piece + 1) * pieces.rows);
      for (int64_t row = piece * pieces.rows; row < last; ++row) body(row, pieces.floats(piece));
    }
  });
}

// An integer tensor of 32 or 64 bits.
void put_index(char* data, OpmuxDataType dtype, int64_t index) {
  if (dtype.bits == 64) {
    std::memcpy(data, &index, sizeof index);
    return;
  }
  const int32_t narrow = static_cast<int32_t>(index);
  std::memcpy(data, &narrow, sizeof narrow);
}

void put_float(char* data, Element element, float value) {
  if (element == kFloat32) {
    std::memcpy(data, &value, sizeof value);
    return;
  }
  const uint16_t narrow = element == kFloat16 ? Float16::narrow(value) : BFloat16::narrow(value);
  std::memcpy(data, &narrow, sizeof narrow);
}

struct Gating {
  Scoring scoring = Scoring::kSoftmax;
  const char* bias = "";
  const char* indices = "";
  bool renormalize = false;
  double scaling = 1.0;
};

OpmuxStatus choose(void* binding, Arguments& arguments, const Gating& how, uint32_t first_output) {
  const Tensor gating = arguments.tensor(0, "gating_output");
  const Tensor bias = arguments.optional_tensor(1, how.bias);
  const Tensor padding = arguments.optional_tensor(2, "is_padding");
  const Tensor weights = arguments.tensor(first_output, "topk_weights");
  const Tensor indices = arguments.tensor(first_output + 1, how.indices);
  const Tensor sources = arguments.tensor(first_output + 2, "token_expert_indices");
  const Element element = arguments.element(gating);
  arguments.require_rank(gating, 2, 2);
  if (bias.present) arguments.require_dtype(bias, {kFloat32Type});
  if (padding.present) arguments.require_dtype(padding, {kBoolType});
  arguments.require_dtype(weights, {kFloat32Type});
  arguments.require_dtype(indices, {kInt32Type, kUint32Type, kInt64Type});
  arguments.require_dtype(sources, {kInt32Type});
  arguments.require_rank(weights, 2, 2);
  if (!arguments.valid()) return arguments.status();
  const int64_t tokens = gating.size(0);
  const int64_t experts = gating.size(1);
  const int64_t topk = weights.size(1);
  if (bias.present) arguments.require_shape(bias, {experts});
  if (padding.present) arguments.require_shape(padding, {tokens});
  arguments.require_shape(weights, {tokens, topk});
  arguments.require_shape(indices, {tokens, topk});
  arguments.require_shape(sources, {tokens, topk});
  arguments.require(topk <= experts,
                    "`topk_weights`: expected at most %" PRId64
                    " columns, the experts of "
                    "`gating_output`, found %" PRId64,
                    experts, topk);
  arguments.require(tokens == 0 || topk <= INT32_MAX / tokens,
                    "`token_expert_indices`: expected at most 2147483647 elements, found %" PRId64,
                    sources.elements);
  arguments.require(experts <= INT32_MAX,
                    "`gating_output`: expected at most 2147483647 experts, found %" PRId64,
                    experts);
  if (!arguments.valid() || tokens == 0 || topk == 0) return arguments.status();

  const auto& kernels = *static_cast<const KernelTable*>(binding);
  const Pieces pieces = split(arguments, tokens, experts, 2 * experts);
  if (!arguments.valid()) return arguments.status();
  const ConstVector bias_vector = {bias.data, bias.present ? bias.step(0) : 0};
  for_each_row(arguments.host(), tokens, pieces, [&](int64_t row, float* scores) {
    auto* keys = reinterpret_cast<int32_t*>(scores + experts);
    kernels.scores[element](
        {gating.data + row * gating.step(0) * gating.element_bytes(), gating.step(1)}, experts,
        how.scoring, scores);
    kernels.keys[kFloat32](scores, bias_vector, experts, keys);
    const bool pads = padding.present && padding.data[row * padding.step(0)] != 0;
    double sum = 0.0;
    for (int64_t column = 0; column < topk; ++column) {
      const int64_t expert = kernels.take_greatest(keys, experts);
      sum += static_cast<double>(scores[expert]);
      put_float(weights.data + (row * weights.step(0) + column * weights.step(1)) * 4, kFloat32,
                scores[expert]);
      put_index(indices.data +
                    (row * indices.step(0) + column * indices.step(1)) * indices.element_bytes(),
                indices.dtype, pads ? -1 : expert);
      put_index(sources.data + (row * sources.step(0) + column * sources.step(1)) * 4,
                sources.dtype, column * tokens + row);
    }
    const double scale = how.scaling / (how.renormalize && sum > 0.0 ? sum : 1.0);
    if (scale == 1.0) return;
    for (int64_t column = 0; column < topk; ++column) {
      char* weight = weights.data + (row * weights.step(0) + column * weights.step(1)) * 4;
      float value = 0.0f;
      std::memcpy(&value, weight, sizeof value);
      put_float(weight, kFloat32, static_cast<float>(static_cast<double>(value) * scale));
    }
  });
  return OPMUX_OK;
}

// Marks all keys outside the `chosen` best groups as taken. False when one of those groups has no
// finite score.
bool keep_best_groups(const KernelTable& kernels, int32_t* keys, int64_t experts, int64_t groups,
                      int64_t chosen, int32_t* group_keys, int32_t* order) {
  const int64_t size = experts / groups;
  for (int64_t group = 0; group < groups; ++group) {
    int32_t best = kLowestKey;
    int32_t second = kLowestKey;
    for (int64_t i = group * size; i < (group + 1) * size; ++i) {
      second = std::max(second, std::min(best, keys[i]));
      best = std::max(best, keys[i]);
    }
    const float sum = size == 1 ? value_of(best) : value_of(best) + value_of(second);
    group_keys[group] = key_of(sum);
    order[group] = 0;
  }
  bool all_finite = true;
  for (int64_t i = 0; i < chosen; ++i) {
    const int64_t group = std::max_element(group_keys, group_keys + groups) - group_keys;
    all_finite = all_finite && group_keys[group] != kLowestKey;
    const int64_t taken = kernels.take_greatest(group_keys, groups);
    order[taken] = 1;
  }
  for (int64_t i = 0; i < experts; ++i) {
    if (order[i / size] == 0) keys[i] = kTakenKey;
  }
  return all_finite;
}

}  // namespace

OpmuxStatus topk_softmax(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 7);
  Gating how;
  how.scoring = Scoring::kSoftmax;
  how.bias = "bias";
  how.indices = "topk_indices";
  how.renormalize = arguments.boolean(3, "renormalize");
  return choose(binding, arguments, how, 4);
}

OpmuxStatus topk_sigmoid(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 8);
  Gating how;
  how.scoring = Scoring::kSigmoid;
  how.bias = "e_score_correction_bias";
  how.indices = "topk_ids";
  how.renormalize = arguments.boolean(3, "renormalize");
  how.scaling = arguments.real(4, "routed_scaling_factor");
  return choose(binding, arguments, how, 5);
}

OpmuxStatus grouped_topk(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 10);
  const Tensor scores = arguments.tensor(0, "scores");
  const Tensor bias = arguments.tensor(1, "bias");
  const int64_t groups = arguments.integer(2, "num_expert_group");
  const int64_t chosen = arguments.integer(3, "topk_group");
  const int64_t topk = arguments.integer(4, "topk");
  const bool renormalize = arguments.boolean(5, "renormalize");
  const double scaling = arguments.real(6, "routed_scaling_factor");
  const int64_t function = arguments.integer(7, "scoring_func");
  const Tensor values = arguments.tensor(8, "topk_values");
  const Tensor indices = arguments.tensor(9, "topk_indices");
  const Element element = arguments.element(scores);
  const Element bias_element = arguments.element(bias);
  arguments.require_rank(scores, 2, 2);
  if (element == kFloat32) {
    arguments.require_dtype(values, {kFloat32Type});
  } else {
    arguments.require_dtype(values, {kFloat32Type, scores.dtype});
  }
  arguments.require_dtype(indices, {kInt32Type, kInt64Type});
  if (!arguments.valid()) return arguments.status();
  const Element value_element = arguments.element(values);
  const int64_t tokens = scores.size(0);
  const int64_t experts = scores.size(1);
  arguments.require(groups > 0, "`num_expert_group`: expected more than 0, found %" PRId64, groups);
  if (!arguments.valid()) return arguments.status();
  arguments.require(experts % groups == 0,
                    "`scores`: expected a number of experts divisible by num_expert_group %" PRId64
                    ", found %" PRId64,
                    groups, experts);
  arguments.require(chosen > 0 && chosen <= groups,
                    "`topk_group`: expected 1 to %" PRId64 ", the groups, found %" PRId64, groups,
                    chosen);
  arguments.require(topk > 0, "`topk`: expected more than 0, found %" PRId64, topk);
  if (!arguments.valid()) return arguments.status();
  arguments.require(topk <= chosen * (experts / groups),
                    "`topk`: expected at most %" PRId64
                    ", the experts of topk_group groups, found "
                    "%" PRId64,
                    chosen * (experts / groups), topk);
  arguments.require(experts <= INT32_MAX,
                    "`scores`: expected at most 2147483647 experts, found %" PRId64, experts);
  arguments.require(function == 0 || function == 1,
                    "`scoring_func`: expected 0 (none) or 1 (sigmoid), found %" PRId64, function);
  arguments.require_shape(bias, {experts});
  arguments.require_shape(values, {tokens, topk});
  arguments.require_shape(indices, {tokens, topk});
  if (!arguments.valid() || tokens == 0) return arguments.status();

  const auto& kernels = *static_cast<const KernelTable*>(binding);
  const Pieces pieces = split(arguments, tokens, experts, 3 * experts + 2 * groups);
  if (!arguments.valid()) return arguments.status();
  for_each_row(arguments.host(), tokens, pieces, [&](int64_t row, float* scratch) {
    float* given = scratch;
    float* unbiased = given + experts;
    auto* keys = reinterpret_cast<int32_t*>(unbiased + experts);
    int32_t* group_keys = keys + experts;
    int32_t* order = group_keys + groups;
    const ConstVector source = {scores.data + row * scores.step(0) * scores.element_bytes(),
                                scores.step(1)};
    kernels.scores[element](source, experts, Scoring::kNone, given);
    kernels.scores[kFloat32]({reinterpret_cast<const char*>(given), 1}, experts,
                             function == 1 ? Scoring::kSigmoid : Scoring::kNone, unbiased);
    kernels.keys[bias_element](unbiased, {bias.data, bias.step(0)}, experts, keys);
    for (int64_t i = 0; i < experts; ++i) {
      const bool finite = (bits_of(given[i]) & 0x7f800000u) != 0x7f800000u;
      if (finite) continue;
      keys[i] = kLowestKey;
      unbiased[i] = 0.0f;
    }
    const bool usable = keep_best_groups(kernels, keys, experts, groups, chosen, group_keys, order);
    double sum = 1e-20;
    auto* best = reinterpret_cast<int32_t*>(given);  // not needed any more
    for (int64_t column = 0; column < topk; ++column) {
      const int64_t expert = usable ? kernels.take_greatest(keys, experts) : column;
      best[column] = static_cast<int32_t>(expert);
      sum += static_cast<double>(unbiased[expert]);
    }
    const double scale = renormalize ? scaling / sum : scaling;
    for (int64_t column = 0; column < topk; ++column) {
      const double value = usable ? static_cast<double>(unbiased[best[column]]) * scale
                                  : 1.0 / static_cast<double>(topk);
      put_float(
          values.data + (row * values.step(0) + column * values.step(1)) * values.element_bytes(),
          value_element, static_cast<float>(value));
      put_index(indices.data +
                    (row * indices.step(0) + column * indices.step(1)) * indices.element_bytes(),
                indices.dtype, best[column]);
    }
  });
  return OPMUX_OK;
}

}  // namespace opmux::native
