// SPDX-License-Identifier: Apache-2.0
#include "plugins/native/cpu/attention_plan.hpp"

#include <algorithm>

#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

constexpr int64_t kTileRows = 64;
// Keys and values of 16-bit elements are widened once for the tile when it has more rows than this.
constexpr int64_t kNarrowRows = 8;
// Tiles of more rows than this find enough to do in one KV head.
constexpr int64_t kSpanRows = 16;
// Splits: about this many shares of the whole work, none of them below so many keys of one head.
constexpr int64_t kShares = 128;
constexpr int64_t kLeastSplit = 512;
constexpr int64_t kMostPartialBytes = int64_t{32} << 20;
// Scratch memory of all pieces that run at a time.
constexpr int64_t kMostPieces = 256;
constexpr int64_t kScratchBytes = int64_t{16} << 20;

int64_t round_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

bool heads_adjoin(const Attention& attention, const Pitches& pitches) {
  const int64_t bytes = attention.element == kFloat32 ? 4 : 2;
  return pitches.step == 1 && pitches.head == attention.head_size * bytes;
}

bool needs_packing(const Attention& attention, const Plan& plan, const Pitches& pitches) {
  return pitches.step != 1 || attention.head_size % kRowGroup != 0 ||
         (attention.element != kFloat32 && plan.rows > kNarrowRows);
}

void number_units(const Attention& attention, Plan& plan) {
  const int64_t spans = (attention.kv_heads + plan.span - 1) / plan.span;
  plan.units = 0;
  plan.tiles = 0;
  plan.partials = 0;
  for (int64_t i = 0; i < attention.batch; ++i) {
    Sequence& sequence = attention.sequences[i];
    const int64_t keys = seen_by_any(attention, sequence).size();
    const int64_t tiles = sequence.tiles * spans;
    sequence.splits = std::max<int64_t>(1, (keys + plan.split_keys - 1) / plan.split_keys);
    sequence.first_unit = plan.units;
    sequence.first_tile = plan.tiles;
    sequence.first_partial = plan.partials;
    plan.tiles += tiles;
    plan.units += tiles * sequence.splits;
    if (sequence.splits > 1) plan.partials += tiles * sequence.splits;
  }
}

int64_t scratch_bytes(const Plan& plan) {
  const int64_t rows = plan.span * plan.rows;
  const int64_t packed = (plan.pack_keys ? 1 : 0) + (plan.pack_values ? 1 : 0);
  const int64_t floats =
      2 * rows * plan.size + plan.rows * kAttentionPitch + packed * kAttentionKeys * plan.size;
  const int64_t pointers = 6 * kAttentionKeys;
  return round_up(4 * floats + 8 * pointers + rows * int64_t{sizeof(AttentionRow)}, 64);
}

}  // namespace

Plan make_plan(const Attention& attention) {
  Plan plan;
  plan.size = round_up(attention.head_size, kRowGroup);
  plan.group = attention.heads / attention.kv_heads;
  int64_t most_rows = 0;
  for (int64_t i = 0; i < attention.batch; ++i) {
    most_rows = std::max(most_rows, attention.sequences[i].queries * plan.group);
  }
  plan.rows = std::min(kTileRows, most_rows);
  if (plan.rows == 0) return plan;
  plan.span = 1;
  if (plan.rows <= kSpanRows && heads_adjoin(attention, attention.key) &&
      heads_adjoin(attention, attention.value)) {
    plan.span = std::min(attention.kv_heads, kTileRows / plan.rows);
  }
  double work = 0.0;   // keys that tiles of one head walk over
  int64_t pieces = 0;  // that are worth a thread
  for (int64_t i = 0; i < attention.batch; ++i) {
    Sequence& sequence = attention.sequences[i];
    const int64_t keys = seen_by_any(attention, sequence).size();
    sequence.tiles = (sequence.queries * plan.group + plan.rows - 1) / plan.rows;
    const int64_t tiles = sequence.tiles * attention.kv_heads;
    work += static_cast<double>(tiles) * static_cast<double>(keys);
    pieces += tiles * (1 + keys * plan.rows * plan.size / kGrainElements);
  }
  const auto share = static_cast<int64_t>(work / static_cast<double>(kShares * plan.span));
  plan.split_keys = round_up(std::max(kLeastSplit / plan.span, share), kAttentionKeys);
  plan.partial_bytes = plan.span * plan.rows * (plan.size * 4 + int64_t{sizeof(AttentionRow)});
  number_units(attention, plan);
  while (plan.partials * plan.partial_bytes > kMostPartialBytes) {
    plan.split_keys *= 2;
    number_units(attention, plan);
  }
  plan.pack_keys = needs_packing(attention, plan, attention.key);
  plan.pack_values = needs_packing(attention, plan, attention.value);
  plan.scratch_bytes = scratch_bytes(plan);
  const int64_t fit = std::max<int64_t>(1, kScratchBytes / plan.scratch_bytes);
  plan.pieces = std::min({plan.units, kMostPieces, fit, pieces});
  return plan;
}

Tile tile_of(const Attention& attention, const Plan& plan, const Sequence& sequence,
             int64_t number) {
  const int64_t kv_head = number / sequence.tiles * plan.span;
  const int64_t first = number % sequence.tiles * plan.rows;
  return {&sequence, kv_head, std::min(plan.span, attention.kv_heads - kv_head), first,
          std::min(plan.rows, sequence.queries * plan.group - first)};
}

const Sequence& sequence_of(const Attention& attention, int64_t number, int64_t Sequence::*first) {
  const Sequence* const begin = attention.sequences;
  return *(std::upper_bound(begin, begin + attention.batch, number,
                            [first](int64_t wanted, const Sequence& candidate) {
                              return wanted < candidate.*first;
                            }) -
           1);
}

}  // namespace opmux::native
