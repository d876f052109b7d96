// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_with_kvcache, with cache_seqlens as a tensor or as an int, on flash::mha_fwd_kvcache.
#include <ATen/ops/full.h>

#include <utility>

#include "plugins/flash_attn/call.hpp"

namespace opmux::flash_attn {
namespace {

enum Argument : std::int32_t {
  kQ,
  kKCache,
  kVCache,
  kK,
  kV,
  kRotaryCos,
  kRotarySin,
  kCacheSeqlens,
  kCacheBatchIdx,
  kCacheLeftpad,
  kBlockTable,
  kAlibiSlopes,
  kSoftmaxScale,
  kCausal,
  kWindowSize,
  kSoftcap,
  kRotaryInterleaved,
  kNumSplits,
  kReturnSoftmaxLse,
  kOut,
  kSoftmaxLse,
};

// FlashAttention's parameters are optionals of const tensors.
using Optional = std::optional<const at::Tensor>;

Optional as_const(std::optional<at::Tensor> tensor) {
  return tensor ? Optional(std::in_place, *std::move(tensor)) : Optional();
}

struct Inputs {
  at::Tensor q;
  at::Tensor k_cache;
  at::Tensor v_cache;
  std::optional<at::Tensor> k;
  std::optional<at::Tensor> v;
  std::optional<at::Tensor> rotary_cos;
  std::optional<at::Tensor> rotary_sin;
  std::optional<at::Tensor> cache_seqlens;
  std::optional<at::Tensor> cache_batch_idx;
  std::optional<at::Tensor> cache_leftpad;
  std::optional<at::Tensor> block_table;
  std::optional<at::Tensor> alibi_slopes;
  std::int64_t batch = 0;
  std::int64_t slots = 0;  // of each sequence in the cache
  std::int64_t k_heads = 0;
};

// [batch of the cache, slots, heads, head size], or [pages, page size, heads, head size] with a
// block table.
void require_cache(const Call& call, Inputs& in) {
  const std::int64_t head_size = in.q.size(3);
  call.require_rank(kKCache, in.k_cache, 4);
  in.k_heads = in.k_cache.size(2);
  call.require_shape(kKCache, in.k_cache,
                     {in.k_cache.size(0), in.k_cache.size(1), in.k_heads, head_size});
  call.require_shape(kVCache, in.v_cache,
                     {in.k_cache.size(0), in.k_cache.size(1), in.k_heads, head_size});
  call.require(in.k_heads > 0 && in.q.size(2) % in.k_heads == 0, OPMUX_INVALID_ARGUMENT, kKCache,
               "a number of heads that divides q's", in.k_heads);
  call.require_rows(kKCache, in.k_cache, in.q);
  call.require_rows(kVCache, in.v_cache, in.q);
  in.slots = in.k_cache.size(1);
  if (in.block_table) {
    call.require_block_table(kBlockTable, *in.block_table, in.batch, in.slots);
    call.require(in.slots > 0 && in.slots % 256 == 0, OPMUX_UNSUPPORTED, kKCache,
                 "a page size that is a multiple of 256", in.slots);
    call.require(!in.cache_batch_idx, OPMUX_UNSUPPORTED, kCacheBatchIdx, "None with a block table",
                 "a Tensor");
    call.require(!in.cache_leftpad, OPMUX_UNSUPPORTED, kCacheLeftpad, "None with a block table",
                 "a Tensor");
    in.slots *= in.block_table->size(1);
  } else if (!in.cache_batch_idx) {
    // FlashAttention would read past the end.
    call.require(in.k_cache.size(0) >= in.batch, OPMUX_INVALID_ARGUMENT, kKCache,
                 "a cache for every sequence of q", in.k_cache.size(0));
  }
  if (in.cache_batch_idx) {
    call.require_indices(kCacheBatchIdx, *in.cache_batch_idx, {in.batch});
  }
  if (in.cache_leftpad) {
    call.require_indices(kCacheLeftpad, *in.cache_leftpad, {in.batch});
  }
}

void require_new_keys(const Call& call, const Inputs& in) {
  call.require(in.k.has_value() == in.v.has_value(), OPMUX_INVALID_ARGUMENT, in.k ? kV : kK,
               "a Tensor, as the other of k and v is given", "None");
  if (!in.k) {
    call.require(!in.rotary_cos, OPMUX_INVALID_ARGUMENT, kRotaryCos, "None without k", "a Tensor");
    return;
  }
  call.require_rank(kK, *in.k, 4);
  call.require_shape(kK, *in.k, {in.batch, in.k->size(1), in.k_heads, in.q.size(3)});
  call.require_shape(kV, *in.v, {in.batch, in.k->size(1), in.k_heads, in.q.size(3)});
  call.require_rows(kK, *in.k, in.q);
  call.require_rows(kV, *in.v, in.q);
  call.require(in.k->size(1) <= in.slots, OPMUX_INVALID_ARGUMENT, kK,
               "no more tokens than the cache has slots", in.k->size(1));
}

void require_rotary(const Call& call, const Inputs& in) {
  call.require(in.rotary_cos.has_value() == in.rotary_sin.has_value(), OPMUX_INVALID_ARGUMENT,
               in.rotary_cos ? kRotarySin : kRotaryCos,
               "a Tensor, as the other of rotary_cos and rotary_sin is given", "None");
  if (!in.rotary_cos) {
    return;
  }
  const at::Tensor& cosines = *in.rotary_cos;
  call.require_rank(kRotaryCos, cosines, 2);
  call.require_shape(kRotarySin, *in.rotary_sin, {cosines.size(0), cosines.size(1)});
  call.require(cosines.is_contiguous(), OPMUX_UNSUPPORTED, kRotaryCos, "a contiguous tensor",
               "one with gaps");
  call.require(in.rotary_sin->is_contiguous(), OPMUX_UNSUPPORTED, kRotarySin, "a contiguous tensor",
               "one with gaps");
  call.require(cosines.size(1) * 2 <= in.q.size(3), OPMUX_INVALID_ARGUMENT, kRotaryCos,
               "at most half of the head size", cosines.size(1));
  call.require(cosines.size(1) % 8 == 0, OPMUX_UNSUPPORTED, kRotaryCos, "a multiple of 8",
               cosines.size(1));
  call.require_rows(kRotaryCos, cosines, in.q);
  call.require_rows(kRotarySin, *in.rotary_sin, in.q);
  call.require(cosines.size(0) >= in.slots, OPMUX_UNSUPPORTED, kRotaryCos,
               "a row for every slot of the cache", cosines.size(0));
}

// The lengths before this call. An int becomes a tensor on the caller's stream, as FlashAttention's
// own Python function makes it.
void take_lengths(const Binding& binding, Call& call, Inputs& in) {
  if (!binding.int_lengths) {
    in.cache_seqlens = call.optional_tensor(kCacheSeqlens);
    call.require(in.cache_seqlens || !in.k, OPMUX_INVALID_ARGUMENT, kCacheSeqlens,
                 "lengths, as k is given", "None");
    if (in.cache_seqlens) {
      call.require_indices(kCacheSeqlens, *in.cache_seqlens, {in.batch});
    }
    return;
  }
  const int length = call.integer(kCacheSeqlens);
  const std::int64_t appended = in.k ? in.k->size(1) : 0;
  call.require(length >= 0 && length + appended <= in.slots, OPMUX_INVALID_ARGUMENT, kCacheSeqlens,
               "a length that leaves room for k in the cache", length);
  in.cache_seqlens =
      at::full({in.batch}, length, at::TensorOptions().dtype(at::kInt).device(in.q.device()));
}

Inputs take_inputs(const Binding& binding, Call& call) {
  Inputs in;
  in.q = call.tensor(kQ);
  in.k_cache = call.tensor(kKCache);
  in.v_cache = call.tensor(kVCache);
  in.k = call.optional_tensor(kK);
  in.v = call.optional_tensor(kV);
  in.rotary_cos = call.optional_tensor(kRotaryCos);
  in.rotary_sin = call.optional_tensor(kRotarySin);
  in.cache_batch_idx = call.optional_tensor(kCacheBatchIdx);
  in.cache_leftpad = call.optional_tensor(kCacheLeftpad);
  in.block_table = call.optional_tensor(kBlockTable);
  in.alibi_slopes = call.optional_tensor(kAlibiSlopes);
  call.require_rank(kQ, in.q, 4);
  in.batch = in.q.size(0);
  call.require_query(kQ, in.q);
  require_cache(call, in);
  require_new_keys(call, in);
  require_rotary(call, in);
  if (in.alibi_slopes) {
    call.require_slopes(kAlibiSlopes, *in.alibi_slopes, in.batch, in.q.size(2));
  }
  take_lengths(binding, call, in);
  if (in.k && in.k->size(1) == 0) {
    call.require(!in.rotary_cos, OPMUX_UNSUPPORTED, kRotaryCos, "None without tokens in k",
                 "a Tensor");
    in.k.reset();
    in.v.reset();
  }
  return in;
}

void run(const Binding& binding, Call& call, bool& launched) {
  Inputs in = take_inputs(binding, call);
  const at::Tensor out = call.tensor(kOut);
  const std::optional<at::Tensor> lse = call.optional_tensor(kSoftmaxLse);
  const std::int64_t tokens = in.q.size(1);
  const std::int64_t heads = in.q.size(2);
  call.require_outputs(kOut, out, in.q, kSoftmaxLse, lse, {in.batch, heads, tokens});
  call.require(lse || !call.boolean(kReturnSoftmaxLse), OPMUX_INVALID_ARGUMENT, kSoftmaxLse,
               "a Tensor, as return_softmax_lse is true", "None");
  const float scale = call.scale(kSoftmaxScale, in.q.size(3));
  const bool causal = call.boolean(kCausal);
  const Window window = call.window(kWindowSize);
  const float softcap = call.real(kSoftcap);
  const bool interleaved = call.boolean(kRotaryInterleaved);
  const int num_splits = call.integer(kNumSplits);
  call.require(num_splits <= 128, OPMUX_UNSUPPORTED, kNumSplits, "at most 128", num_splits);

  if (in.q.numel() == 0) {
    // FlashAttention would launch an empty grid, and so append nothing.
    call.require(!in.k || in.k->numel() == 0, OPMUX_UNSUPPORTED, kK, "None without queries",
                 "a Tensor");
    return;
  }
  if (in.slots == 0) {
    launched = true;
    write_no_keys(out, lse);
    return;
  }
  // With one token and fewer heads in the cache than in q FlashAttention regroups q to [batch,
  // group, heads of the cache, head size] and takes no `out` of another shape: it then returns a
  // new tensor.
  const bool regroups =
      tokens == 1 && heads > in.k_heads && window.left < 0 && window.right < 0 && !in.alibi_slopes;
  call.require(!in.k || (regroups ? heads / in.k_heads : tokens) <= in.slots, OPMUX_UNSUPPORTED,
               kKCache, "as many slots as q has tokens, or heads to each head of the cache",
               in.slots);
  std::optional<at::Tensor> out_argument;
  if (!regroups && is_writable(out)) {
    out_argument = out;
  }
  Optional k = as_const(std::move(in.k));
  Optional v = as_const(std::move(in.v));
  Optional cache_seqlens = as_const(std::move(in.cache_seqlens));
  Optional rotary_cos = as_const(std::move(in.rotary_cos));
  Optional rotary_sin = as_const(std::move(in.rotary_sin));
  Optional cache_batch_idx = as_const(std::move(in.cache_batch_idx));
  Optional cache_leftpad = as_const(std::move(in.cache_leftpad));
  launched = true;
  const std::vector<at::Tensor> results =
      binding.kvcache(in.q, in.k_cache, in.v_cache, k, v, cache_seqlens, rotary_cos, rotary_sin,
                      cache_batch_idx, cache_leftpad, in.block_table, in.alibi_slopes, out_argument,
                      scale, causal, window.left, window.right, softcap, interleaved, num_splits);
  call.take_results(results, kOut, kSoftmaxLse, lse.has_value());
}

}  // namespace

OpmuxStatus call_kvcache(void* binding, const OpmuxCall* call) noexcept {
  return run_call(binding, call, run);
}

}  // namespace opmux::flash_attn
