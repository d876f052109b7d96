// SPDX-License-Identifier: Apache-2.0
#include "plugins/flash_attn/binding.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "plugins/torch/binding.hpp"

namespace opmux::flash_attn {
namespace {

using torch_shared::Refusal;

// An operator that this module maps, with the schema that its code counts arguments by.
struct Operator {
  const char* name;
  const char* schema;
  const char* symbol;
  bool varlen;
  bool int_lengths;
};

constexpr std::array kOperators{
    Operator{"flash_attn_varlen_func",
             "flash_attn_varlen_func(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor "
             "cu_seqlens_k, Tensor? alibi_slopes, Tensor? block_table, int max_seqlen_q, int "
             "max_seqlen_k, float dropout_p, float? softmax_scale, bool causal, int[] window_size, "
             "float softcap, bool deterministic, bool return_attn_probs, Tensor(a!) out, "
             "Tensor(b!)? softmax_lse, Tensor(c!)? s_dmask) -> ()",
             kVarlenForward, /*varlen=*/true, /*int_lengths=*/false},
    Operator{"flash_attn_with_kvcache",
             "flash_attn_with_kvcache(Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor? k, "
             "Tensor? v, Tensor? rotary_cos, Tensor? rotary_sin, Tensor? cache_seqlens, Tensor? "
             "cache_batch_idx, Tensor? cache_leftpad, Tensor? block_table, Tensor? alibi_slopes, "
             "float? softmax_scale, bool causal, int[] window_size, float softcap, bool "
             "rotary_interleaved, int num_splits, bool return_softmax_lse, Tensor(c!) out, "
             "Tensor(d!)? softmax_lse) -> ()",
             kKvcacheForward, /*varlen=*/false, /*int_lengths=*/false},
    Operator{"flash_attn_with_kvcache.int",
             "flash_attn_with_kvcache.int(Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, "
             "Tensor? k, Tensor? v, Tensor? rotary_cos, Tensor? rotary_sin, int cache_seqlens, "
             "Tensor? cache_batch_idx, Tensor? cache_leftpad, Tensor? block_table, Tensor? "
             "alibi_slopes, float? softmax_scale, bool causal, int[] window_size, float softcap, "
             "bool rotary_interleaved, int num_splits, bool return_softmax_lse, Tensor(c!) out, "
             "Tensor(d!)? softmax_lse) -> ()",
             kKvcacheForward, /*varlen=*/false, /*int_lengths=*/true},
};

const Operator& find_operator(const char* name) {
  std::string known;
  for (const Operator& each : kOperators) {
    if (name != nullptr && std::string_view(name) == each.name) {
      return each;
    }
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Refusal("expected one of the operators " + known + ", found " +
                (name == nullptr ? "none" : name));
}

void require_schema(const c10::FunctionSchema& expected, const c10::FunctionSchema& found) {
  const auto& left = expected.arguments();
  const auto& right = found.arguments();
  bool same = left.size() == right.size() && found.returns().empty();
  for (std::size_t at = 0; same && at < left.size(); ++at) {
    same = left[at].name() == right[at].name() && *left[at].real_type() == *right[at].real_type() &&
           torch_shared::is_written(left[at]) == torch_shared::is_written(right[at]);
  }
  if (!same) {
    throw Refusal("operator schema: expected " + c10::toString(expected) + ", found " +
                  c10::toString(found));
  }
}

void* find_symbol(const OpmuxBindRequest& request, const char* symbol) {
  std::string found;
  for (std::uint32_t at = 0; at < request.symbol_count; ++at) {
    const char* name = request.symbol_names[at];
    if (std::string_view(name) == symbol && request.symbols[at] != nullptr) {
      return request.symbols[at];
    }
    found += (found.empty() ? "" : "; ") + std::string(name);
  }
  throw Refusal("expected the function " + std::string(symbol) + ", found " +
                (found.empty() ? "none" : found));
}

void bind_checked(const OpmuxBindRequest& request, OpmuxBound& bound) {
  if (request.contract != OPMUX_CONTRACT_DIRECT_SYMBOL) {
    throw Refusal("the flash_attn module binds the direct symbol contract only");
  }
  if ((request.flags & OPMUX_BIND_MODULE_MAPS) == 0) {
    throw Refusal("the flash_attn module maps arguments itself: the manifest must give no `call`");
  }
  torch_shared::require_known_device(request);
  const Operator& wanted = find_operator(request.operator_name);
  const c10::FunctionSchema schema =
      torch_shared::parse_schema("operator schema", request.operator_schema);
  require_schema(torch_shared::parse_schema("own schema", wanted.schema), schema);
  void* const symbol = find_symbol(request, wanted.symbol);
  Binding binding;
  binding.device_type = request.device_type;
  if (wanted.varlen) {
    binding.name = "flash::mha_varlen_fwd";
    binding.varlen = reinterpret_cast<VarlenForward*>(symbol);
    bound.call = call_varlen;
  } else {
    binding.name = "flash::mha_fwd_kvcache";
    binding.kvcache = reinterpret_cast<KvcacheForward*>(symbol);
    binding.int_lengths = wanted.int_lengths;
    bound.call = call_kvcache;
  }
  for (const c10::Argument& argument : schema.arguments()) {
    binding.arguments.push_back(argument.name());
  }
  // At most: `out` is copied into where FlashAttention cannot write it (see call.hpp).
  bound.copies = 1;
  bound.binding = &torch_shared::keep(std::move(binding));
}

}  // namespace

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept {
  return torch_shared::run_bind(request, bound, bind_checked);
}

}  // namespace opmux::flash_attn
