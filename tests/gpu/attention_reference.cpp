// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/attention_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace opmux::gpu {
namespace {

bool sees(const AttentionRule& rule, std::int64_t position, std::int64_t key) {
  if (rule.causal && key > position) return false;
  if (rule.window_left >= 0 && key < position - rule.window_left) return false;
  return rule.causal || rule.window_right < 0 || key <= position + rule.window_right;
}

double dot(const double* left, const double* right, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t at = 0; at < size; ++at) sum += left[at] * right[at];
  return sum;
}

}  // namespace

AttentionResult attend(const AttentionRule& rule, const std::vector<double>& q,
                       const std::vector<double>& k, const std::vector<double>& v) {
  const std::int64_t row = rule.heads * rule.head_size;
  const std::int64_t kv_row = rule.kv_heads * rule.head_size;
  const std::int64_t queries = static_cast<std::int64_t>(q.size()) / row;
  const std::int64_t keys = static_cast<std::int64_t>(k.size()) / kv_row;
  AttentionResult result;
  result.out.assign(q.size(), 0.0);
  result.lse.assign(static_cast<std::size_t>(queries * rule.heads),
                    -std::numeric_limits<double>::infinity());
  std::vector<std::pair<std::int64_t, double>> scores;
  for (std::int64_t query = 0; query < queries; ++query) {
    const std::int64_t position = query + keys - queries;
    for (std::int64_t head = 0; head < rule.heads; ++head) {
      const std::int64_t kv_head = head / (rule.heads / rule.kv_heads);
      const double* q_head = q.data() + query * row + head * rule.head_size;
      scores.clear();
      double top = -std::numeric_limits<double>::infinity();
      for (std::int64_t key = 0; key < keys; ++key) {
        if (!sees(rule, position, key)) continue;
        double score = rule.scale * dot(q_head, k.data() + key * kv_row + kv_head * rule.head_size,
                                        rule.head_size);
        if (rule.softcap > 0.0) score = rule.softcap * std::tanh(score / rule.softcap);
        if (!rule.slopes.empty()) {
          score -= rule.slopes[static_cast<std::size_t>(head)] *
                   std::abs(static_cast<double>(position - key));
        }
        scores.emplace_back(key, score);
        top = std::max(top, score);
      }
      if (scores.empty()) continue;
      double sum = 0.0;
      for (auto& [key, score] : scores) sum += score = std::exp(score - top);
      double* out = result.out.data() + query * row + head * rule.head_size;
      for (const auto& [key, weight] : scores) {
        const double* value = v.data() + key * kv_row + kv_head * rule.head_size;
        for (std::int64_t at = 0; at < rule.head_size; ++at) out[at] += weight / sum * value[at];
      }
      result.lse[static_cast<std::size_t>(query * rule.heads + head)] = top + std::log(sum);
    }
  }
  return result;
}

void rotate(double* row, std::int64_t heads, std::int64_t head_size, std::int64_t position,
            const std::vector<double>& cosines, const std::vector<double>& sines,
            std::int64_t pairs, bool interleaved) {
  for (std::int64_t head = 0; head < heads; ++head) {
    double* elements = row + head * head_size;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      double& first = elements[interleaved ? 2 * pair : pair];
      double& second = elements[interleaved ? 2 * pair + 1 : pair + pairs];
      const auto angle = static_cast<std::size_t>(position * pairs + pair);
      const double x = first;
      const double y = second;
      first = x * cosines[angle] - y * sines[angle];
      second = x * sines[angle] + y * cosines[angle];
    }
  }
}

}  // namespace opmux::gpu
