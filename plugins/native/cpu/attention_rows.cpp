// SPDX-License-Identifier: Apache-2.0
//
// Which keys a query sees, where keys lie, and putting new ones there.
#include <algorithm>
#include <cstring>

#include "plugins/native/cpu/attention.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

void copy_elements(const char* source, int64_t source_step, char* target, int64_t target_step,
                   int64_t bytes, int64_t count) {
  if (source_step == 1 && target_step == 1) {
    std::memcpy(target, source, static_cast<size_t>(count * bytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + i * target_step * bytes, source + i * source_step * bytes,
                static_cast<size_t>(bytes));
  }
}

}  // namespace

Range seen_by(const Attention& attention, const Sequence& sequence, int64_t query) {
  const int64_t aligned = query + sequence.keys - sequence.queries;
  Range range = {0, sequence.keys};
  // Compared, not added: a window may be as large as 64 bits hold.
  if (attention.left >= 0 && aligned > attention.left) range.begin = aligned - attention.left;
  if (attention.right >= 0 && attention.right < sequence.keys - 1 - aligned) {
    range.end = std::max<int64_t>(0, aligned + attention.right + 1);
  }
  return range;
}

Range seen_by_any(const Attention& attention, const Sequence& sequence) {
  if (sequence.queries == 0) return {0, 0};
  return {seen_by(attention, sequence, 0).begin,
          seen_by(attention, sequence, sequence.queries - 1).end};
}

int64_t index_at(const char* data, bool wide) {
  if (wide) {
    int64_t index = 0;
    std::memcpy(&index, data, sizeof index);
    return index;
  }
  int32_t index = 0;
  std::memcpy(&index, data, sizeof index);
  return index;
}

RotaryHead rotary_head(const Attention& attention, char* head, int64_t step, int64_t bytes,
                       int64_t position) {
  const int64_t distance = (attention.interleaved ? 1 : attention.pairs) * step;
  const int64_t stride = attention.interleaved ? 2 * step : step;
  return {{head, stride},
          {head + distance * bytes, stride},
          {attention.cos.data + position * attention.cos_pitch, attention.cos.stride},
          {attention.sin.data + position * attention.sin_pitch, attention.sin.stride},
          attention.pairs,
          false};
}

void locate(const Attention& attention, const Sequence& sequence, Range keys, const char** key_rows,
            const char** value_rows) {
  const char* const key = sequence.key;
  const char* const value = sequence.value;
  if (attention.page_size == 0) {
    for (int64_t i = 0; i < keys.size(); ++i) {
      key_rows[i] = key + (keys.begin + i) * attention.key.row;
      value_rows[i] = value + (keys.begin + i) * attention.value.row;
    }
    return;
  }
  int64_t slot = sequence.first_slot + keys.begin;
  for (int64_t i = 0; i < keys.size();) {
    const int64_t column = slot / attention.page_size;
    const int64_t offset = slot % attention.page_size;
    const int64_t run = std::min(keys.size() - i, attention.page_size - offset);
    const int64_t page =
        index_at(sequence.blocks + column * attention.block_step, attention.wide_blocks);
    const char* const key_row = key + page * attention.key_page + offset * attention.key.row;
    const char* const value_row =
        value + page * attention.value_page + offset * attention.value.row;
    for (int64_t j = 0; j < run; ++j) {
      key_rows[i + j] = key_row + j * attention.key.row;
      value_rows[i + j] = value_row + j * attention.value.row;
    }
    i += run;
    slot += run;
  }
}

void append_keys(const OpmuxHost& host, const KernelTable& kernels, const Attention& attention,
                 const Append& append) {
  if (append.tokens == 0) return;
  const int64_t bytes = attention.element == kFloat32 ? 4 : 2;
  const auto rotate = kernels.rotate[attention.element][attention.angle_element];
  const auto append_head = [&](int64_t index, int64_t head) {
    const Sequence& sequence = attention.sequences[index];
    const char* key = append.key + index * append.key_batch + head * append.key_pitches.head;
    const char* value =
        append.value + index * append.value_batch + head * append.value_pitches.head;
    const int64_t first = sequence.keys - append.tokens;
    for (int64_t token = 0; token < append.tokens; ++token) {
      const char* key_row = nullptr;
      const char* value_row = nullptr;
      locate(attention, sequence, {first + token, first + token + 1}, &key_row, &value_row);
      // The rows lie in tensors that the operator writes.
      char* const key_target = const_cast<char*>(key_row) + head * attention.key.head;
      char* const value_target = const_cast<char*>(value_row) + head * attention.value.head;
      copy_elements(key + token * append.key_pitches.row, append.key_pitches.step, key_target,
                    attention.key.step, bytes, attention.head_size);
      copy_elements(value + token * append.value_pitches.row, append.value_pitches.step,
                    value_target, attention.value.step, bytes, attention.head_size);
      if (attention.pairs == 0) continue;
      rotate(
          rotary_head(attention, key_target, attention.key.step, bytes, sequence.position + token));
    }
  };
  // Shared out by heads, so that no two threads write one row.
  parallel_for(host, attention.kv_heads,
               grain_for(attention.batch * append.tokens * attention.head_size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t index = 0; index < attention.batch; ++index) {
                   for (int64_t head = begin; head < end; ++head) append_head(index, head);
                 }
               });
}

}  // namespace opmux::native
