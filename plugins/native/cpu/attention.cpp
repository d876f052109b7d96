// SPDX-License-Identifier: Apache-2.0
//
// The blocked computation of attention (Dao, "FlashAttention-2", 2023): a tile of query rows walks
// over its keys in blocks and keeps a running maximum, sum and weighted sum of values. Where the
// keys are split, the parts are joined afterwards, as their maxima and sums allow.
#include "plugins/native/cpu/attention.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "plugins/native/cpu/attention_plan.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Hands out parts of one piece of memory.
class Parts {
 public:
  explicit Parts(char* memory) : memory_(memory) {}
  template <class Type>
  Type* take(int64_t count) {
    auto* const part = reinterpret_cast<Type*>(memory_);
    memory_ += count * static_cast<int64_t>(sizeof(Type));
    return part;
  }

 private:
  char* memory_;
};

// What a unit computes: for each of its KV heads, `rows` weighted sums and their states.
struct Sums {
  float* values;
  AttentionRow* states;
};

Sums partial_at(const Plan& plan, char* memory, int64_t index) {
  Parts parts(memory + index * plan.partial_bytes);
  auto* const values = parts.take<float>(plan.span * plan.rows * plan.size);
  return {values, parts.take<AttentionRow>(plan.span * plan.rows)};
}

// The rows of a block, their first heads.
struct BlockRows {
  explicit BlockRows(Parts& parts)
      : keys(parts.take<const char*>(kAttentionKeys)),
        values(parts.take<const char*>(kAttentionKeys)) {}

  const char** keys;
  const char** values;
};

// A unit's memory.
struct Scratch {
  Scratch(const Plan& plan, char* memory) : Scratch(plan, Parts(memory)) {}

  BlockRows current;
  BlockRows next;
  BlockRows packed;  // of the two below
  Sums sums;
  float* queries;
  float* scores;
  float* keys;
  float* values;

 private:
  Scratch(const Plan& plan, Parts parts)
      : current(parts),
        next(parts),
        packed(parts),
        sums{parts.take<float>(plan.span * plan.rows * plan.size),
             parts.take<AttentionRow>(plan.span * plan.rows)},
        queries(parts.take<float>(plan.span * plan.rows * plan.size)),
        scores(parts.take<float>(plan.rows * kAttentionPitch)),
        keys(plan.pack_keys ? parts.take<float>(kAttentionKeys * plan.size) : nullptr),
        values(plan.pack_values ? parts.take<float>(kAttentionKeys * plan.size) : nullptr) {}
};

// One KV head of a tile.
struct Head {
  int64_t index;  // in the tile
  int64_t kv_head;
  const float* queries;
  Sums sums;
};

class Work {
 public:
  Work(const KernelTable& kernels, const Attention& attention, const Plan& plan, char* partials)
      : kernels_(kernels), attention_(attention), plan_(plan), partials_(partials) {}

  void run_unit(int64_t unit, char* memory) const {
    const Sequence& sequence = sequence_of(attention_, unit, &Sequence::first_unit);
    const int64_t local = unit - sequence.first_unit;
    const int64_t split = local % sequence.splits;
    const Tile tile = tile_of(attention_, plan_, sequence, local / sequence.splits);
    Scratch scratch(plan_, memory);
    Range keys = seen_by_tile(tile);
    if (sequence.splits > 1) {
      scratch.sums = partial_at(plan_, partials_, sequence.first_partial + local);
      keys.begin += split * plan_.split_keys;
      keys.end = std::min(keys.end, keys.begin + plan_.split_keys);
    }
    const int64_t rows = plan_.span * plan_.rows;
    for (int64_t row = 0; row < rows; ++row) scratch.sums.states[row] = {-kInfinity, 0.0f, 0.0};
    std::fill_n(scratch.sums.values, rows * plan_.size, 0.0f);
    if (keys.size() > 0) walk(tile, keys, scratch);
    if (sequence.splits == 1) finish(tile, scratch.sums);
  }

