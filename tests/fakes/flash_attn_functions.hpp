// SPDX-License-Identifier: Apache-2.0
//
// What tests/fakes/flash_attn_functions.cpp was called with last, without torch's types.
#pragma once

#include <array>
#include <cstdint>

namespace opmux::fakes {

struct RecordedTensor {
  bool given = false;
  const void* data = nullptr;
  const void* identity = nullptr;  // the c10::TensorImpl
  int rank = 0;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> strides{};
  int dtype = -1;                          // c10::ScalarType
  std::array<std::int32_t, 4> integers{};  // the first elements of an int32 tensor
};

struct RecordedCall {
  int calls = 0;
  RecordedTensor q, k, v, out, alibi_slopes, block_table, leftpad_k;
  RecordedTensor cu_seqlens_q, cu_seqlens_k, seqused_k;                                 // varlen
  RecordedTensor k_new, v_new, cache_seqlens, rotary_cos, rotary_sin, cache_batch_idx;  // kvcache
  int max_seqlen_q = 0, max_seqlen_k = 0;
  float p_dropout = -1, softmax_scale = 0, softcap = 0;
  bool zero_tensors = true, causal = false, return_softmax = true, generator = true;
  bool rotary_interleaved = false;
  int window_left = 0, window_right = 0, num_splits = 0;
  bool inference_mode = false;
};

// Exported by the library, with C linkage.
using RecordFunction = const RecordedCall*();  // fake_flash_attn_record
using ClearFunction = void();                  // fake_flash_attn_clear
using AddressFunction = void*();               // fake_flash_attn_varlen, fake_flash_attn_kvcache

}  // namespace opmux::fakes
