// SPDX-License-Identifier: Apache-2.0
//
// What the FlashAttention operators have in common: reading and checking their arguments.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/attention.hpp"

namespace opmux::native {

struct AttentionTensors {
  Tensor q;      // [..., heads, head_size]
  Tensor key;    // [..., kv_heads, head_size]
  Tensor value;  // as key
  Tensor out;    // as q
  Tensor block_table;
  Tensor slopes;
  Tensor lse;
};

// Checks dtypes and shapes of all but the block table and sets what follows from them. The rank of
// keys is 4 with a block table.
void read_tensors(Arguments& arguments, const AttentionTensors& tensors, int rank, int key_rank,
                  int64_t batch, Attention& attention);

struct RuleArguments {
  uint32_t scale;
  uint32_t causal;
  uint32_t window;
  uint32_t softcap;
};

void read_rule(Arguments& arguments, const RuleArguments& indices, Attention& attention);

// Pages of `table` [batch, columns] in the pool of keys and values.
void read_pages(Arguments& arguments, const AttentionTensors& tensors, int64_t batch,
                Attention& attention);

// Checks the block ids of the slots, which lie within the table.
void check_blocks(Arguments& arguments, const AttentionTensors& tensors, const Attention& attention,
                  int64_t index, Range slots);

// Memory for `batch` sequences.
Sequence* make_sequences(Arguments& arguments, int64_t batch);

// int32 or int64, of one dimension and `size` entries.
void require_indices(Arguments& arguments, const Tensor& tensor, int64_t size);

inline int64_t entry(const Tensor& tensor, int64_t index) {
  return index_at(tensor.data + index * tensor.step(0) * tensor.element_bytes(),
                  tensor.dtype.bits == 64);
}

// Bytes from one entry of a dimension to the next.
inline int64_t pitch(const Tensor& tensor, int dimension) {
  return tensor.step(dimension) * tensor.element_bytes();
}

// A place in the tensor's memory, which a tensor without elements may lack.
inline char* place_in(const Tensor& tensor, int64_t bytes) {
  return tensor.elements == 0 ? tensor.data : tensor.data + bytes;
}

// [..., rows, heads, dimensions]
inline Pitches pitches_of(const Tensor& tensor) {
  return {pitch(tensor, -3), pitch(tensor, -2), tensor.step(-1)};
}

}  // namespace opmux::native