  // Joins the parts of a tile whose keys were split, in the order of the keys.
  void join(int64_t number) const {
    const Sequence& sequence = sequence_of(attention_, number, &Sequence::first_tile);
    if (sequence.splits == 1) return;
    const int64_t local = number - sequence.first_tile;
    const int64_t first = sequence.first_partial + local * sequence.splits;
    const Sums target = partial_at(plan_, partials_, first);
    const int64_t rows = plan_.span * plan_.rows;
    for (int64_t row = 0; row < rows; ++row) {
      float maximum = -kInfinity;
      for (int64_t split = 0; split < sequence.splits; ++split) {
        const Sums part = partial_at(plan_, partials_, first + split);
        maximum = std::max(maximum, part.states[row].maximum);
      }
      const double base = maximum == -kInfinity ? 0.0 : static_cast<double>(maximum);
      float* const values = target.values + row * plan_.size;
      double sum = 0.0;
      for (int64_t split = 0; split < sequence.splits; ++split) {
        const Sums part = partial_at(plan_, partials_, first + split);
        const AttentionRow& state = part.states[row];
        const auto factor = static_cast<float>(std::exp(static_cast<double>(state.maximum) - base));
        const float* const added = part.values + row * plan_.size;
        sum += state.sum * static_cast<double>(factor);
        for (int64_t i = 0; i < plan_.size; ++i) {
          values[i] = (split == 0 ? 0.0f : values[i]) + added[i] * factor;
        }
      }
      target.states[row] = {maximum, 0.0f, sum};
    }
    finish(tile_of(attention_, plan_, sequence, local), target);
  }

 private:
  Range seen_by_tile(const Tile& tile) const {
    const int64_t last = tile.first + tile.rows - 1;
    return {seen_by(attention_, *tile.sequence, tile.first / plan_.group).begin,
            seen_by(attention_, *tile.sequence, last / plan_.group).end};
  }

  int64_t query_of(const Tile& tile, int64_t row) const { return (tile.first + row) / plan_.group; }

  int64_t head_of(const Tile& tile, int64_t kv_head, int64_t row) const {
    return kv_head * plan_.group + (tile.first + row) % plan_.group;
  }

  // What a row sees of a block. Rows that see nothing are the first or the last ones of a tile.
  Range seen_of(const Tile& tile, int64_t row, Range keys) const {
    const Range seen = seen_by(attention_, *tile.sequence, query_of(tile, row));
    return {std::max(seen.begin, keys.begin), std::min(seen.end, keys.end)};
  }

  void walk(const Tile& tile, Range keys, Scratch& scratch) const {
    Head heads[kMostSpan];
    for (int64_t i = 0; i < tile.kv_heads; ++i) {
      const int64_t row = i * plan_.rows;
      float* const queries = scratch.queries + row * plan_.size;
      heads[i] = {i,
                  tile.kv_head + i,
                  queries,
                  {scratch.sums.values + row * plan_.size, scratch.sums.states + row}};
      load_queries(tile, tile.kv_head + i, queries);
    }
    locate_next(tile, keys.begin, keys.end, scratch);
    for (int64_t begin = keys.begin; begin < keys.end; begin += kAttentionKeys) {
      const int64_t end = std::min(begin + kAttentionKeys, keys.end);
      std::swap(scratch.current, scratch.next);
      const int64_t ahead = locate_next(tile, end, keys.end, scratch);
      for (int64_t i = 0; i < tile.kv_heads; ++i) {
        add_block(tile, heads[i], {begin, end}, ahead, scratch);
      }
    }
  }

  void load_queries(const Tile& tile, int64_t kv_head, float* queries) const {
    for (int64_t row = 0; row < tile.rows; ++row) {
      const int64_t query = query_of(tile, row);
      float* const target = queries + row * plan_.size;
      const char* const source = tile.sequence->query + query * attention_.query.row +
                                 head_of(tile, kv_head, row) * attention_.query.head;
      kernels_.widen[attention_.element]({source, attention_.query.step}, attention_.head_size,
                                         target);
      if (attention_.pairs == 0) continue;
      const int64_t position = tile.sequence->position + (attention_.same_position ? 0 : query);
      kernels_.rotate[kFloat32][attention_.angle_element](
          rotary_head(attention_, reinterpret_cast<char*>(target), 1, 4, position));
    }
  }

