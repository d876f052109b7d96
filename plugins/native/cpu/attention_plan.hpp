// SPDX-License-Identifier: Apache-2.0
//
// How the work of one attention call is cut and what memory it takes. It follows from the shapes
// and strides alone, so that results do not depend on the number of threads.
//
// A tile is up to `rows` query rows of one KV head of a sequence: all query heads of the KV head,
// so that each key and value is loaded once for the group. A unit is one tile of each of up to
// `span` KV heads, whose heads lie side by side in memory, against all keys or, where these are
// many, a split of them.
#pragma once

#include <cstdint>

#include "plugins/native/cpu/attention.hpp"

namespace opmux::native {

inline constexpr int64_t kRowGroup = 16;  // what the kernels pad rows and keys to
inline constexpr int64_t kMostSpan = 64;

struct Plan {
  int64_t size = 0;   // of a head, padded
  int64_t group = 0;  // query heads of a KV head
  int64_t rows = 0;   // of a tile
  int64_t span = 0;   // KV heads of a unit
  int64_t units = 0;
  int64_t tiles = 0;  // units before their keys are split
  int64_t split_keys = 0;
  int64_t partials = 0;  // units whose keys are a split
  bool pack_keys = false;
  bool pack_values = false;
  int64_t partial_bytes = 0;  // of a unit
  int64_t scratch_bytes = 0;  // of a unit
  int64_t pieces = 0;         // that may run at a time
};

// Numbers the work of the sequences, too.
Plan make_plan(const Attention& attention);

// The rows of a unit.
struct Tile {
  const Sequence* sequence;
  int64_t kv_head;  // the first one
  int64_t kv_heads;
  int64_t first;  // row / group is the query, row % group the head of the group
  int64_t rows;   // of each KV head
};

// The tile that `number`, which counts from the sequence's first one, stands for.
Tile tile_of(const Attention& attention, const Plan& plan, const Sequence& sequence,
             int64_t number);

// The sequence of a unit or of a tile, by first_unit or first_tile.
const Sequence& sequence_of(const Attention& attention, int64_t number, int64_t Sequence::*first);

}  // namespace opmux::native
