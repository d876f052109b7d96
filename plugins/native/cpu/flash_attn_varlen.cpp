// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_varlen_func.
#include <cinttypes>

#include "plugins/native/cpu/flash_attn.hpp"
#include "plugins/native/cpu/operators.hpp"

namespace opmux::native {
namespace {

// Checks the offsets of all sequences: 0 first, then never less than before, at most `rows`, none
// longer than `longest`.
void check_offsets(Arguments& arguments, const Tensor& offsets, int64_t longest,
                   const char* longest_name, int64_t rows, const char* rows_name) {
  if (!arguments.valid()) return;
  int64_t before = entry(offsets, 0);
  arguments.require(before == 0, "`%s`: expected 0 at index 0, found %" PRId64, offsets.name,
                    before);
  for (int64_t i = 1; i < offsets.size(0) && arguments.valid(); ++i) {
    const int64_t offset = entry(offsets, i);
    arguments.require(offset >= before,
                      "`%s`: expected at least %" PRId64 ", the offset before, found %" PRId64
                      " at index %" PRId64,
                      offsets.name, before, offset, i);
    arguments.require(offset <= rows,
                      "`%s`: expected at most %" PRId64 ", the rows of `%s`, found %" PRId64
                      " at index %" PRId64,
                      offsets.name, rows, rows_name, offset, i);
    arguments.require(offset - before <= longest,
                      "`%s`: expected sequences of at most %s %" PRId64 ", found %" PRId64
                      " in sequence %" PRId64,
                      offsets.name, longest_name, longest, offset - before, i - 1);
    before = offset;
  }
}

}  // namespace

OpmuxStatus flash_attn_varlen_func(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 19);
  AttentionTensors tensors;
  tensors.q = arguments.tensor(0, "q");
  tensors.key = arguments.tensor(1, "k");
  tensors.value = arguments.tensor(2, "v");
  const Tensor query_offsets = arguments.tensor(3, "cu_seqlens_q");
  const Tensor key_offsets = arguments.tensor(4, "cu_seqlens_k");
  tensors.slopes = arguments.optional_tensor(5, "alibi_slopes");
  tensors.block_table = arguments.optional_tensor(6, "block_table");
  const int64_t most_queries = arguments.integer(7, "max_seqlen_q");
  const int64_t most_keys = arguments.integer(8, "max_seqlen_k");
  const double dropout = arguments.real(9, "dropout_p");
  arguments.boolean(14, "deterministic");  // the forward pass always is
  const bool wants_weights = arguments.boolean(15, "return_attn_probs");
  tensors.out = arguments.tensor(16, "out");
  tensors.lse = arguments.optional_tensor(17, "softmax_lse");
  const Tensor mask = arguments.optional_tensor(18, "s_dmask");
  arguments.support(dropout == 0.0, "`dropout_p`: the native kernels have no dropout, found %g",
                    dropout);
  arguments.support(!wants_weights,
                    "`return_attn_probs`: the native kernels never hold the weights, found true");
  arguments.support(!mask.present,
                    "`s_dmask`: the native kernels never hold the weights, found a tensor");
  const bool paged = tensors.block_table.present;
  arguments.require_dtype(query_offsets, {kInt32Type, kInt64Type});
  arguments.require_rank(query_offsets, 1, 1);
  if (!arguments.valid()) return arguments.status();
  arguments.require(query_offsets.size(0) > 0,
                    "`cu_seqlens_q`: expected at least 1 offset, found 0");
  require_indices(arguments, key_offsets, query_offsets.size(0));
  const int64_t batch = query_offsets.size(0) - 1;
  Attention attention = {};
  read_tensors(arguments, tensors, 3, paged ? 4 : 3, batch, attention);
  read_rule(arguments, {10, 11, 12, 13}, attention);
  if (!arguments.valid()) return arguments.status();
  if (tensors.lse.present) {
    arguments.require_shape(tensors.lse, {attention.heads, tensors.q.size(0)});
    if (!arguments.valid()) return arguments.status();
    attention.lse_head = pitch(tensors.lse, 0);
    attention.lse_row = pitch(tensors.lse, 1);
  }
  if (paged) read_pages(arguments, tensors, batch, attention);
  check_offsets(arguments, query_offsets, most_queries, "max_seqlen_q", tensors.q.size(0), "q");
  check_offsets(arguments, key_offsets, most_keys, "max_seqlen_k",
                paged ? INT64_MAX : tensors.key.size(0), "k");
  attention.sequences = make_sequences(arguments, batch);
  if (!arguments.valid()) return arguments.status();

  for (int64_t i = 0; i < batch && arguments.valid(); ++i) {
    Sequence& sequence = attention.sequences[i];
    const int64_t query = entry(query_offsets, i);
    const int64_t key = entry(key_offsets, i);
    sequence.queries = entry(query_offsets, i + 1) - query;
    sequence.keys = entry(key_offsets, i + 1) - key;
    sequence.query = place_in(tensors.q, query * attention.query.row);
    sequence.out = place_in(tensors.out, query * attention.out.row);
    if (tensors.lse.present) sequence.lse = place_in(tensors.lse, query * attention.lse_row);
    sequence.key = place_in(tensors.key, paged ? 0 : key * attention.key.row);
    sequence.value = place_in(tensors.value, paged ? 0 : key * attention.value.row);
    if (!paged) continue;
    sequence.blocks = place_in(tensors.block_table, i * pitch(tensors.block_table, 0));
    const int64_t columns = tensors.block_table.size(1);
    const int64_t needed = (sequence.keys - 1) / attention.page_size + 1;
    arguments.require(sequence.keys == 0 || needed <= columns,
                      "`block_table`: expected at least %" PRId64
                      " columns, the pages of the %" PRId64 " keys of sequence %" PRId64
                      ", found %" PRId64,
                      needed, sequence.keys, i, columns);
    if (arguments.valid()) {
      check_blocks(arguments, tensors, attention, i, seen_by_any(attention, sequence));
    }
  }
  if (!arguments.valid()) return arguments.status();
  return attend(arguments, *static_cast<const KernelTable*>(binding), attention, {});
}

}  // namespace opmux::native
