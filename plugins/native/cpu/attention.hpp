// SPDX-License-Identifier: Apache-2.0
//
// Attention of the queries of several sequences over their keys, once arguments are checked and the
// place of every row is known.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/kernels/kernels.hpp"

namespace opmux::native {

// One sequence. Pointers are those of its first row, head 0.
struct Sequence {
  int64_t queries;
  int64_t keys;
  const char* query;
  char* out;
  char* lse;  // null when not asked for
  // Where key 0 lies: its row or, when paged, its slot counted through the pages of `blocks`.
  char* key;
  char* value;
  const char* blocks;
  int64_t first_slot;
  // Of the first query and the first appended key, for the rotation.
  int64_t position;
  // How the work of the sequence is numbered (attention_plan.hpp).
  int64_t tiles;
  int64_t splits;
  int64_t first_unit;
  int64_t first_tile;
  int64_t first_partial;
};

// Keys that a query sees: [begin, end).
struct Range {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end > begin ? end - begin : 0; }
};

// Bytes from one row, and from one head, to the next, and elements from one dimension to the next.
struct Pitches {
  int64_t row;
  int64_t head;
  int64_t step;
};

struct Attention {
  Element element;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_size;
  Sequence* sequences;
  int64_t batch;

  Pitches query;
  Pitches out;
  Pitches key;
  Pitches value;
  int64_t lse_row;   // bytes
  int64_t lse_head;  // bytes

  // Pages: `blocks` of a sequence is its row of the table; without pages page_size is 0.
  int64_t page_size;
  int64_t key_page;    // bytes
  int64_t value_page;  // bytes
  int64_t block_step;  // bytes
  bool wide_blocks;    // block ids of 64 bits

  // Rotation of the queries; no pairs: none.
  Element angle_element;
  ConstVector cos;  // of position 0
  ConstVector sin;
  int64_t cos_pitch;  // bytes
  int64_t sin_pitch;  // bytes
  int64_t pairs;
  bool interleaved;
  bool same_position;  // all queries of a sequence are rotated as the first one

  double scale;
  double cap;  // 0: none
  bool causal;
  int64_t left;   // distance to the farthest key before the query's, negative: unlimited
  int64_t right;  // the same after it
  const char* slopes;
  int64_t slope_batch;  // bytes
  int64_t slope_head;   // bytes
};

// The last query is aligned with the last key.
Range seen_by(const Attention& attention, const Sequence& sequence, int64_t query);
// What any query of the sequence sees.
Range seen_by_any(const Attention& attention, const Sequence& sequence);

// An entry of an integer tensor of 32 or 64 bits.
int64_t index_at(const char* data, bool wide);

// The head at `head`, of elements of `bytes`, `step` of them apart, rotated by a position's angles.
RotaryHead rotary_head(const Attention& attention, char* head, int64_t step, int64_t bytes,
                       int64_t position);

// Where the rows of up to kAttentionKeys keys and values lie; their first heads.
void locate(const Attention& attention, const Sequence& sequence, Range keys, const char** key_rows,
            const char** value_rows);

// New keys and values, which become the last keys of each sequence.
struct Append {
  int64_t tokens = 0;
  const char* key = nullptr;
  const char* value = nullptr;
  int64_t key_batch = 0;    // bytes
  int64_t value_batch = 0;  // bytes
  Pitches key_pitches = {};
  Pitches value_pitches = {};
};

// Writes them to where those keys lie, keys rotated and rounded. Where two sequences share a row,
// the later one's stays.
void append_keys(const OpmuxHost& host, const KernelTable& kernels, const Attention& attention,
                 const Append& append);

// Appends first, if there is anything to append. Writes `out` and the log-sum-exps of all queries;
// a query that sees no key gets zeros and -infinity. Each query is read before its own result is
// written, so that `out` may be the queries. The result does not depend on the number of threads.
// Fails, with nothing written, only when the host has no memory.
OpmuxStatus attend(Arguments& arguments, const KernelTable& kernels, const Attention& attention,
                   const Append& append);

}  // namespace opmux::native
