// SPDX-License-Identifier: Apache-2.0
//
// FlashAttention 2.8's two inference functions as C++ sees them. A symbol tells the arguments'
// types but not what is returned; both return {out, softmax_lse, ...}.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace opmux::flash_attn {

using VarlenForward = std::vector<at::Tensor>(
    at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::optional<at::Tensor>& out,
    const at::Tensor& cu_seqlens_q, const at::Tensor& cu_seqlens_k,
    std::optional<at::Tensor>& seqused_k, std::optional<const at::Tensor>& leftpad_k,
    std::optional<at::Tensor>& block_table, std::optional<at::Tensor>& alibi_slopes,
    int max_seqlen_q, int max_seqlen_k, float p_dropout, float softmax_scale, bool zero_tensors,
    bool is_causal, int window_size_left, int window_size_right, float softcap, bool return_softmax,
    std::optional<at::Generator> generator);

inline constexpr const char kVarlenForward[] =
    "flash::mha_varlen_fwd(at::Tensor&, at::Tensor const&, at::Tensor const&, "
    "std::optional<at::Tensor>&, at::Tensor const&, at::Tensor const&, std::optional<at::Tensor>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor>&, std::optional<at::Tensor>&, "
    "int, int, float, float, bool, bool, int, int, float, bool, std::optional<at::Generator>)";

using KvcacheForward = std::vector<at::Tensor>(
    at::Tensor& q, const at::Tensor& k_cache, const at::Tensor& v_cache,
    std::optional<const at::Tensor>& k, std::optional<const at::Tensor>& v,
    std::optional<const at::Tensor>& cache_seqlens, std::optional<const at::Tensor>& rotary_cos,
    std::optional<const at::Tensor>& rotary_sin, std::optional<const at::Tensor>& cache_batch_idx,
    std::optional<const at::Tensor>& leftpad_k, std::optional<at::Tensor>& block_table,
    std::optional<at::Tensor>& alibi_slopes, std::optional<at::Tensor>& out, float softmax_scale,
    bool is_causal, int window_size_left, int window_size_right, float softcap,
    bool is_rotary_interleaved, int num_splits);

inline constexpr const char kKvcacheForward[] =
    "flash::mha_fwd_kvcache(at::Tensor&, at::Tensor const&, at::Tensor const&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor const>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor const>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor const>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor>&, std::optional<at::Tensor>&, "
    "std::optional<at::Tensor>&, float, bool, int, int, float, bool, int)";

}  // namespace opmux::flash_attn
