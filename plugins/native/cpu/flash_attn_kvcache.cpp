// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_with_kvcache, with the lengths of the cached sequences as a tensor or as one integer.
#include <cinttypes>

#include "plugins/native/cpu/flash_attn.hpp"
#include "plugins/native/cpu/operators.hpp"

namespace opmux::native {
namespace {

struct Cache {
  Tensor new_key;
  Tensor new_value;
  Tensor cos;
  Tensor sin;
  Tensor lengths;
  Tensor rows;
  Tensor padding;
  int64_t length = 0;    // without `lengths`
  int64_t capacity = 0;  // tokens of a sequence
};

void read_appended(Arguments& arguments, const Cache& cache, const Tensor& q,
                   const Attention& attention, Append& append) {
  const Tensor& key = cache.new_key;
  const Tensor& value = cache.new_value;
  arguments.require(key.present == value.present, "`%s`: expected a tensor beside `%s`, found None",
                    key.present ? "v" : "k", key.present ? "k" : "v");
  if (!arguments.valid() || !key.present) return;
  arguments.require_dtype(key, {q.dtype});
  arguments.require_dtype(value, {q.dtype});
  arguments.require_rank(key, 4, 4);
  if (!arguments.valid()) return;
  const int64_t tokens = key.size(1);
  arguments.require_shape(key, {q.size(0), tokens, attention.kv_heads, attention.head_size});
  arguments.require_shape(value, {q.size(0), tokens, attention.kv_heads, attention.head_size});
  if (!arguments.valid()) return;
  append = {tokens,          key.data,        value.data,       pitch(key, 0),
            pitch(value, 0), pitches_of(key), pitches_of(value)};
}

void read_rotation(Arguments& arguments, const Cache& cache, bool interleaved,
                   Attention& attention) {
  const Tensor& cos = cache.cos;
  const Tensor& sin = cache.sin;
  arguments.require(cos.present == sin.present, "`%s`: expected a tensor beside `%s`, found None",
                    cos.present ? "rotary_sin" : "rotary_cos",
                    cos.present ? "rotary_cos" : "rotary_sin");
  if (!arguments.valid() || !cos.present) return;
  arguments.require(cache.new_key.present,
                    "`rotary_cos`: expected None without `k`, which is what is rotated beside `q`, "
                    "found a tensor");
  attention.angle_element = arguments.element(cos);
  arguments.require_rank(cos, 2, 2);
  arguments.require_dtype(sin, {cos.dtype});
  arguments.require_shape(sin, cos.shape, cos.rank);
  if (!arguments.valid()) return;
  arguments.require(cos.size(1) <= attention.head_size / 2,
                    "`rotary_cos`: expected at most %" PRId64
                    " columns, rotary_dim / 2 within head size %" PRId64 ", found %" PRId64,
                    attention.head_size / 2, attention.head_size, cos.size(1));
  attention.pairs = cos.size(1);
  attention.interleaved = interleaved;
  attention.cos = {cos.data, cos.step(1)};
  attention.sin = {sin.data, sin.step(1)};
  attention.cos_pitch = pitch(cos, 0);
  attention.sin_pitch = pitch(sin, 0);
  // FlashAttention rotates all queries by one position unless their order counts; to it, a window
  // as long as the cache is none.
  const bool local = (attention.left >= 0 && attention.left < cache.capacity) ||
                     (attention.right >= 0 && attention.right < cache.capacity);
  attention.same_position = !attention.causal && !local;
}

// The length, the row and the padding of one sequence, each checked.
void place(Arguments& arguments, const AttentionTensors& tensors, const Cache& cache,
           const Attention& attention, const Append& append, int64_t index) {
  Sequence& sequence = attention.sequences[index];
  const int64_t length = cache.lengths.present ? entry(cache.lengths, index) : cache.length;
  const int64_t most = cache.capacity - append.tokens;
  arguments.require(length >= 0 && length <= most,
                    "`cache_seqlens`: expected lengths from 0 to %" PRId64 ", the %" PRId64
                    " tokens of the cache less %" PRId64 " appended, found %" PRId64
                    " in sequence %" PRId64,
                    most, cache.capacity, append.tokens, length, index);
  const int64_t padding = cache.padding.present ? entry(cache.padding, index) : 0;
  arguments.require(padding >= 0 && padding <= length,
                    "`cache_leftpad`: expected from 0 to the length %" PRId64 ", found %" PRId64
                    " in sequence %" PRId64,
                    length, padding, index);
  const int64_t row = cache.rows.present ? entry(cache.rows, index) : index;
  if (cache.rows.present) {
    arguments.require(row >= 0 && row < tensors.key.size(0),
                      "`cache_batch_idx`: expected from 0 to %" PRId64
                      ", the rows of `k_cache`, found %" PRId64 " in sequence %" PRId64,
                      tensors.key.size(0) - 1, row, index);
  }
  if (!arguments.valid()) return;
  sequence.queries = tensors.q.size(1);
  sequence.keys = length - padding + append.tokens;
  // Positions count from the first slot of the cache, padding included: as FlashAttention has it.
  sequence.position = length;
  sequence.query = place_in(tensors.q, index * pitch(tensors.q, 0));
  sequence.out = place_in(tensors.out, index * pitch(tensors.out, 0));
  if (tensors.lse.present) sequence.lse = place_in(tensors.lse, index * pitch(tensors.lse, 0));
  if (!tensors.block_table.present) {
    sequence.key = place_in(tensors.key, row * pitch(tensors.key, 0) + padding * attention.key.row);
    sequence.value =
        place_in(tensors.value, row * pitch(tensors.value, 0) + padding * attention.value.row);
  } else {
    sequence.key = tensors.key.data;
    sequence.value = tensors.value.data;
    sequence.blocks = place_in(tensors.block_table, index * pitch(tensors.block_table, 0));
    sequence.first_slot = padding;
    const Range seen = seen_by_any(attention, sequence);
    check_blocks(arguments, tensors, attention, index, {padding + seen.begin, padding + seen.end});
    check_blocks(arguments, tensors, attention, index, {length, length + append.tokens});
  }
  if (attention.pairs == 0) return;
  const int64_t queries = attention.same_position ? 1 : sequence.queries;
  const int64_t positions = sequence.position + (queries > append.tokens ? queries : append.tokens);
  arguments.require(positions <= cache.cos.size(0),
                    "`rotary_cos`: expected at least %" PRId64
                    " rows, the positions of sequence %" PRId64 ", found %" PRId64,
                    positions, index, cache.cos.size(0));
}

OpmuxStatus attend_cache(void* binding, const OpmuxCall* call, bool one_length) {
  Arguments arguments(call, 21);
  AttentionTensors tensors;
  Cache cache;
  tensors.q = arguments.tensor(0, "q");
  tensors.key = arguments.tensor(1, "k_cache");
  tensors.value = arguments.tensor(2, "v_cache");
  cache.new_key = arguments.optional_tensor(3, "k");
  cache.new_value = arguments.optional_tensor(4, "v");
  cache.cos = arguments.optional_tensor(5, "rotary_cos");
  cache.sin = arguments.optional_tensor(6, "rotary_sin");
  if (one_length) {
    cache.length = arguments.integer(7, "cache_seqlens");
  } else {
    cache.lengths = arguments.optional_tensor(7, "cache_seqlens");
  }
  cache.rows = arguments.optional_tensor(8, "cache_batch_idx");
  cache.padding = arguments.optional_tensor(9, "cache_leftpad");
  tensors.block_table = arguments.optional_tensor(10, "block_table");
  tensors.slopes = arguments.optional_tensor(11, "alibi_slopes");
  const bool interleaved = arguments.boolean(16, "rotary_interleaved");
  arguments.integer(17, "num_splits");  // the keys are split by the shapes alone
  const bool wants_lse = arguments.boolean(18, "return_softmax_lse");
  tensors.out = arguments.tensor(19, "out");
  tensors.lse = arguments.optional_tensor(20, "softmax_lse");
  arguments.require(!wants_lse || tensors.lse.present,
                    "`softmax_lse`: expected a tensor, as return_softmax_lse is true, found None");
  arguments.require_rank(tensors.q, 4, 4);
  if (!arguments.valid()) return arguments.status();
  const int64_t batch = tensors.q.size(0);
  const bool paged = tensors.block_table.present;
  Attention attention = {};
  read_tensors(arguments, tensors, 4, 4, batch, attention);
  read_rule(arguments, {12, 13, 14, 15}, attention);
  if (!arguments.valid()) return arguments.status();
  if (tensors.lse.present) {
    arguments.require_shape(tensors.lse, {batch, attention.heads, tensors.q.size(1)});
    if (!arguments.valid()) return arguments.status();
    attention.lse_head = pitch(tensors.lse, 1);
    attention.lse_row = pitch(tensors.lse, 2);
  }
  if (paged) {
    read_pages(arguments, tensors, batch, attention);
    arguments.require(!cache.rows.present,
                      "`cache_batch_idx`: expected None with `block_table`, found a tensor");
    if (!arguments.valid()) return arguments.status();
    const bool overflow =
        __builtin_mul_overflow(attention.page_size, tensors.block_table.size(1), &cache.capacity);
    arguments.require(!overflow, "`block_table`: expected fewer than 2^63 tokens, found more");
  } else {
    cache.capacity = tensors.key.size(1);
    arguments.require(cache.rows.present || tensors.key.size(0) >= batch,
                      "`k_cache`: expected at least %" PRId64
                      " rows, the batch of `q`, found %" PRId64,
                      batch, tensors.key.size(0));
  }
  Append append;
  read_appended(arguments, cache, tensors.q, attention, append);
  if (!one_length && !cache.lengths.present) {
    arguments.require(!cache.new_key.present,
                      "`cache_seqlens`: expected a tensor, which says where `k` is appended, found "
                      "None");
    cache.length = cache.capacity;
  }
  read_rotation(arguments, cache, interleaved, attention);
  for (const Tensor* tensor : {&cache.lengths, &cache.rows, &cache.padding}) {
    if (tensor->present) require_indices(arguments, *tensor, batch);
  }
  attention.sequences = make_sequences(arguments, batch);
  for (int64_t i = 0; i < batch && arguments.valid(); ++i) {
    place(arguments, tensors, cache, attention, append, i);
  }
  if (!arguments.valid()) return arguments.status();
  return attend(arguments, *static_cast<const KernelTable*>(binding), attention, append);
}

}  // namespace

OpmuxStatus flash_attn_with_kvcache(void* binding, const OpmuxCall* call) {
  return attend_cache(binding, call, false);
}

OpmuxStatus flash_attn_with_kvcache_int(void* binding, const OpmuxCall* call) {
  return attend_cache(binding, call, true);
}

}  // namespace opmux::native
