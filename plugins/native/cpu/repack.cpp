// SPDX-License-Identifier: Apache-2.0
//
// gptq_marlin_repack, awq_marlin_repack: from packed rows or columns to Marlin's tiles, in which
// each 32-bit word holds what one lane of a tensor-core instruction needs.
#include <array>
#include <cinttypes>
#include <cstring>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/operators.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

constexpr int kTileValues = 1024;
constexpr int kWarps = 4;

// A tile is 16 x 64 values (k x n), or 32 x 32 for 8-bit activations.
constexpr int tile_k(bool wide_k) { return wide_k ? 32 : 16; }
constexpr int tile_n(bool wide_k) { return wide_k ? 32 : 64; }

using Order = std::array<uint16_t, kTileValues>;

// For each value of a packed tile, word by word and from the lowest bits up, its place in the tile
// row by row.
//
// The words of lane 0 come first, and of a lane those of warp 0. Lane l of warp w holds eight
// values. With 16-bit activations: rows r, r + 1, r + 8, r + 9 for r = 2 (l mod 4), first of column
// 16 w + l / 4, then of the column 8 further. With 8-bit activations: rows r to r + 3 and r + 16 to
// r + 19 for r = 4 (l mod 4), of column 8 w + l / 4. Within a word the even ones of four (8 bits)
// or eight (4 bits) values come before the odd ones, since they are unpacked in pairs; for 8-bit
// activations 4-bit values alternate between the first and second four instead, and 8-bit values
// stay in order.
constexpr Order make_order(int bits, bool wide_k) {
  const int per_word = 32 / bits;
  Order order = {};
  for (int i = 0; i < kTileValues; ++i) {
    const int lane = i / 8 / kWarps;
    const int warp = i / 8 % kWarps;
    const int first = i % 8 / per_word * per_word;  // of the eight, the first one in this word
    const int position = i % per_word;
    int value = 0;
    if (!wide_k) {
      const int half = per_word / 2;
      value = first + (position < half ? 2 * position : 2 * (position - half) + 1);
    } else if (bits == 4) {
      value = position / 2 + position % 2 * 4;
    } else {
      value = first + position;
    }
    int k = 0;
    int n = 0;
    if (wide_k) {
      k = 4 * (lane % 4) + value % 4 + (value < 4 ? 0 : 16);
      n = 8 * warp + lane / 4;
    } else {
      k = 2 * (lane % 4) + value % 2 + (value % 4 < 2 ? 0 : 8);
      n = 16 * warp + lane / 4 + (value < 4 ? 0 : 8);
    }
    order[static_cast<size_t>(i)] = static_cast<uint16_t>(k * tile_n(wide_k) + n);
  }
  return order;
}

constexpr Order kOrders[2][2] = {{make_order(4, false), make_order(4, true)},
                                 {make_order(8, false), make_order(8, true)}};

struct Shape {
  int64_t size_k = 0;
  int64_t size_n = 0;
  int bits = 4;
  bool wide_k = false;
};

uint32_t word_at(const char* data, int64_t index) {
  uint32_t word = 0;
  std::memcpy(&word, data + index * 4, sizeof word);
  return word;
}

// Writes all tiles; unpack(k, n, values) gives the values of one row of a tile from (k, n) on.
template <class Unpack>
void repack(const OpmuxHost& host, const Shape& shape, char* out, const Unpack& unpack) {
  const int64_t rows = tile_k(shape.wide_k);
  const int columns = tile_n(shape.wide_k);
  const int per_word = 32 / shape.bits;
  const int64_t words = kTileValues / per_word;
  const int64_t tiles_n = shape.size_n / columns;
  const Order& order = kOrders[shape.bits == 8 ? 1 : 0][shape.wide_k ? 1 : 0];
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      uint8_t values[kTileValues];
      for (int64_t row = 0; row < rows; ++row) {
        unpack(tile / tiles_n * rows + row, tile % tiles_n * columns, columns,
               values + row * columns);
      }
      const uint16_t* places = order.data();
      for (int64_t i = 0; i < words; ++i, places += per_word) {
        uint32_t word = 0;
        for (int j = 0; j < per_word; ++j) {
          word |= static_cast<uint32_t>(values[places[j]]) << (j * shape.bits);
        }
        std::memcpy(out + (tile * words + i) * 4, &word, sizeof word);
      }
    }
  };
  parallel_for(host, shape.size_k / rows * tiles_n, grain_for(kTileValues), body);
}

