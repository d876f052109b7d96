// SPDX-License-Identifier: Apache-2.0
//
// The table of attention calls that every provider is tried with: what goes in, what must come out
// by the float64 reference, and which provider must refuse, for which reason. Thread safety:
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/example_inputs.hpp"
#include "opmux/tensor_view.hpp"

namespace opmux::gpu {

struct AttentionCase {
  std::string name;
  bool varlen = true;  // flash_attn_varlen_func, else flash_attn_with_kvcache
  DType dtype = DType::kBFloat16;
  std::int64_t head_size = 128;
  std::int64_t kv_heads = 2;
  std::int64_t group = 4;             // heads of q to each of k
  std::vector<std::int64_t> queries;  // per sequence; all equal for a cache
  std::vector<std::int64_t> keys;     // per sequence; for a cache its length before the call
  std::int64_t page_size = 0;         // 0: no block table
  bool causal = true;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  std::optional<double> scale;
  double softcap = 0.0;
  bool slopes = false;
  bool wide_lengths = false;  // int64
  double dropout = 0.0;
  // Caches.
  std::int64_t appended = 0;      // tokens of k and v
  std::int64_t rotary_pairs = 0;  // 0: none
  bool interleaved = false;
  bool one_length = false;  // the overload with an int
  bool no_lengths = false;  // all slots are filled
  bool cache_rows = false;  // cache_batch_idx
  bool left_padding = false;
  int num_splits = 0;
};

std::vector<AttentionCase> attention_cases();

struct AttentionCall {
  std::string operator_name;
  cli::ExampleCall inputs;
  std::size_t out = 0;  // indices of arguments
  std::size_t lse = 0;
  std::size_t k_cache = 0;  // of a cache; 0 otherwise
  std::size_t v_cache = 0;
  // In the layouts of the arguments.
  std::vector<double> expected_out;
  std::vector<double> expected_lse;
  std::vector<double> expected_k_cache;
  std::vector<double> expected_v_cache;
  // By which the tolerance grows: rotated queries are rounded by some and kept in float32 by
  // others.
  double slack = 1.0;
};

// The same on every machine. Without the reference's results where they are not asked for.
AttentionCall make_call(const AttentionCase& each, bool with_expected = true);

// A part of the reason for which `provider` must refuse; empty when it must serve the call.
std::string expected_refusal(const AttentionCase& each, const std::string& provider);

// Whether FlashAttention's build may have been made without what the call needs.
bool may_be_built_without(const AttentionCase& each);

}  // namespace opmux::gpu
