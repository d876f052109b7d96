// SPDX-License-Identifier: Apache-2.0
//
// The operators of the native module. Each checks every argument before it writes anything, and
// gives the reason for a refusal to the host. `binding` is the KernelTable to compute with.
//
// Common to all: tensors live on the CPU; any strides, byte offset and alignment (exceptions are
// said); no dimension's product overflows 64 bits; outputs that overlap inputs are the caller's
// responsibility unless an operator says otherwise.
#pragma once

#include "opmux/plugin.h"

namespace opmux::native {

// input [..., 2d], out [..., d]: out = activation(input[..., :d]) * input[..., d:], one rounding.
OpmuxStatus silu_and_mul(void* binding, const OpmuxCall* call);
OpmuxStatus gelu_and_mul(void* binding, const OpmuxCall* call);       // exact, with erf
OpmuxStatus gelu_tanh_and_mul(void* binding, const OpmuxCall* call);  // tanh approximation

// input, out [..., h], weight [h]: out = input / sqrt(mean(input^2) + eps) * weight, rounded once
// after the multiplication with the weight.
OpmuxStatus rms_norm(void* binding, const OpmuxCall* call);
// residual = input + residual, rounded; input = rms_norm(residual); weight [h] or none.
OpmuxStatus fused_add_rms_norm(void* binding, const OpmuxCall* call);

// positions [tokens] or [batch, seq], int64 or int32; query and key [positions..., heads *
// head_size] or [positions..., heads, head_size]; cos_sin_cache [max_position, rot_dim]. Rotates
// dimensions [rope_dim_offset, rope_dim_offset + rot_dim) of each head in place. A position outside
// the cache is an invalid argument.
OpmuxStatus rotary_embedding(void* binding, const OpmuxCall* call);

// gating_output [tokens, experts]; bias [experts] float32 moves the selection, not the weights;
// is_padding [tokens] bool: such a row gets indices -1 and otherwise what it would have got.
// topk_weights [tokens, k] float32; topk_indices int32, uint32 or int64; token_expert_indices int32
// [tokens, k]: tokens * column + row. Ties go to the lower index. Indices of a row are distinct
// whatever the row holds: a softmax row with a NaN or +infinity scores 0 everywhere, a sigmoid NaN
// scores 0, and weights whose sum is 0 are not renormalized.
OpmuxStatus topk_softmax(void* binding, const OpmuxCall* call);
OpmuxStatus topk_sigmoid(void* binding, const OpmuxCall* call);

// scores [tokens, experts], bias [experts]; scoring_func 0 (none) or 1 (sigmoid). The score of a
// group is the sum of its two greatest biased scores (its one score in groups of one); the experts
// come from the topk_group best groups. A score that is not finite is never chosen before one that
// is, and weighs 0. When even the best topk_group groups include one without a finite score, the
// row becomes experts 0, 1, ... with weight 1 / topk. topk_values float32 or the dtype of scores;
// topk_indices int32 or int64.
OpmuxStatus grouped_topk(void* binding, const OpmuxCall* call);

// Marlin's tiles. b_q_weight int32, contiguous: [size_k / pack, size_n] packed along k (gptq) or
// [size_k, size_n / pack] packed along n in AWQ's order (awq); out int32, contiguous, [size_k / 16,
// size_n * 16 / pack], must not overlap it; pack = 32 / num_bits. perm int32 [size_k] or empty:
// row k of the result is row perm[k] of the input.
OpmuxStatus gptq_marlin_repack(void* binding, const OpmuxCall* call);
OpmuxStatus awq_marlin_repack(void* binding, const OpmuxCall* call);

// FlashAttention's. Causal masks and windows are aligned with the last key: query i of Sq sees keys
// j with i + Sk - Sq - left <= j <= i + Sk - Sq + right, -1 is no limit, causal makes right 0.
// Score: softmax_scale (1 / sqrt(head_size) for None) * q.k, then softcap * tanh(score / softcap)
// unless it is 0, then less alibi_slopes [heads] or [batch, heads] float32 * |i + Sk - Sq - j|.
// softmax_lse float32, natural logarithm, is written when given. A query that sees no key gets
// zeros and -infinity. heads is a multiple of kv_heads. Index tensors are int32 or int64. Blocks,
// rows and lengths that are out of range where they are needed are invalid arguments; nothing else
// of a table or a cache is read. `out` may be q.

// q, out [total_q, heads, head_size]; k, v [total_k, kv_heads, head_size] or, with block_table
// [batch, columns], pages [pages, page_size, kv_heads, head_size]; softmax_lse [heads, total_q].
// Rows after the last offset are neither read nor written. No dropout, no weights returned.
OpmuxStatus flash_attn_varlen_func(void* binding, const OpmuxCall* call);

// q, out [batch, seqlen_q, heads, head_size]; caches [rows, length, kv_heads, head_size] or pages
// as above; softmax_lse [batch, heads, seqlen_q]. k, v [batch, new, kv_heads, head_size] are first
// written to the cache at cache_seqlens. rotary_cos, rotary_sin [positions, rotary_dim / 2] rotate
// them and q, counted from cache_seqlens, padding included; without causal mask or window all
// queries of a sequence by that position. cache_leftpad slots at the beginning belong to no
// sequence. num_splits changes nothing. Two sequences that append to one slot leave the later
// one's.
OpmuxStatus flash_attn_with_kvcache(void* binding, const OpmuxCall* call);
OpmuxStatus flash_attn_with_kvcache_int(void* binding, const OpmuxCall* call);

}  // namespace opmux::native
