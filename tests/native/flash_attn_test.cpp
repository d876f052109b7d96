// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_varlen_func and flash_attn_with_kvcache against float64 over a table of cases, on
// every target. Bounds are those of attention_reference.hpp; half a unit of the output's last place
// comes on top for 16-bit types. Every target gives the same bytes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/attention_calls.hpp"

namespace opmux::test {
namespace {

constexpr int64_t kPages = 37;

// Pages of a sequence are scattered over the pool.
int64_t page_of(int64_t sequence, int64_t column, int64_t pages) {
  return (sequence * 17 + column * 5 + 3) % pages;
}

double slope_of(int64_t head) { return std::ldexp(1.0, -static_cast<int>(head % 8)) * 0.75; }

struct Case {
  int64_t heads = 4;
  int64_t kv_heads = 4;
  int64_t head_size = 64;
  std::vector<int64_t> queries;
  std::vector<int64_t> keys;
  int64_t page_size = 0;
  bool causal = false;
  int64_t left = -1;
  int64_t right = -1;
  double cap = 0.0;
  bool alibi = false;
  double amplitude = 1.0;

  std::string text() const {
    return std::to_string(heads) + "/" + std::to_string(kv_heads) + " heads of " +
           std::to_string(head_size) + ", first " + std::to_string(queries[0]) + " by " +
           std::to_string(keys[0]) + ", pages of " + std::to_string(page_size) +
           (causal ? ", causal" : "") + ", window " + std::to_string(left) + " " +
           std::to_string(right) + ", cap " + std::to_string(cap) + (alibi ? ", alibi" : "");
  }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {4, 4, 32, {3, 0, 1, 5}, {7, 4, 0, 5}},
      {4, 4, 64, {70}, {130}, 0, true},
      {8, 2, 128, {1, 9}, {200, 9}, 0, true},
      {8, 1, 256, {2, 1}, {70, 3}},
      {2, 2, 96, {5}, {33}, 0, false, 4, 2},
      {6, 3, 7, {4, 2}, {9, 11}, 0, true, 3},
      {3, 1, 100, {17}, {17}, 0, true},
      {4, 1, 64, {5}, {2}, 0, true},
      {4, 1, 64, {5, 5}, {2, 0}, 0, false, 1, 1},
      {2, 1, 64, {100}, {100}, 0, true, 16},
      {8, 8, 64, {3}, {66}, 0, false, -1, 0},
      {4, 2, 64, {6}, {40}, 0, true, -1, -1, 5.0, false, 4.0},
      {4, 2, 64, {6}, {40}, 0, false, -1, -1, 30.0, true, 4.0},
      {4, 2, 64, {6, 3}, {40, 90}, 0, true, -1, -1, 0.0, true},
      {2, 1, 64, {4}, {65}, 0, false, 20, 5, 0.0, true, 8.0},
      {4, 2, 64, {4, 1}, {35, 20}, 1, true},
      {4, 2, 64, {4, 0, 1}, {100, 16, 33}, 16, true},
      {8, 1, 32, {3}, {300}, 256, false},
      {4, 4, 48, {1, 2}, {31, 17}, 16, true, 10},
      // Long enough for the keys to be split, for one row and for a full tile.
      {2, 1, 16, {1}, {2100}, 0, true},
      {4, 2, 16, {40}, {1500}, 0, true},
      {1, 1, 16, {3, 1}, {20, 1300}, 64, true, 1100},
  };
  return all;
}

void set_rule(AttentionArguments& call, const Case& what) {
  call.causal = what.causal;
  call.window[0] = what.left;
  call.window[1] = what.right;
  call.softcap = what.cap;
  if (what.alibi) {
    call.slopes = tensor(Type::kFloat32, {what.heads});
    call.slopes->fill(slope_of);
  }
}

std::vector<int64_t> offsets_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

void set_values(reference::AttentionInput& input, const Case& what) {
  input.heads = what.heads;
  input.kv_heads = what.kv_heads;
  input.head_size = what.head_size;
  if (what.alibi) input.slope = slope_of;
}

// Rows of [rows, heads, head_size] in a flat vector.
auto rows_of(const std::vector<double>& values, int64_t heads, int64_t head_size,
             std::function<int64_t(int64_t)> row) {
  return [&values, heads, head_size, row = std::move(row)](int64_t at, int64_t head, int64_t i) {
    return values[static_cast<size_t>((row(at) * heads + head) * head_size + i)];
  };
}

class Varlen : public testing::TestWithParam<Type> {};

TEST_P(Varlen, AgreesWithFloat64) {
  for (const Case& what : cases()) {
    SCOPED_TRACE(what.text());
    VarlenCall call;
    const std::vector<int64_t> q_offsets = offsets_of(what.queries);
    const std::vector<int64_t> k_offsets = offsets_of(what.keys);
    const int64_t rows = q_offsets.back();
    call.q = noisy(GetParam(), {rows, what.heads, what.head_size}, 1, what.amplitude);
    Shape shape = {k_offsets.back(), what.kv_heads, what.head_size};
    const int64_t pages = what.page_size == 1 ? 211 : kPages;
    if (what.page_size != 0) {
      shape = {pages, what.page_size, what.kv_heads, what.head_size};
      std::vector<std::vector<int64_t>> blocks;
      const int64_t longest = *std::max_element(what.keys.begin(), what.keys.end());
      for (size_t i = 0; i < what.keys.size(); ++i) {
        auto& row = blocks.emplace_back();
        for (int64_t column = 0; column < longest / what.page_size + 1; ++column) {
          const bool used = column * what.page_size < what.keys[i];
          row.push_back(used ? page_of(static_cast<int64_t>(i), column, pages) : -77);
        }
      }
      call.blocks = table(blocks);
    }
    call.k = noisy(GetParam(), shape, 2, what.amplitude);
    call.v = noisy(GetParam(), shape, 3);
    call.cu_q = indices(q_offsets);
    call.cu_k = indices(k_offsets);
    set_rule(call, what);
    const std::vector<double> q = call.q->values();
    const std::vector<double> k = call.k->values();
    const std::vector<double> v = call.v->values();
    std::vector<unsigned char> out_bytes;
    std::vector<unsigned char> lse_bytes;
    for (const native::KernelTable* target : targets()) {
      SCOPED_TRACE(target->target);
      call.out = tensor(GetParam(), {rows, what.heads, what.head_size});
      call.lse = tensor(Type::kFloat32, {what.heads, rows});
      ASSERT_EQ(run_on(target, "flash_attn_varlen_func", call.values()), OPMUX_OK) << take_error();
      EXPECT_TRUE(call.out->guards_hold());
      EXPECT_TRUE(call.lse->guards_hold());
      if (!out_bytes.empty()) {
        EXPECT_EQ(call.out->bytes(), out_bytes);
        EXPECT_EQ(call.lse->bytes(), lse_bytes);
        continue;
      }
      out_bytes = call.out->bytes();
      lse_bytes = call.lse->bytes();
      for (size_t i = 0; i < what.queries.size(); ++i) {
        reference::AttentionInput input;
        set_values(input, what);
        input.queries = what.queries[i];
        input.keys = what.keys[i];
        input.rule = call.rule(what.head_size);
        const auto key_row = [&](int64_t key) {
          if (what.page_size == 0) return k_offsets[i] + key;
          return page_of(static_cast<int64_t>(i), key / what.page_size, pages) * what.page_size +
                 key % what.page_size;
        };
        input.query =
            rows_of(q, what.heads, what.head_size, [&](int64_t row) { return q_offsets[i] + row; });
        input.key = rows_of(k, what.kv_heads, what.head_size, key_row);
        input.value = rows_of(v, what.kv_heads, what.head_size, key_row);
        ASSERT_TRUE(agrees(input, call,
                           {q_offsets[i] * what.heads * what.head_size, q_offsets[i], 1, rows}))
            << "sequence " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FlashAttn, Varlen, testing::ValuesIn(kFloatTypes),
                         [](const auto& info) { return name_of(info.param); });

// ---- flash_attn_with_kvcache

struct CacheCase {
  Case what;  // queries and keys hold one number per sequence; queries are equal; keys: cached ones
  int64_t appended = 0;
  int64_t rotary_dim = 0;
  bool interleaved = false;
  std::vector<int64_t> padding = {};
  std::vector<int64_t> rows = {};
};

const std::vector<CacheCase>& cache_cases() {
  static const std::vector<CacheCase> all = {
      {{4, 4, 64, {1, 1}, {9, 33}}},
      {{4, 1, 128, {3, 3}, {0, 70}, 0, true}, 3},
      {{8, 2, 64, {1, 1, 1}, {0, 5, 16}, 16, true}, 1, 64, true},
      {{8, 2, 64, {2, 2}, {15, 40}, 16, true}, 2, 64, false},
      {{4, 2, 64, {3, 3}, {11, 20}, 0, false}, 2, 8, false},
      {{4, 2, 64, {3, 3}, {11, 20}, 0, false, 6}, 2, 8, true},
      {{4, 2, 30, {2, 2}, {11, 20}, 0, true}, 4, 14, true},
      {{4, 4, 64, {2, 2}, {12, 30}, 0, true}, 0, 0, false, {3, 30}},
      {{4, 4, 64, {2, 2}, {12, 30}, 0, true}, 2, 32, false, {3, 12}},
      {{4, 4, 64, {2, 2}, {12, 30}, 4, true, -1, -1, 0.0, true}, 2, 32, true, {3, 30}},
      {{4, 2, 64, {2, 2}, {12, 30}, 0, true}, 1, 32, true, {}, {4, 1}},
      {{2, 1, 64, {1, 1}, {1030, 5}, 256, true, -1, -1, 20.0}, 1},
      {{2, 1, 80, {1, 1}, {7, 4}, 1, false}, 2},
      {{4, 4, 64, {4, 4}, {3, 1}, 0, true, 2}, 1},
  };
  return all;
}

void check_rotated(const TestTensor& cache, const std::vector<double>& exact,
                   const std::vector<double>& magnitude, int64_t begin) {
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_TRUE(close(cache.type(), cache.at(begin + static_cast<int64_t>(i)), exact[i],
                      {1.01, std::ldexp(magnitude[i], -51)}))
        << "dimension " << i;
  }
}

// A head rotated by a position's angles; `magnitude` gets what cancels.
std::vector<double> rotated(std::vector<double> head, int64_t dim, bool interleaved, int64_t at,
                            const TestTensor& cos, const TestTensor& sin,
                            std::vector<double>* magnitude = nullptr) {
  const int64_t pairs = dim / 2;
  if (magnitude != nullptr) magnitude->assign(head.size(), 0.0);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const auto first = static_cast<size_t>(interleaved ? 2 * pair : pair);
    const auto second = static_cast<size_t>(interleaved ? 2 * pair + 1 : pair + pairs);
    const double c = cos.at(at * pairs + pair);
    const double s = sin.at(at * pairs + pair);
    const double x = head[first];
    const double y = head[second];
    head[first] = x * c - y * s;
    head[second] = y * c + x * s;
    if (magnitude == nullptr) continue;
    (*magnitude)[first] = std::abs(x * c) + std::abs(y * s);
    (*magnitude)[second] = std::abs(y * c) + std::abs(x * s);
  }
  return head;
}

std::vector<double> head_of(const TestTensor& tensor, int64_t begin, int64_t size) {
  std::vector<double> head;
  for (int64_t i = 0; i < size; ++i) head.push_back(tensor.at(begin + i));
  return head;
}

class KvCache : public testing::TestWithParam<Type> {};

TEST_P(KvCache, AgreesWithFloat64AndAppends) {
  for (const CacheCase& how : cache_cases()) {
    const Case& what = how.what;
    SCOPED_TRACE(what.text() + ", appended " + std::to_string(how.appended) + ", rotated " +
                 std::to_string(how.rotary_dim));
    const auto batch = static_cast<int64_t>(what.queries.size());
    const int64_t queries = what.queries[0];
    const int64_t head = what.head_size;
    const int64_t capacity =
        *std::max_element(what.keys.begin(), what.keys.end()) + how.appended + 3;
    const int64_t columns = what.page_size == 0 ? 0 : (capacity - 1) / what.page_size + 1;
    const int64_t pages = what.page_size == 1 ? 211 : kPages;
    // The row of [all rows, kv_heads, head_size] that holds a slot of a sequence.
    const auto row_of = [&](int64_t sequence, int64_t slot) {
      if (what.page_size != 0) {
        return page_of(sequence, slot / what.page_size, pages) * what.page_size +
               slot % what.page_size;
      }
      const int64_t row = how.rows.empty() ? sequence : how.rows[static_cast<size_t>(sequence)];
      return row * capacity + slot;
    };
    std::vector<unsigned char> out_bytes;
    for (const native::KernelTable* target : targets()) {
      SCOPED_TRACE(target->target);
      CacheCall call;
      Shape shape = {how.rows.empty() ? batch : 6, capacity, what.kv_heads, head};
      if (what.page_size != 0) {
        shape = {pages, what.page_size, what.kv_heads, head};
        std::vector<std::vector<int64_t>> blocks;
        for (int64_t i = 0; i < batch; ++i) {
          auto& row = blocks.emplace_back();
          for (int64_t column = 0; column < columns; ++column) {
            row.push_back(page_of(i, column, pages));
          }
        }
        call.blocks = table(blocks, Type::kInt64);
      }
      call.q = noisy(GetParam(), {batch, queries, what.heads, head}, 1);
      call.k = noisy(GetParam(), shape, 2);
      call.v = noisy(GetParam(), shape, 3);
      call.lengths = indices(what.keys);
      if (!how.rows.empty()) call.rows = indices(how.rows);
      if (!how.padding.empty()) call.padding = indices(how.padding);
      if (how.appended > 0) {
        call.new_k = noisy(GetParam(), {batch, how.appended, what.kv_heads, head}, 4);
        call.new_v = noisy(GetParam(), {batch, how.appended, what.kv_heads, head}, 5);
      }
      if (how.rotary_dim > 0) {
        const int64_t pairs = how.rotary_dim / 2;
        call.cos = tensor(GetParam(), {capacity, pairs});
        call.sin = tensor(GetParam(), {capacity, pairs});
        const auto angle = [&](int64_t i) {
          const int64_t position = i / pairs;
          return static_cast<double>(position) *
                 std::pow(100.0, -static_cast<double>(i % pairs) / static_cast<double>(pairs));
        };
        call.cos->fill([&](int64_t i) { return std::cos(angle(i)); });
        call.sin->fill([&](int64_t i) { return std::sin(angle(i)); });
      }
      call.interleaved = how.interleaved;
      set_rule(call, what);
      call.out = tensor(GetParam(), {batch, queries, what.heads, head});
      call.lse = tensor(Type::kFloat32, {batch, what.heads, queries});
      call.return_lse = true;
      const std::vector<double> k_before = call.k->values();
      const std::vector<double> v_before = call.v->values();
      ASSERT_EQ(run_on(target, call.name(), call.values()), OPMUX_OK) << take_error();
      EXPECT_TRUE(call.out->guards_hold());
      EXPECT_TRUE(call.lse->guards_hold());
      if (!out_bytes.empty()) {
        EXPECT_EQ(call.out->bytes(), out_bytes);
        continue;
      }
      out_bytes = call.out->bytes();

      // The caches: what was appended is there, everything else is as it was.
      std::vector<double> k_expected = k_before;
      std::vector<double> v_expected = v_before;
      const std::vector<double> k = call.k->values();
      const std::vector<double> v = call.v->values();
      for (int64_t i = 0; i < batch; ++i) {
        const int64_t length = what.keys[static_cast<size_t>(i)];
        for (int64_t token = 0; token < how.appended; ++token) {
          for (int64_t h = 0; h < what.kv_heads; ++h) {
            const int64_t from = ((i * how.appended + token) * what.kv_heads + h) * head;
            const int64_t to = (row_of(i, length + token) * what.kv_heads + h) * head;
            std::vector<double> key = head_of(*call.new_k, from, head);
            if (how.rotary_dim > 0) {
              std::vector<double> magnitude;
              key = rotated(key, how.rotary_dim, how.interleaved, length + token, *call.cos,
                            *call.sin, &magnitude);
              check_rotated(*call.k, key, magnitude, to);
            }
            for (int64_t d = 0; d < head; ++d) {
              const auto at = static_cast<size_t>(to + d);
              k_expected[at] = how.rotary_dim > 0 ? k[at] : key[static_cast<size_t>(d)];
              v_expected[at] = call.new_v->at(from + d);
            }
          }
        }
      }
      ASSERT_EQ(k, k_expected);
      ASSERT_EQ(v, v_expected);

      for (int64_t i = 0; i < batch; ++i) {
        const int64_t padding = how.padding.empty() ? 0 : how.padding[static_cast<size_t>(i)];
        const int64_t length = what.keys[static_cast<size_t>(i)];
        reference::AttentionInput input;
        set_values(input, what);
        input.queries = queries;
        input.keys = length - padding + how.appended;
        input.rule = call.rule(head);
        const auto key_row = [&](int64_t key) { return row_of(i, padding + key); };
        input.key = rows_of(k, what.kv_heads, head, key_row);
        input.value = rows_of(v, what.kv_heads, head, key_row);
        std::vector<double> q;
        for (int64_t row = 0; row < queries; ++row) {
          for (int64_t h = 0; h < what.heads; ++h) {
            std::vector<double> one =
                head_of(*call.q, ((i * queries + row) * what.heads + h) * head, head);
            if (how.rotary_dim > 0) {
              const bool ordered = what.causal || what.left >= 0 || what.right >= 0;
              one = rotated(one, how.rotary_dim, how.interleaved, length + (ordered ? row : 0),
                            *call.cos, *call.sin);
            }
            q.insert(q.end(), one.begin(), one.end());
          }
        }
        input.query_units = how.rotary_dim > 0 ? 1.01 : 0.0;
        input.query = rows_of(q, what.heads, head, [](int64_t row) { return row; });
        ASSERT_TRUE(agrees(input, call,
                           {i * queries * what.heads * head, i * what.heads * queries, 1, queries}))
            << "sequence " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FlashAttn, KvCache, testing::ValuesIn(kFloatTypes),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace opmux::test
