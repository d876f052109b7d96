// SPDX-License-Identifier: Apache-2.0
//
// FlashAttention's two functions as its library exports them, on CPU tensors: they record what they
// get, keep to FlashAttention's rules for `q` and `out`, and compute out = 2 q. softmax_lse counts
// up, from +inf as a row without keys has it. softcap asks for faults: 1 for a build without it, -1
// for a failed launch, -2 for no results.
#include "tests/fakes/flash_attn_functions.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <limits>
#include <optional>
#include <vector>

#define FAKE_EXPORT __attribute__((visibility("default")))

namespace {

using opmux::fakes::RecordedCall;
using opmux::fakes::RecordedTensor;

RecordedCall g_record;

RecordedTensor record(const at::Tensor& tensor) {
  RecordedTensor result;
  result.given = true;
  result.data = tensor.const_data_ptr();
  result.identity = tensor.unsafeGetTensorImpl();
  result.rank = static_cast<int>(tensor.dim());
  result.dtype = static_cast<int>(tensor.scalar_type());
  for (std::size_t dim = 0; dim < static_cast<std::size_t>(result.rank) && dim < 4; ++dim) {
    result.shape[dim] = tensor.size(static_cast<std::int64_t>(dim));
    result.strides[dim] = tensor.stride(static_cast<std::int64_t>(dim));
  }
  if (tensor.scalar_type() == at::kInt) {
    for (std::size_t at = 0; at < 4 && static_cast<std::int64_t>(at) < tensor.numel(); ++at) {
      result.integers[at] = tensor.const_data_ptr<std::int32_t>()[at];
    }
  }
  return result;
}

template <class Tensor>
RecordedTensor record(const std::optional<Tensor>& tensor) {
  return tensor ? record(*tensor) : RecordedTensor{};
}

void raise_faults(float softcap) {
  TORCH_CHECK(softcap != 1.0F, "This flash attention build does not support softcap.");
  TORCH_CHECK(softcap != -1.0F, "CUDA error: no kernel image is available for execution");
}

at::Tensor count_up(at::IntArrayRef shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  at::Tensor lse = at::arange(count, at::TensorOptions().dtype(at::kFloat));
  if (count > 0) {
    lse[0] = std::numeric_limits<float>::infinity();
  }
  return lse.reshape(shape);
}

}  // namespace