  // The rows of the next block, filled up with the last one. Returns how many they are.
  int64_t locate_next(const Tile& tile, int64_t begin, int64_t end, const Scratch& scratch) const {
    const Range keys = {begin, std::min(begin + kAttentionKeys, end)};
    if (keys.size() == 0) return 0;
    locate(attention_, *tile.sequence, keys, scratch.next.keys, scratch.next.values);
    for (int64_t i = keys.size(); i < kAttentionKeys; ++i) {
      scratch.next.keys[i] = scratch.next.keys[keys.size() - 1];
    }
    return keys.size();
  }

  // The part of the next block's rows that is fetched while this head is computed: in the order of
  // memory, all heads of some rows.
  AttentionAhead ahead_of(const Tile& tile, const Head& head, const char** rows, int64_t count,
                          int64_t head_pitch) const {
    const int64_t bytes = plan_.size * (attention_.element == kFloat32 ? 4 : 2);
    return {rows, head.index * count / tile.kv_heads, (head.index + 1) * count / tile.kv_heads,
            tile.kv_head * head_pitch, tile.kv_heads * bytes};
  }

  // Widens rows to float32 and pads them, so that the kernels can read them.
  void pack(const char** rows, int64_t offset, const Pitches& pitches, int64_t count, float* memory,
            const char** packed) const {
    for (int64_t i = 0; i < count; ++i) {
      float* const target = memory + i * plan_.size;
      kernels_.widen[attention_.element]({rows[i] + offset, pitches.step}, attention_.head_size,
                                         target);
      packed[i] = reinterpret_cast<const char*>(target);
    }
  }

  void add_block(const Tile& tile, const Head& head, Range keys, int64_t ahead,
                 const Scratch& scratch) const {
    // Rows that see none of these keys are the first or the last ones.
    int64_t begin = 0;
    int64_t end = tile.rows;
    while (begin < end && seen_of(tile, begin, keys).size() == 0) ++begin;
    while (end > begin && seen_of(tile, end - 1, keys).size() == 0) --end;

    AttentionScores scores = {};
    scores.queries = head.queries + begin * plan_.size;
    scores.query_pitch = plan_.size;
    scores.rows = end - begin;
    scores.keys = scratch.current.keys;
    scores.offset = head.kv_head * attention_.key.head;
    scores.key_count = (keys.size() + kRowGroup - 1) / kRowGroup * kRowGroup;
    scores.size = plan_.size;
    scores.scores = scratch.scores + begin * kAttentionPitch;
    if (plan_.pack_keys) {
      pack(scratch.current.keys, scores.offset, attention_.key, scores.key_count, scratch.keys,
           scratch.packed.keys);
      scores.keys = scratch.packed.keys;
      scores.offset = 0;
    } else {
      scores.ahead = ahead_of(tile, head, scratch.next.keys, ahead, attention_.key.head);
    }
    kernels_.attention_scores[plan_.pack_keys ? kFloat32 : attention_.element](scores);

    AttentionValues values = {};
    values.values = scratch.current.values;
    values.offset = head.kv_head * attention_.value.head;
    values.size = plan_.size;
    values.sum_pitch = plan_.size;
    if (plan_.pack_values) {
      pack(scratch.current.values, values.offset, attention_.value, keys.size(), scratch.values,
           scratch.packed.values);
      values.values = scratch.packed.values;
      values.offset = 0;
    } else {
      values.ahead = ahead_of(tile, head, scratch.next.values, ahead, attention_.value.head);
    }
    // Rows that see the same keys of this block are summed together.
    for (int64_t row = begin; row < end; row += values.rows) {
      const Range seen = seen_of(tile, row, keys);
      values.rows = 0;
      for (int64_t next = row; next < end; ++next, ++values.rows) {
        const Range other = seen_of(tile, next, keys);
        if (other.begin != seen.begin || other.end != seen.end) break;
        weigh(tile, head, next, keys.begin, seen, scratch);
      }
      values.weights = scratch.scores + row * kAttentionPitch;
      values.states = head.sums.states + row;
      values.begin = seen.begin - keys.begin;
      values.end = seen.end - keys.begin;
      values.sums = head.sums.values + row * plan_.size;
      kernels_.attention_add[plan_.pack_values ? kFloat32 : attention_.element](values);
      values.ahead = {};
    }
  }

