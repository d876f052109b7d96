// SPDX-License-Identifier: Apache-2.0
//
// Attention from its definition, in float64 on the host. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace opmux::gpu {

struct AttentionRule {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  double scale = 1.0;
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  double softcap = 0.0;
  std::vector<double> slopes;  // one per head, or empty
};

// Of one sequence; rows are [heads, head_size].
struct AttentionResult {
  std::vector<double> out;  // [queries, heads, head_size]
  std::vector<double> lse;  // [queries, heads]; -inf where a query sees no key, whose out is 0
};

// Query i of n stands at position i + keys - n (bottom-right alignment). `q` is [queries, heads,
// head_size], `k` and `v` are [keys, kv_heads, head_size].
AttentionResult attend(const AttentionRule& rule, const std::vector<double>& q,
                       const std::vector<double>& k, const std::vector<double>& v);

// Rotates the first 2 * `pairs` elements of each head of one row by the angles of `position`:
// elements 2 i and 2 i + 1 when `interleaved`, else i and i + pairs. `cosines` and `sines` are
// [positions, pairs].
void rotate(double* row, std::int64_t heads, std::int64_t head_size, std::int64_t position,
            const std::vector<double>& cosines, const std::vector<double>& sines,
            std::int64_t pairs, bool interleaved);

}  // namespace opmux::gpu
