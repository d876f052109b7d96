// SPDX-License-Identifier: Apache-2.0
//
// Attention of one sequence from its definition, in float64, with a bound for what a computation in
// float32 may be off by; shares no code with the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace opmux::test::reference {

struct AttentionRule {
  double scale = 1.0;
  bool causal = false;
  int64_t left = -1;
  int64_t right = -1;
  double cap = 0.0;
};

struct AttentionInput {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  // Row, head, dimension.
  std::function<double(int64_t, int64_t, int64_t)> query;
  std::function<double(int64_t, int64_t, int64_t)> key;
  std::function<double(int64_t, int64_t, int64_t)> value;
  std::function<double(int64_t)> slope;  // of a head; none: no bias
  AttentionRule rule;
  double query_units = 0.0;  // how far the kernel's queries are off, in units of 2^-24
};

// Indices: (query * heads + head) * head_size + dimension, and query * heads + head.
struct AttentionOutput {
  std::vector<double> out;
  std::vector<double> out_bound;
  std::vector<double> lse;
  std::vector<double> lse_bound;
};

inline bool sees(const AttentionRule& rule, int64_t aligned, int64_t key) {
  if (rule.causal && key > aligned) return false;
  if (rule.left >= 0 && key < aligned - rule.left) return false;
  return rule.causal || rule.right < 0 || key <= aligned + rule.right;
}

// One query head. The bound, in units u = 2^-24 and to first order:
// - A dot product of n = head_size / 16 products in each of sixteen lanes rounds n times in a lane
//   and 4 times joining lanes; scaling it and rounding the scale, twice: (n + 6) of the sum of the
//   absolute products. A soft cap adds 8 of the capped score (tanh 5), a bias 1 of itself and 1 of
//   the result.
// - A weight exp(z - m) is off by its score's error, 1 of |z - m| for the difference and 2 for exp.
//   Each change of m multiplies with another such factor: over all B blocks of keys 3 B, and 1 of
//   the range of the scores.
// - A weighted sum rounds at most 64 times in a block and twice for each block it is added to.
// - The sum of weights is off by 5, its inverse and the last product by 1 each.
class AttentionHead {
 public:
  AttentionHead(const AttentionInput& input, int64_t query, int64_t head)
      : input_(input), query_(query), head_(head) {
    const int64_t aligned = query + input.keys - input.queries;
    for (int64_t key = 0; key < input.keys; ++key) {
      if (sees(input.rule, aligned, key)) add_score(key, std::abs(double(aligned - key)));
    }
    weigh();
  }

  void write(AttentionOutput& result) const {
    const int64_t kv_head = head_ / (input_.heads / input_.kv_heads);
    for (int64_t i = 0; i < input_.head_size; ++i) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (size_t j = 0; j < keys_.size(); ++j) {
        const double value = weights_[j] * input_.value(keys_[j], kv_head, i);
        sum += value;
        magnitude += std::abs(value);
      }
      double bound = (double(std::min<size_t>(64, keys_.size())) + 2.0 * blocks()) * magnitude +
                     8.0 * std::abs(sum);
      for (size_t j = 0; j < keys_.size(); ++j) {
        const double value = input_.value(keys_[j], kv_head, i);
        bound += weights_[j] * errors_[j] * (std::abs(value) + std::abs(sum));
      }
      result.out.push_back(sum);
      result.out_bound.push_back(1.01 * std::ldexp(bound, -24) + 0x1p-120);
    }
    double bound = 5.0 + std::abs(lse_);
    for (size_t j = 0; j < keys_.size(); ++j) bound += weights_[j] * errors_[j];
    result.lse.push_back(lse_);
    result.lse_bound.push_back(1.01 * std::ldexp(bound, -24));
  }

 private:
  double blocks() const { return double(keys_.size()) / 64.0 + 2.0; }

  void add_score(int64_t key, double distance) {
    const int64_t kv_head = head_ / (input_.heads / input_.kv_heads);
    double score = 0.0;
    double magnitude = 0.0;
    for (int64_t i = 0; i < input_.head_size; ++i) {
      const double product = input_.query(query_, head_, i) * input_.key(key, kv_head, i);
      score += product;
      magnitude += std::abs(product);
    }
    score *= input_.rule.scale;
    const double chain = std::ceil(double(input_.head_size) / 16.0) + 6.0 + input_.query_units;
    double error = chain * magnitude * std::abs(input_.rule.scale);
    if (input_.rule.cap > 0.0) {
      score = input_.rule.cap * std::tanh(score / input_.rule.cap);
      error += 8.0 * std::abs(score);
    }
    if (input_.slope) {
      const double bias = input_.slope(head_) * distance;
      score -= bias;
      error += std::abs(bias) + std::abs(score);
    }
    keys_.push_back(key);
    weights_.push_back(score);
    errors_.push_back(error);
  }

  void weigh() {
    if (keys_.empty()) return;
    const double top = *std::max_element(weights_.begin(), weights_.end());
    const double range = top - *std::min_element(weights_.begin(), weights_.end());
    double sum = 0.0;
    for (double& weight : weights_) sum += weight = std::exp(weight - top);
    for (double& weight : weights_) weight /= sum;
    for (double& error : errors_) error += 2.0 * range + 3.0 * blocks() + 2.0;
    lse_ = top + std::log(sum);
  }

  const AttentionInput& input_;
  int64_t query_;
  int64_t head_;
  std::vector<int64_t> keys_;
  std::vector<double> weights_;
  std::vector<double> errors_;
  double lse_ = -std::numeric_limits<double>::infinity();
};

inline AttentionOutput attention(const AttentionInput& input) {
  AttentionOutput result;
  for (int64_t query = 0; query < input.queries; ++query) {
    for (int64_t head = 0; head < input.heads; ++head) {
      AttentionHead(input, query, head).write(result);
    }
  }
  return result;
}

}  // namespace opmux::test::reference
