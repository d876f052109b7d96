// SPDX-License-Identifier: Apache-2.0
//
// The native module's table and its entry point.
#include <array>
#include <cstddef>
#include <cstdio>

#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/native.hpp"
#include "plugins/native/cpu/operators.hpp"

namespace opmux::native {
namespace {

struct Description {
  const char* name;
  const char* schema;
  OpmuxStatus (*call)(void* binding, const OpmuxCall* call);
};

constexpr Description kOperators[] = {
    {"silu_and_mul", "silu_and_mul(Tensor input, Tensor(a!) out) -> ()", silu_and_mul},
    {"gelu_and_mul", "gelu_and_mul(Tensor input, Tensor(a!) out) -> ()", gelu_and_mul},
    {"gelu_tanh_and_mul", "gelu_tanh_and_mul(Tensor input, Tensor(a!) out) -> ()",
     gelu_tanh_and_mul},
    {"rms_norm", "rms_norm(Tensor input, Tensor weight, float eps, Tensor(a!) out) -> ()",
     rms_norm},
    {"fused_add_rms_norm",
     "fused_add_rms_norm(Tensor(a!) input, Tensor(b!) residual, Tensor? weight, float epsilon) -> "
     "()",
     fused_add_rms_norm},
    {"rotary_embedding",
     "rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, Tensor cos_sin_cache, "
     "int head_size, bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()",
     rotary_embedding},
    {"topk_softmax",
     "topk_softmax(Tensor gating_output, Tensor? bias, Tensor? is_padding, bool renormalize, "
     "Tensor(a!) topk_weights, Tensor(b!) topk_indices, Tensor(c!) token_expert_indices) -> ()",
     topk_softmax},
    {"topk_sigmoid",
     "topk_sigmoid(Tensor gating_output, Tensor? e_score_correction_bias, Tensor? is_padding, bool "
     "renormalize, float routed_scaling_factor, Tensor(a!) topk_weights, Tensor(b!) topk_ids, "
     "Tensor(c!) token_expert_indices) -> ()",
     topk_sigmoid},
    {"grouped_topk",
     "grouped_topk(Tensor scores, Tensor bias, int num_expert_group, int topk_group, int topk, "
     "bool renormalize, float routed_scaling_factor, int scoring_func, Tensor(a!) topk_values, "
     "Tensor(b!) topk_indices) -> ()",
     grouped_topk},
    {"gptq_marlin_repack",
     "gptq_marlin_repack(Tensor b_q_weight, Tensor perm, int size_k, int size_n, int num_bits, "
     "bool is_a_8bit, Tensor(a!) out) -> ()",
     gptq_marlin_repack},
    {"awq_marlin_repack",
     "awq_marlin_repack(Tensor b_q_weight, int size_k, int size_n, int num_bits, bool is_a_8bit, "
     "Tensor(a!) out) -> ()",
     awq_marlin_repack},
    {"flash_attn_varlen_func",
     "flash_attn_varlen_func(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor "
     "cu_seqlens_k, Tensor? alibi_slopes, Tensor? block_table, int max_seqlen_q, int "
     "max_seqlen_k, float dropout_p, float? softmax_scale, bool causal, int[] window_size, "
     "float softcap, bool deterministic, bool return_attn_probs, Tensor(a!) out, "
     "Tensor(b!)? softmax_lse, Tensor(c!)? s_dmask) -> ()",
     flash_attn_varlen_func},
    {"flash_attn_with_kvcache",
     "flash_attn_with_kvcache(Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor? k, "
     "Tensor? v, Tensor? rotary_cos, Tensor? rotary_sin, Tensor? cache_seqlens, Tensor? "
     "cache_batch_idx, Tensor? cache_leftpad, Tensor? block_table, Tensor? alibi_slopes, "
     "float? softmax_scale, bool causal, int[] window_size, float softcap, bool "
     "rotary_interleaved, int num_splits, bool return_softmax_lse, Tensor(c!) out, "
     "Tensor(d!)? softmax_lse) -> ()",
     flash_attn_with_kvcache},
    {"flash_attn_with_kvcache.int",
     "flash_attn_with_kvcache.int(Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor? "
     "k, Tensor? v, Tensor? rotary_cos, Tensor? rotary_sin, int cache_seqlens, Tensor? "
     "cache_batch_idx, Tensor? cache_leftpad, Tensor? block_table, Tensor? alibi_slopes, "
     "float? softmax_scale, bool causal, int[] window_size, float softcap, bool "
     "rotary_interleaved, int num_splits, bool return_softmax_lse, Tensor(c!) out, "
     "Tensor(d!)? softmax_lse) -> ()",
     flash_attn_with_kvcache_int},
};
// Every kernel writes into the caller's tensors. Each element, or each row's sum, is computed by
// one thread in an order that the shapes alone decide; attention splits its keys by the shapes,
// too, and joins the parts in their order.
constexpr uint32_t kProperties = OPMUX_PROPERTY_DETERMINISTIC | OPMUX_PROPERTY_IN_PLACE;
constexpr size_t kOperatorCount = sizeof kOperators / sizeof kOperators[0];

// The table computes with the best target that this machine runs.
const OpmuxModule& module() {
  static const std::array<OpmuxOperatorEntry, kOperatorCount> entries = [] {
    std::array<OpmuxOperatorEntry, kOperatorCount> result = {};
    // The binding of a call is not const in the ABI; the operators only read the table.
    void* const kernels = const_cast<KernelTable*>(kernel_tables().tables[0]);
    for (size_t i = 0; i < kOperatorCount; ++i) {
      result[i].struct_size = sizeof(OpmuxOperatorEntry);
      result[i].properties = kProperties;
      result[i].name = kOperators[i].name;
      result[i].schema = kOperators[i].schema;
      result[i].device_type = OPMUX_DEVICE_CPU;
      result[i].call = kOperators[i].call;
      result[i].context = kernels;
    }
    return result;
  }();
  static const OpmuxModule module = [] {
    OpmuxModule result = {};
    result.struct_size = sizeof(OpmuxModule);
    result.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
    result.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
    result.operator_count = kOperatorCount;
    result.name = "native";
    result.version = OPMUX_NATIVE_VERSION;
    result.build_identity = "";
    result.operators = entries.data();
    return result;
  }();
  return module;
}

}  // namespace
}  // namespace opmux::native

OpmuxStatus opmux_native_open(const OpmuxHost* host, const OpmuxModule** module) {
  // log and set_error have been there since the first version: a host that has them can be told.
  if (host->abi_major != OPMUX_PLUGIN_ABI_MAJOR || host->struct_size < sizeof(OpmuxHost)) {
    if (host->struct_size >= offsetof(OpmuxHost, parallel_for)) {
      char text[160];
      snprintf(text, sizeof text,
               "native: expected a host of ABI %u.x and at least %zu bytes, found ABI %u.%u and %u "
               "bytes",
               OPMUX_PLUGIN_ABI_MAJOR, sizeof(OpmuxHost), host->abi_major, host->abi_minor,
               host->struct_size);
      host->set_error(text);
    }
    return OPMUX_INCOMPATIBLE;
  }
  *module = &opmux::native::module();
  return OPMUX_OK;
}
