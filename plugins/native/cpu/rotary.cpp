// SPDX-License-Identifier: Apache-2.0
//
// rotary_embedding.
#include <cinttypes>
#include <cstring>

#include "plugins/native/cpu/arguments.hpp"
#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/operators.hpp"
#include "plugins/native/cpu/rows.hpp"

namespace opmux::native {
namespace {

// The heads of query or key.
struct Heads {
  int64_t count = 0;
  int64_t pitch = 0;  // bytes from one head to the next
  int64_t step = 0;   // elements from one dimension of a head to the next
};

// Checks that `tensor` is [positions..., heads * head_size] or [positions..., heads, head_size].
Heads heads_of(Arguments& arguments, const Tensor& tensor, const Tensor& positions,
               int64_t head_size) {
  arguments.require_rank(tensor, positions.rank + 1, positions.rank + 2);
  if (!arguments.valid()) return {};
  for (int i = 0; i < positions.rank; ++i) {
    arguments.require(tensor.shape[i] == positions.shape[i],
                      "`%s`: expected size %" PRId64
                      " in dimension %d, as in `positions`, found %" PRId64,
                      tensor.name, positions.shape[i], i, tensor.shape[i]);
  }
  const int64_t last = tensor.size(-1);
  if (tensor.rank == positions.rank + 1) {
    arguments.require(last % head_size == 0,
                      "`%s`: expected a last dimension divisible by head_size %" PRId64
                      ", found %" PRId64,
                      tensor.name, head_size, last);
    if (last == 0) return {};
    return {last / head_size, tensor.step(-1) * head_size * tensor.element_bytes(),
            tensor.step(-1)};
  }
  arguments.require(last == head_size,
                    "`%s`: expected head_size %" PRId64 " as the last dimension, found %" PRId64,
                    tensor.name, head_size, last);
  return {tensor.size(-2), tensor.step(-2) * tensor.element_bytes(), tensor.step(-1)};
}

int64_t position_at(const Rows& rows, const Tensor& positions, int64_t token) {
  if (positions.dtype.bits == 64) {
    int64_t position = 0;
    std::memcpy(&position, rows.at(token), sizeof position);
    return position;
  }
  int32_t position = 0;
  std::memcpy(&position, rows.at(token), sizeof position);
  return position;
}

}  // namespace

OpmuxStatus rotary_embedding(void* binding, const OpmuxCall* call) {
  Arguments arguments(call, 8);
  const Tensor positions = arguments.tensor(0, "positions");
  const Tensor query = arguments.tensor(1, "query");
  const Tensor key = arguments.optional_tensor(2, "key");
  const Tensor cache = arguments.tensor(3, "cos_sin_cache");
  const int64_t head_size = arguments.integer(4, "head_size");
  const bool is_neox = arguments.boolean(5, "is_neox");
  const int64_t offset = arguments.integer(6, "rope_dim_offset");
  const bool inverse = arguments.boolean(7, "inverse");
  arguments.require_rank(positions, 1, 2);
  arguments.require_dtype(positions, {kInt64Type, kInt32Type});
  const Element element = arguments.element(query);
  if (key.present) arguments.require_dtype(key, {query.dtype});
  const Element cache_element = arguments.element(cache);
  arguments.require_rank(cache, 2, 2);
  arguments.require(head_size > 0, "`head_size`: expected more than 0, found %" PRId64, head_size);
  arguments.require(offset >= 0, "`rope_dim_offset`: expected at least 0, found %" PRId64, offset);
  if (!arguments.valid()) return arguments.status();
  const int64_t rotated = cache.size(1);
  arguments.require(rotated % 2 == 0,
                    "`cos_sin_cache`: expected an even size of dimension 1, found %" PRId64,
                    rotated);
  arguments.require(rotated <= head_size && offset <= head_size - rotated,
                    "`cos_sin_cache`: expected rope_dim_offset %" PRId64 " + dimension 1 (%" PRId64
                    ") to be at most head_size %" PRId64 ", found %" PRIu64,
                    offset, rotated, head_size,
                    static_cast<uint64_t>(offset) + static_cast<uint64_t>(rotated));
  const Heads query_heads = heads_of(arguments, query, positions, head_size);
  const Heads key_heads = key.present ? heads_of(arguments, key, positions, head_size) : Heads{};
  if (!arguments.valid()) return arguments.status();

  const Rows tokens(positions, positions.rank);
  for (int64_t token = 0; token < tokens.count() && arguments.valid(); ++token) {
    const int64_t position = position_at(tokens, positions, token);
    arguments.require(position >= 0 && position < cache.size(0),
                      "`positions`: expected positions from 0 to %" PRId64
                      ", the rows of `cos_sin_cache`, found %" PRId64 " at token %" PRId64,
                      cache.size(0) - 1, position, token);
  }
  if (!arguments.valid()) return arguments.status();
  if (rotated == 0) return OPMUX_OK;

  const auto kernel = static_cast<const KernelTable*>(binding)->rotate[element][cache_element];
  const Rows queries(query, positions.rank);
  const Rows keys(key.present ? key : query, positions.rank);
  const Rows angles(cache, 1);
  const int64_t pairs = rotated / 2;
  const int64_t bytes = query.element_bytes();
  const auto rotate = [&](char* row, const Heads& heads, ConstVector cos, ConstVector sin) {
    for (int64_t head = 0; head < heads.count; ++head) {
      char* first = row + head * heads.pitch + offset * heads.step * bytes;
      const int64_t distance = is_neox ? pairs * heads.step : heads.step;
      const int64_t step = is_neox ? heads.step : 2 * heads.step;
      kernel({{first, step}, {first + distance * bytes, step}, cos, sin, pairs, inverse});
    }
  };
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const char* row = angles.at(position_at(tokens, positions, token));
      const ConstVector cos = {row, cache.step(1)};
      const ConstVector sin = {row + pairs * cache.step(1) * cache.element_bytes(), cache.step(1)};
      if (query.elements != 0) rotate(queries.at(token), query_heads, cos, sin);
      if (key.elements != 0) rotate(keys.at(token), key_heads, cos, sin);
    }
  };
  parallel_for(arguments.host(), tokens.count(),
               grain_for((query_heads.count + key_heads.count) * rotated), body);
  return OPMUX_OK;
}

}  // namespace opmux::native