// What both operators require; `along_k` says along which dimension the weights are packed.
Shape check(Arguments& arguments, const Tensor& weight, const Tensor& out, uint32_t first,
            bool along_k) {
  Shape shape;
  shape.size_k = arguments.integer(first, "size_k");
  shape.size_n = arguments.integer(first + 1, "size_n");
  const int64_t bits = arguments.integer(first + 2, "num_bits");
  shape.wide_k = arguments.boolean(first + 3, "is_a_8bit");
  arguments.require(bits == 4 || bits == 8, "`num_bits`: expected 4 or 8, found %" PRId64, bits);
  arguments.require(shape.size_k > 0 && shape.size_k % 16 == 0,
                    "`size_k`: expected a positive multiple of 16, found %" PRId64, shape.size_k);
  arguments.require(!shape.wide_k || shape.size_k % 32 == 0,
                    "`size_k`: expected a multiple of 32 with is_a_8bit, found %" PRId64,
                    shape.size_k);
  arguments.require(shape.size_n > 0 && shape.size_n % 64 == 0,
                    "`size_n`: expected a positive multiple of 64, found %" PRId64, shape.size_n);
  arguments.require_dtype(weight, {kInt32Type});
  arguments.require_dtype(out, {kInt32Type});
  if (!arguments.valid()) return shape;
  shape.bits = static_cast<int>(bits);
  const int64_t pack = 32 / bits;
  if (along_k) {
    arguments.require_shape(weight, {shape.size_k / pack, shape.size_n});
  } else {
    arguments.require_shape(weight, {shape.size_k, shape.size_n / pack});
  }
  arguments.require(shape.size_n <= INT64_MAX / 4,
                    "`size_n`: expected less than 2^61, found %" PRId64, shape.size_n);
  if (!arguments.valid()) return shape;
  arguments.require_shape(out, {shape.size_k / 16, shape.size_n / pack * 16});
  arguments.require_contiguous(weight);
  arguments.require_contiguous(out);
  if (!arguments.valid()) return shape;
  const int64_t bytes = out.elements * 4;  // the same as the weight's
  const auto from = reinterpret_cast<uintptr_t>(weight.data);
  const auto to = reinterpret_cast<uintptr_t>(out.data);
  const uintptr_t distance = from > to ? from - to : to - from;
  arguments.require(distance >= static_cast<uintptr_t>(bytes),
                    "`out`: expected memory of its own, found that it overlaps `b_q_weight`");
  return shape;
}

}  // namespace

OpmuxStatus gptq_marlin_repack(void* /*binding*/, const OpmuxCall* call) {
  Arguments arguments(call, 7);
  const Tensor weight = arguments.tensor(0, "b_q_weight");
  const Tensor perm = arguments.tensor(1, "perm");
  const Tensor out = arguments.tensor(6, "out");
  const Shape shape = check(arguments, weight, out, 2, true);
  arguments.require_dtype(perm, {kInt32Type});
  arguments.require_rank(perm, 1, 1);
  if (!arguments.valid()) return arguments.status();
  const bool permuted = perm.elements != 0;
  if (permuted) arguments.require_shape(perm, {shape.size_k});
  arguments.support(!permuted || !shape.wide_k,
                    "`perm`: expected an empty tensor with is_a_8bit, found %" PRId64 " elements",
                    perm.elements);
  if (!arguments.valid()) return arguments.status();
  const auto source_row = [&](int64_t k) {
    if (!permuted) return k;
    return static_cast<int64_t>(static_cast<int32_t>(word_at(perm.data, k * perm.step(0))));
  };
  for (int64_t k = 0; permuted && k < shape.size_k && arguments.valid(); ++k) {
    const int64_t row = source_row(k);
    arguments.require(row >= 0 && row < shape.size_k,
                      "`perm`: expected rows from 0 to %" PRId64 ", found %" PRId64
                      " at index %" PRId64,
                      shape.size_k - 1, row, k);
  }
  if (!arguments.valid()) return arguments.status();

  const int per_word = 32 / shape.bits;
  const uint32_t mask = (1u << shape.bits) - 1u;
  repack(arguments.host(), shape, out.data,
         [&](int64_t k, int64_t n, int columns, uint8_t* values) {
           const int64_t row = source_row(k);
           const int64_t first = row / per_word * shape.size_n + n;
           const int shift = static_cast<int>(row % per_word) * shape.bits;
           for (int i = 0; i < columns; ++i) {
             values[i] = static_cast<uint8_t>((word_at(weight.data, first + i) >> shift) & mask);
           }
         });
  return OPMUX_OK;
}

OpmuxStatus awq_marlin_repack(void* /*binding*/, const OpmuxCall* call) {
  Arguments arguments(call, 6);
  const Tensor weight = arguments.tensor(0, "b_q_weight");
  const Tensor out = arguments.tensor(5, "out");
  const Shape shape = check(arguments, weight, out, 1, false);
  if (!arguments.valid()) return arguments.status();

  const int per_word = 32 / shape.bits;
  const int half = per_word / 2;
  const uint32_t mask = (1u << shape.bits) - 1u;
  repack(arguments.host(), shape, out.data,
         [&](int64_t k, int64_t n, int columns, uint8_t* values) {
           const int64_t first = (k * shape.size_n + n) / per_word;
           for (int i = 0; i < columns; i += per_word) {
             const uint32_t word = word_at(weight.data, first + i / per_word);
             // AWQ packs the even columns of a word before the odd ones.
             for (int j = 0; j < per_word; ++j) {
               const int column = j < half ? 2 * j : 2 * (j - half) + 1;
               values[i + column] = static_cast<uint8_t>((word >> (j * shape.bits)) & mask);
             }
           }
         });
  return OPMUX_OK;
}

}  // namespace opmux::native