namespace flash {

FAKE_EXPORT std::vector<at::Tensor> mha_varlen_fwd(
    at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::optional<at::Tensor>& out,
    const at::Tensor& cu_seqlens_q, const at::Tensor& cu_seqlens_k,
    std::optional<at::Tensor>& seqused_k, std::optional<const at::Tensor>& leftpad_k,
    std::optional<at::Tensor>& block_table, std::optional<at::Tensor>& alibi_slopes,
    int max_seqlen_q, int max_seqlen_k, float p_dropout, float softmax_scale, bool zero_tensors,
    bool is_causal, int window_size_left, int window_size_right, float softcap, bool return_softmax,
    // NOLINTNEXTLINE(performance-unnecessary-value-param): as FlashAttention has it
    std::optional<at::Generator> generator) {
  const int calls = g_record.calls;
  g_record = {};
  g_record.calls = calls + 1;
  g_record.q = record(q);
  g_record.k = record(k);
  g_record.v = record(v);
  g_record.out = record(out);
  g_record.cu_seqlens_q = record(cu_seqlens_q);
  g_record.cu_seqlens_k = record(cu_seqlens_k);
  g_record.seqused_k = record(seqused_k);
  g_record.leftpad_k = record(leftpad_k);
  g_record.block_table = record(block_table);
  g_record.alibi_slopes = record(alibi_slopes);
  g_record.max_seqlen_q = max_seqlen_q;
  g_record.max_seqlen_k = max_seqlen_k;
  g_record.p_dropout = p_dropout;
  g_record.softmax_scale = softmax_scale;
  g_record.zero_tensors = zero_tensors;
  g_record.causal = is_causal;
  g_record.window_left = window_size_left;
  g_record.window_right = window_size_right;
  g_record.softcap = softcap;
  g_record.return_softmax = return_softmax;
  g_record.generator = generator.has_value();
  g_record.inference_mode = c10::InferenceMode::is_enabled();
  raise_faults(softcap);
  if (softcap == -2.0F) {
    return {};
  }
  const at::Tensor given = q;
  const std::int64_t batch = cu_seqlens_q.numel() - 1;
  const std::int64_t k_heads = block_table ? k.size(2) : k.size(1);
  const std::int64_t group = q.size(1) / k_heads;
  const bool regroups = max_seqlen_q == 1 && group > 1 && window_size_left < 0 &&
                        window_size_right < 0 && !alibi_slopes;
  at::Tensor result = out ? *out : at::empty_like(q);
  if (regroups) {
    q = q.reshape({batch, k_heads, group, q.size(2)})
            .transpose(1, 2)
            .reshape({-1, k_heads, q.size(2)});
    // The real one writes a copy, except with one head.
    result = k_heads == 1 ? result : at::empty_like(given);
  }
  at::mul_out(result, given, at::scalar_tensor(2.0, given.options()));
  return {result, count_up({given.size(1), given.size(0)}), at::Tensor(), at::Tensor()};
}

FAKE_EXPORT std::vector<at::Tensor> mha_fwd_kvcache(
    at::Tensor& q, const at::Tensor& k_cache, const at::Tensor& v_cache,
    std::optional<const at::Tensor>& k, std::optional<const at::Tensor>& v,
    std::optional<const at::Tensor>& cache_seqlens, std::optional<const at::Tensor>& rotary_cos,
    std::optional<const at::Tensor>& rotary_sin, std::optional<const at::Tensor>& cache_batch_idx,
    std::optional<const at::Tensor>& leftpad_k, std::optional<at::Tensor>& block_table,
    std::optional<at::Tensor>& alibi_slopes, std::optional<at::Tensor>& out, float softmax_scale,
    bool is_causal, int window_size_left, int window_size_right, float softcap,
    bool is_rotary_interleaved, int num_splits) {
  const int calls = g_record.calls;
  g_record = {};
  g_record.calls = calls + 1;
  g_record.q = record(q);
  g_record.k = record(k_cache);
  g_record.v = record(v_cache);
  g_record.k_new = record(k);
  g_record.v_new = record(v);
  g_record.cache_seqlens = record(cache_seqlens);
  g_record.rotary_cos = record(rotary_cos);
  g_record.rotary_sin = record(rotary_sin);
  g_record.cache_batch_idx = record(cache_batch_idx);
  g_record.leftpad_k = record(leftpad_k);
  g_record.block_table = record(block_table);
  g_record.alibi_slopes = record(alibi_slopes);
  g_record.out = record(out);
  g_record.softmax_scale = softmax_scale;
  g_record.causal = is_causal;
  g_record.window_left = window_size_left;
  g_record.window_right = window_size_right;
  g_record.softcap = softcap;
  g_record.rotary_interleaved = is_rotary_interleaved;
  g_record.num_splits = num_splits;
  g_record.inference_mode = c10::InferenceMode::is_enabled();
  raise_faults(softcap);
  if (softcap == -2.0F) {
    return {};
  }
  const at::Tensor given = q;
  const std::int64_t group = q.size(2) / k_cache.size(2);
  const bool regroups =
      q.size(1) == 1 && group > 1 && window_size_left < 0 && window_size_right < 0 && !alibi_slopes;
  if (regroups) {
    q = q.reshape({q.size(0), k_cache.size(2), group, q.size(3)}).transpose(1, 2);
    TORCH_CHECK(!out, "out must have shape (batch_size, seqlen_q, num_heads, head_size_og)");
  }
  if (k) {
    k_cache.fill_(3.0);
    v_cache.fill_(4.0);
  }
  at::Tensor result = out ? *out : at::empty_like(given);
  at::mul_out(result, given, at::scalar_tensor(2.0, given.options()));
  return {result, count_up({given.size(0), given.size(2), given.size(1)})};
}

}  // namespace flash

extern "C" {

FAKE_EXPORT const RecordedCall* fake_flash_attn_record() { return &g_record; }
FAKE_EXPORT void fake_flash_attn_clear() { g_record = {}; }
FAKE_EXPORT void* fake_flash_attn_varlen() {
  return reinterpret_cast<void*>(&flash::mha_varlen_fwd);
}
FAKE_EXPORT void* fake_flash_attn_kvcache() {
  return reinterpret_cast<void*>(&flash::mha_fwd_kvcache);
}

}  // extern "C"
