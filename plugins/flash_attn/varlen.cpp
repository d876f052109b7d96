// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_varlen_func on flash::mha_varlen_fwd.
#include <utility>

#include "plugins/flash_attn/call.hpp"

namespace opmux::flash_attn {
namespace {

enum Argument : std::int32_t {
  kQ,
  kK,
  kV,
  kCuSeqlensQ,
  kCuSeqlensK,
  kAlibiSlopes,
  kBlockTable,
  kMaxSeqlenQ,
  kMaxSeqlenK,
  kDropoutP,
  kSoftmaxScale,
  kCausal,
  kWindowSize,
  kSoftcap,
  kDeterministic,  // of the backward pass only
  kReturnAttnProbs,
  kOut,
  kSoftmaxLse,
  kSDmask,
};

void require_inference(const Call& call) {
  const float dropout = call.real(kDropoutP);
  call.require(dropout == 0.0F, OPMUX_UNSUPPORTED, kDropoutP, "0", "another number");
  call.require(!call.boolean(kReturnAttnProbs), OPMUX_UNSUPPORTED, kReturnAttnProbs, "false",
               "true");
  call.require(!call.given(kSDmask), OPMUX_UNSUPPORTED, kSDmask, "None", "a Tensor");
}

// [total_k, heads, head_size], or [pages, page size, heads, head_size] with a block table.
void require_keys(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const std::optional<at::Tensor>& block_table, std::int64_t batch) {
  call.require_rank(kK, k, block_table ? 4 : 3);
  const std::int64_t head_size = q.size(2);
  if (block_table) {
    call.require_shape(kK, k, {k.size(0), k.size(1), k.size(2), head_size});
    call.require_shape(kV, v, {k.size(0), k.size(1), k.size(2), head_size});
    call.require_block_table(kBlockTable, *block_table, batch, k.size(1));
    call.require(k.size(1) > 0 && k.size(1) % 256 == 0, OPMUX_UNSUPPORTED, kK,
                 "a page size that is a multiple of 256", k.size(1));
  } else {
    call.require_shape(kK, k, {k.size(0), k.size(1), head_size});
    call.require_shape(kV, v, {k.size(0), k.size(1), head_size});
  }
  const std::int64_t heads = k.size(-2);
  call.require(heads > 0 && q.size(1) % heads == 0, OPMUX_INVALID_ARGUMENT, kK,
               "a number of heads that divides q's", heads);
  call.require_rows(kK, k, q);
  call.require_rows(kV, v, q);
}

void run(const Binding& binding, Call& call, bool& launched) {
  require_inference(call);
  at::Tensor q =
      call.tensor(kQ);  // a handle of its own: FlashAttention points it at another tensor
  const at::Tensor k = call.tensor(kK);
  const at::Tensor v = call.tensor(kV);
  const at::Tensor cu_seqlens_q = call.tensor(kCuSeqlensQ);
  const at::Tensor cu_seqlens_k = call.tensor(kCuSeqlensK);
  std::optional<at::Tensor> alibi_slopes = call.optional_tensor(kAlibiSlopes);
  std::optional<at::Tensor> block_table = call.optional_tensor(kBlockTable);
  const at::Tensor out = call.tensor(kOut);
  const std::optional<at::Tensor> lse = call.optional_tensor(kSoftmaxLse);

  call.require_rank(kQ, q, 3);
  call.require_rank(kCuSeqlensQ, cu_seqlens_q, 1);
  call.require(cu_seqlens_q.numel() > 0, OPMUX_INVALID_ARGUMENT, kCuSeqlensQ,
               "one more offset than there are sequences", "none");
  const std::int64_t batch = cu_seqlens_q.numel() - 1;
  const std::int64_t total_q = q.size(0);
  const std::int64_t heads = q.size(1);
  const std::int64_t head_size = q.size(2);
  call.require_indices(kCuSeqlensQ, cu_seqlens_q, {batch + 1});
  call.require_indices(kCuSeqlensK, cu_seqlens_k, {batch + 1});
  call.require_query(kQ, q);
  require_keys(call, q, k, v, block_table, batch);
  if (alibi_slopes) {
    call.require_slopes(kAlibiSlopes, *alibi_slopes, batch, heads);
  }
  call.require_outputs(kOut, out, q, kSoftmaxLse, lse, {heads, total_q});
  int max_seqlen_q = call.integer(kMaxSeqlenQ);
  const int max_seqlen_k = call.integer(kMaxSeqlenK);
  call.require(max_seqlen_q >= 0, OPMUX_INVALID_ARGUMENT, kMaxSeqlenQ, "at least 0", max_seqlen_q);
  call.require(max_seqlen_k >= 0, OPMUX_INVALID_ARGUMENT, kMaxSeqlenK, "at least 0", max_seqlen_k);
  const float scale = call.scale(kSoftmaxScale, head_size);
  const bool causal = call.boolean(kCausal);
  const Window window = call.window(kWindowSize);
  const float softcap = call.real(kSoftcap);

  if (q.numel() == 0 || batch == 0 || max_seqlen_q == 0) {
    return;  // no row belongs to a sequence; FlashAttention would launch an empty grid
  }
  if (max_seqlen_k == 0) {
    launched = true;
    write_no_keys(out, lse);
    return;
  }
  // With one token per sequence and fewer heads in k than in q FlashAttention regroups q to
  // [sequences * group, heads of k, head size].
  const std::int64_t k_heads = k.size(-2);
  bool regroups =
      max_seqlen_q == 1 && heads > k_heads && window.left < 0 && window.right < 0 && !alibi_slopes;
  if (regroups && total_q != batch) {
    // It would take each sequence to have its token. A longest sequence of 2 means the same for
    // sequences of 0 and 1 and keeps it from regrouping.
    max_seqlen_q = 2;
    regroups = false;
  }
  // Regrouped, `out` would be a copy unless k has one head, and what is returned is what counts.
  std::optional<at::Tensor> out_argument;
  if (is_writable(out) && (!regroups || k_heads == 1)) {
    out_argument = out;
  }
  std::optional<at::Tensor> seqused_k;
  std::optional<const at::Tensor> leftpad_k;
  launched = true;
  const std::vector<at::Tensor> results = binding.varlen(
      q, k, v, out_argument, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table,
      alibi_slopes, max_seqlen_q, max_seqlen_k, /*p_dropout=*/0.0F, scale, /*zero_tensors=*/false,
      causal, window.left, window.right, softcap, /*return_softmax=*/false,
      /*generator=*/std::nullopt);
  call.take_results(results, kOut, kSoftmaxLse, lse.has_value());
}

}  // namespace

OpmuxStatus call_varlen(void* binding, const OpmuxCall* call) noexcept {
  return run_call(binding, call, run);
}

}  // namespace opmux::flash_attn
