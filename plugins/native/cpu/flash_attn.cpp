// SPDX-License-Identifier: Apache-2.0
#include "plugins/native/cpu/flash_attn.hpp"

#include <cinttypes>
#include <cmath>

namespace opmux::native {

void require_indices(Arguments& arguments, const Tensor& tensor, int64_t size) {
  arguments.require_dtype(tensor, {kInt32Type, kInt64Type});
  arguments.require_shape(tensor, {size});
}

void read_tensors(Arguments& arguments, const AttentionTensors& tensors, int rank, int key_rank,
                  int64_t batch, Attention& attention) {
  const Tensor& q = tensors.q;
  const Tensor& key = tensors.key;
  const Tensor& value = tensors.value;
  attention.element = arguments.element(q);
  arguments.require_rank(q, rank, rank);
  arguments.require_rank(key, key_rank, key_rank);
  arguments.require_rank(value, key_rank, key_rank);
  arguments.require_rank(tensors.out, rank, rank);
  arguments.require_dtype(key, {q.dtype});
  arguments.require_dtype(value, {q.dtype});
  arguments.require_dtype(tensors.out, {q.dtype});
  if (!arguments.valid()) return;
  attention.heads = q.size(-2);
  attention.head_size = q.size(-1);
  attention.kv_heads = key.size(-2);
  arguments.require(attention.head_size > 0, "`q`: expected a head size of more than 0, found 0");
  arguments.require(key.size(-1) == attention.head_size,
                    "`%s`: expected head size %" PRId64 ", that of `q`, found %" PRId64, key.name,
                    attention.head_size, key.size(-1));
  arguments.support(value.size(-1) == attention.head_size,
                    "`%s`: the native kernels need head size %" PRId64
                    ", that of `q`, found %" PRId64,
                    value.name, attention.head_size, value.size(-1));
  arguments.require(attention.kv_heads > 0 && attention.heads % attention.kv_heads == 0,
                    "`%s`: expected a number of heads that divides the %" PRId64
                    " of `q`, found %" PRId64,
                    key.name, attention.heads, attention.kv_heads);
  arguments.require_shape(value, key.shape, key.rank);
  arguments.require_shape(tensors.out, q.shape, q.rank);
  if (tensors.slopes.present) {
    const Tensor& slopes = tensors.slopes;
    arguments.require_dtype(slopes, {kFloat32Type});
    arguments.require_rank(slopes, 1, 2);
    if (!arguments.valid()) return;
    if (slopes.rank == 1) {
      arguments.require_shape(slopes, {attention.heads});
    } else {
      arguments.require_shape(slopes, {batch, attention.heads});
    }
    attention.slopes = slopes.data;
    attention.slope_head = pitch(slopes, -1);
    attention.slope_batch = slopes.rank == 2 ? pitch(slopes, 0) : 0;
  }
  if (tensors.lse.present) arguments.require_dtype(tensors.lse, {kFloat32Type});
  attention.query = pitches_of(q);
  attention.out = pitches_of(tensors.out);
  attention.key = pitches_of(key);
  attention.value = pitches_of(value);
  attention.batch = batch;
}

void read_rule(Arguments& arguments, const RuleArguments& indices, Attention& attention) {
  const double head_size = static_cast<double>(attention.head_size);
  attention.scale =
      arguments.optional_real(indices.scale, "softmax_scale", 1.0 / std::sqrt(head_size));
  attention.causal = arguments.boolean(indices.causal, "causal");
  int64_t window[2] = {};
  arguments.integers(indices.window, "window_size", window, 2);
  attention.cap = arguments.real(indices.softcap, "softcap");
  arguments.require(std::isfinite(attention.scale),
                    "`softmax_scale`: expected a finite number, found %g", attention.scale);
  arguments.require(std::isfinite(attention.cap) && attention.cap >= 0.0,
                    "`softcap`: expected a finite number of at least 0, found %g", attention.cap);
  // Any negative distance is no limit, as it is to FlashAttention.
  attention.left = window[0] < 0 ? -1 : window[0];
  attention.right = attention.causal ? 0 : window[1] < 0 ? -1 : window[1];
}

void read_pages(Arguments& arguments, const AttentionTensors& tensors, int64_t batch,
                Attention& attention) {
  const Tensor& table = tensors.block_table;
  arguments.require_dtype(table, {kInt32Type, kInt64Type});
  arguments.require_rank(table, 2, 2);
  if (!arguments.valid()) return;
  arguments.require_shape(table, {batch, table.size(1)});
  attention.page_size = tensors.key.size(1);
  arguments.require(attention.page_size > 0, "`%s`: expected pages of at least 1 token, found 0",
                    tensors.key.name);
  attention.key_page = pitch(tensors.key, 0);
  attention.value_page = pitch(tensors.value, 0);
  attention.block_step = pitch(table, 1);
  attention.wide_blocks = table.dtype.bits == 64;
}

void check_blocks(Arguments& arguments, const AttentionTensors& tensors, const Attention& attention,
                  int64_t index, Range slots) {
  if (slots.size() == 0) return;
  const int64_t pages = tensors.key.size(0);
  const int64_t last = (slots.end - 1) / attention.page_size;
  const Sequence& sequence = attention.sequences[index];
  for (int64_t column = slots.begin / attention.page_size; column <= last; ++column) {
    const int64_t block =
        index_at(sequence.blocks + column * attention.block_step, attention.wide_blocks);
    if (block >= 0 && block < pages) continue;
    arguments.require(false,
                      "`block_table`: expected blocks from 0 to %" PRId64
                      ", the pages of `%s`, found %" PRId64 " at [%" PRId64 ", %" PRId64 "]",
                      pages - 1, tensors.key.name, block, index, column);
    return;
  }
}

Sequence* make_sequences(Arguments& arguments, int64_t batch) {
  if (batch == 0) return nullptr;
  auto* const sequences =
      static_cast<Sequence*>(arguments.workspace(batch * static_cast<int64_t>(sizeof(Sequence))));
  for (int64_t i = 0; sequences != nullptr && i < batch; ++i) sequences[i] = {};
  return sequences;
}

}  // namespace opmux::native