  void weigh(const Tile& tile, const Head& head, int64_t row, int64_t first_key, Range seen,
             const Scratch& scratch) const {
    const Sequence& sequence = *tile.sequence;
    AttentionRule rule = {};
    rule.scale = static_cast<float>(attention_.scale);
    rule.cap = static_cast<float>(attention_.cap);
    rule.distance = query_of(tile, row) + sequence.keys - sequence.queries - seen.begin;
    if (attention_.slopes != nullptr) {
      const int64_t index = &sequence - attention_.sequences;
      std::memcpy(&rule.slope,
                  attention_.slopes + index * attention_.slope_batch +
                      head_of(tile, head.kv_head, row) * attention_.slope_head,
                  sizeof rule.slope);
    }
    kernels_.attention_weigh(rule,
                             scratch.scores + row * kAttentionPitch + (seen.begin - first_key),
                             seen.size(), head.sums.states[row]);
  }

  void finish(const Tile& tile, const Sums& sums) const {
    for (int64_t i = 0; i < tile.kv_heads; ++i) {
      for (int64_t row = 0; row < tile.rows; ++row) {
        const int64_t at = i * plan_.rows + row;
        finish_row(tile, tile.kv_head + i, row, sums.values + at * plan_.size, sums.states[at]);
      }
    }
  }

  void finish_row(const Tile& tile, int64_t kv_head, int64_t row, const float* values,
                  const AttentionRow& state) const {
    const Sequence& sequence = *tile.sequence;
    const int64_t query = query_of(tile, row);
    const int64_t head = head_of(tile, kv_head, row);
    char* const out = sequence.out + query * attention_.out.row + head * attention_.out.head;
    // The values are zeros where no key has a weight.
    kernels_.put_scaled[attention_.element](values, state.sum == 0.0 ? 0.0 : 1.0 / state.sum,
                                            attention_.head_size, {out, attention_.out.step});
    if (sequence.lse == nullptr) return;
    const double lse = static_cast<double>(state.maximum) + std::log(state.sum);
    const float narrow = state.sum == 0.0 ? -kInfinity : static_cast<float>(lse);
    std::memcpy(sequence.lse + query * attention_.lse_row + head * attention_.lse_head, &narrow,
                sizeof narrow);
  }

  const KernelTable& kernels_;
  const Attention& attention_;
  const Plan& plan_;
  char* partials_;
};

}  // namespace

OpmuxStatus attend(Arguments& arguments, const KernelTable& kernels, const Attention& attention,
                   const Append& append) {
  const Plan plan = make_plan(attention);
  if (plan.units == 0) {
    append_keys(arguments.host(), kernels, attention, append);
    return OPMUX_OK;
  }
  auto* const scratch = static_cast<char*>(arguments.workspace(plan.pieces * plan.scratch_bytes));
  char* partials = nullptr;
  if (plan.partials > 0) {
    partials = static_cast<char*>(arguments.workspace(plan.partials * plan.partial_bytes));
  }
  if (!arguments.valid()) return arguments.status();
  append_keys(arguments.host(), kernels, attention, append);

  const Work work(kernels, attention, plan, partials);
  // Pieces take units in turn, the last, longest ones first: which piece computes a unit does not
  // change its result.
  std::atomic<int64_t> taken{0};
  parallel_for(arguments.host(), plan.pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      for (int64_t i = taken.fetch_add(1); i < plan.units; i = taken.fetch_add(1)) {
        work.run_unit(plan.units - 1 - i, scratch + piece * plan.scratch_bytes);
      }
    }
  });
  if (plan.partials > 0) {
    parallel_for(arguments.host(), plan.tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) work.join(tile);
    });
  }
  return OPMUX_OK;
}

}  // namespace opmux::native
