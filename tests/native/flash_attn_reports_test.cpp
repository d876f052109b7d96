// SPDX-License-Identifier: Apache-2.0
//
// Failures that people reported of attention kernels about numbers: masks, windows, rotation, empty
// rows; each with its number, and the right outcome.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/attention_calls.hpp"
#include "tests/native/attention_means.hpp"

namespace opmux::test {
namespace {

TEST(Attention, C23_nan_in_unused_cache_slots_stays_there) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const double tail : {kNan, kInfinity, -kInfinity}) {
        for (const bool paged : {false, true}) {
          CacheCall call = cache_means({1.0, 3.0, tail, tail}, type);
          for (int64_t i = 32; i < 64; ++i) call.k->set(i, tail);
          if (paged) call.blocks = table({{0}});
          call.lengths = indices({2});
          ASSERT_EQ(run_on(target, call.name(), call.values()), OPMUX_OK) << take_error();
          expect_rows(*call.out, {2.0});
        }
      }
    }
  }
}

CacheCall rotating(int64_t head_size, int64_t tokens, int64_t columns) {
  CacheCall call;
  call.q = noisy(Type::kFloat32, {1, tokens, 1, head_size}, 1);
  call.k = noisy(Type::kFloat32, {1, 16, 1, head_size}, 2);
  call.v = noisy(Type::kFloat32, {1, 16, 1, head_size}, 3);
  call.new_k = noisy(Type::kFloat32, {1, tokens, 1, head_size}, 4);
  call.new_v = noisy(Type::kFloat32, {1, tokens, 1, head_size}, 5);
  call.cos = noisy(Type::kFloat32, {512, columns}, 6);
  call.sin = noisy(Type::kFloat32, {512, columns}, 7);
  call.out = tensor(Type::kFloat32, {1, tokens, 1, head_size});
  call.lengths = indices({5});
  call.causal = true;
  return call;
}

TEST(Attention, C24_a_rotary_table_has_half_of_rotary_dim_columns) {
  CacheCall doubled = rotating(16, 2, 16);
  const std::vector<unsigned char> before = doubled.k->bytes();
  EXPECT_EQ(doubled.run(), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "`rotary_cos`: expected at most 8 columns, rotary_dim / 2 within head size 16, found "
            "16");
  EXPECT_EQ(doubled.k->bytes(), before);
  // Two tokens at once are two tokens one after the other.
  CacheCall both = rotating(16, 2, 8);
  ASSERT_EQ(both.run(), OPMUX_OK) << take_error();
  CacheCall one = rotating(16, 1, 8);
  for (const int64_t token : {0, 1}) {
    for (int64_t i = 0; i < 16; ++i) {
      one.q->set(i, both.q->at(token * 16 + i));
      one.new_k->set(i, both.new_k->at(token * 16 + i));
      one.new_v->set(i, both.new_v->at(token * 16 + i));
    }
    one.lengths = indices({5 + token});
    ASSERT_EQ(one.run(), OPMUX_OK) << take_error();
    for (int64_t i = 0; i < 16; ++i) {
      ASSERT_NEAR(one.out->at(i), both.out->at(token * 16 + i), 0x1p-20) << i;
    }
  }
  EXPECT_EQ(one.k->bytes(), both.k->bytes());
}

TEST(Attention, C26_the_pairing_is_what_the_call_says) {
  // Angle of pair 0: 90 degrees, of pair 1: none.
  for (const bool interleaved : {false, true}) {
    CacheCall call = rotating(4, 1, 2);
    call.new_k->fill([](int64_t i) { return static_cast<double>(i + 1); });
    call.cos->fill([](int64_t i) { return i % 2 == 0 ? 0.0 : 1.0; });
    call.sin->fill([](int64_t i) { return i % 2 == 0 ? 1.0 : 0.0; });
    call.interleaved = interleaved;
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    const std::vector<double> expected =
        interleaved ? std::vector<double>{-2, 1, 3, 4} : std::vector<double>{-3, 2, 1, 4};
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(call.k->at(5 * 4 + i), expected[static_cast<size_t>(i)]) << i;
    }
  }
}

TEST(Attention, C27_rotary_dim_may_be_any_even_number) {
  for (const int64_t pairs : {1, 3, 4, 31, 32}) {
    CacheCall call = rotating(64, 1, pairs);
    call.interleaved = false;
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    for (int64_t i = 0; i < 64; ++i) {
      double exact = call.new_k->at(i);
      if (i < 2 * pairs) {
        const double c = call.cos->at(5 * pairs + i % pairs);
        const double s = call.sin->at(5 * pairs + i % pairs);
        exact = i < pairs ? exact * c - call.new_k->at(i + pairs) * s
                          : exact * c + call.new_k->at(i - pairs) * s;
      }
      // One rounding of a number below 2.
      ASSERT_NEAR(call.k->at(5 * 64 + i), exact, 0x1p-23) << i << " of " << 2 * pairs;
    }
  }
}

TEST(Attention, C28_causal_mask_is_aligned_to_the_bottom_right) {
  VarlenCall wide = means(2, 5);
  wide.causal = true;
  ASSERT_EQ(wide.run(), OPMUX_OK) << take_error();
  expect_rows(*wide.out, {1.5, 2.0});
  // Rows with nothing to see are zeros; values from 1 tell them from those that see key 0.
  VarlenCall tall = means(5, 2, 1.0);
  tall.causal = true;
  tall.lse = tensor(Type::kFloat32, {1, 5});
  ASSERT_EQ(tall.run(), OPMUX_OK) << take_error();
  expect_rows(*tall.out, {0.0, 0.0, 0.0, 1.0, 1.5});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(tall.lse->at(i), -kInfinity);
  EXPECT_EQ(tall.lse->at(3), 0.0);
  EXPECT_NEAR(tall.lse->at(4), std::log(2.0), 0x1p-22);
}

TEST(Attention, C29_a_window_counts_distances) {
  VarlenCall call = means(8, 8);
  call.causal = true;
  call.window[0] = 3;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  expect_rows(*call.out, {0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 4.5, 5.5});
  call.window[0] = 4;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  expect_rows(*call.out, {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0});
  // Not causal: to both sides.
  call.causal = false;
  call.window[0] = 1;
  call.window[1] = 2;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  expect_rows(*call.out, {1.0, 1.5, 2.5, 3.5, 4.5, 5.5, 6.0, 6.5});
  // The largest distances are no limit, and do not overflow.
  call.window[0] = INT64_MAX;
  call.window[1] = INT64_MAX;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  expect_rows(*call.out, std::vector<double>(8, 3.5));
}

TEST(Attention, C30_no_entry_drops_window_or_softcap) {
  VarlenCall varlen = means(1, 8);
  varlen.window[0] = 3;
  ASSERT_EQ(varlen.run(), OPMUX_OK) << take_error();
  expect_rows(*varlen.out, {5.5});
  for (const bool one_length : {false, true}) {
    CacheCall cache = cache_means(counted(8));
    if (one_length) cache.length = 8;
    cache.window[0] = 3;
    ASSERT_EQ(cache.run(), OPMUX_OK) << take_error();
    expect_rows(*cache.out, {5.5});
  }

  // Scaled scores 10 and 0 with values 1 and 0.
  const auto capped = [](AttentionArguments& call, double cap) {
    call.q->fill([](int64_t) { return 1.0; });
    call.k->fill([](int64_t i) { return i < 16 ? 0.625 : 0.0; });
    call.v->fill([](int64_t i) { return i < 16 ? 1.0 : 0.0; });
    call.scale = 1.0;
    call.softcap = cap;
  };
  for (const double cap : {0.0, 5.0}) {
    const double score = cap == 0.0 ? 10.0 : 5.0 * std::tanh(2.0);
    const double exact = 1.0 / (1.0 + std::exp(-score));
    VarlenCall first = means(1, 2);
    CacheCall second = cache_means({0.0, 0.0});
    capped(first, cap);
    capped(second, cap);
    ASSERT_EQ(first.run(), OPMUX_OK) << take_error();
    ASSERT_EQ(second.run(), OPMUX_OK) << take_error();
    // The weight of key 1, below 0.01, is off by the score's error, below 16 * 5 units.
    EXPECT_NEAR(first.out->at(0), exact, 4 * 0x1p-24);
    EXPECT_NEAR(second.out->at(0), exact, 4 * 0x1p-24);
    EXPECT_NEAR(exact, cap == 0.0 ? 0.999955 : 0.991999, 1e-6);
  }
  for (const double wrong : {-1.0, kNan, kInfinity}) {
    VarlenCall call = means(1, 2);
    call.softcap = wrong;
    EXPECT_EQ(call.run(), OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error().rfind("`softcap`: expected a finite number of at least 0, found ", 0),
              0u);
    EXPECT_TRUE(call.out->untouched());
  }
}

TEST(Attention, C32_num_splits_does_not_change_the_result) {
  CacheCall call;
  call.q = noisy(Type::kBFloat16, {1, 1, 16, 32}, 1, 4.0);
  call.k = noisy(Type::kBFloat16, {1, 4096, 8, 32}, 2);
  call.v = noisy(Type::kBFloat16, {1, 4096, 8, 32}, 3);
  call.lengths = indices({4096});
  std::vector<unsigned char> first;
  for (const int64_t splits : {0, 1, 2, 16, 32, 128}) {
    call.out = tensor(Type::kBFloat16, {1, 1, 16, 32});
    call.splits = splits;
    ASSERT_EQ(call.run(threaded_host()), OPMUX_OK) << take_error();
    if (first.empty()) first = call.out->bytes();
    EXPECT_EQ(call.out->bytes(), first) << splits;
  }
  const std::vector<double> q = call.q->values();
  const std::vector<double> k = call.k->values();
  const std::vector<double> v = call.v->values();
  reference::AttentionInput input;
  input.queries = 1;
  input.keys = 4096;
  input.heads = 16;
  input.kv_heads = 8;
  input.head_size = 32;
  input.rule = call.rule(32);
  input.query = [&](int64_t, int64_t head, int64_t i) {
    return q[static_cast<size_t>(head * 32 + i)];
  };
  input.key = [&](int64_t key, int64_t head, int64_t i) {
    return k[static_cast<size_t>((key * 8 + head) * 32 + i)];
  };
  input.value = [&](int64_t key, int64_t head, int64_t i) {
    return v[static_cast<size_t>((key * 8 + head) * 32 + i)];
  };
  EXPECT_TRUE(agrees(input, call, {}));
}

TEST(Attention, C35_no_keys_is_no_weight) {
  for (const bool causal : {false, true}) {
    // A tensor of no keys.
    VarlenCall none_at_all = means(3, 0);
    none_at_all.causal = causal;
    none_at_all.lse = tensor(Type::kFloat32, {1, 3});
    ASSERT_EQ(none_at_all.run(), OPMUX_OK) << take_error();
    expect_rows(*none_at_all.out, {0.0, 0.0, 0.0});
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(none_at_all.lse->at(i), -kInfinity);

    // Beside a sequence of three keys.
    CacheCall call;
    call.q = equal_rows({2, 1, 1}, {0.0, 0.0});
    call.k = equal_rows({2, 4, 1}, std::vector<double>(8, kNan));
    call.v = equal_rows({2, 4, 1}, {kNan, kNan, kNan, kNan, 1.0, 1.0, 1.0, kNan});
    for (int64_t i = 4 * 16; i < 7 * 16; ++i) call.k->set(i, 0.0);
    call.out = tensor(Type::kFloat32, {2, 1, 1, 16});
    call.lse = tensor(Type::kFloat32, {2, 1, 1});
    call.lengths = indices({0, 3});
    call.causal = causal;
    call.return_lse = true;
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    expect_rows(*call.out, {0.0, 1.0});
    EXPECT_EQ(call.lse->at(0), -kInfinity);
    EXPECT_NEAR(call.lse->at(1), std::log(3.0), 0x1p-22);

    // No queries, no sequences.
    VarlenCall no_queries = means(0, 4);
    no_queries.causal = causal;
    EXPECT_EQ(no_queries.run(poor_host()), OPMUX_ERROR_BEFORE_LAUNCH);  // for the one sequence
    EXPECT_EQ(no_queries.run(), OPMUX_OK) << take_error();
    VarlenCall no_sequences = means(0, 0);
    no_sequences.cu_q = indices({0});
    no_sequences.cu_k = indices({0});
    EXPECT_EQ(no_sequences.run(poor_host()), OPMUX_OK) << take_error();
    CacheCall empty_batch = cache_means({1.0});
    empty_batch.q = tensor(Type::kFloat32, {0, 1, 1, 16});
    empty_batch.out = tensor(Type::kFloat32, {0, 1, 1, 16});
    EXPECT_EQ(empty_batch.run(poor_host()), OPMUX_OK) << take_error();
  }
}

TEST(Attention, C37_softmax_lse_is_heads_by_total_q) {
  VarlenCall call;
  call.q = noisy(Type::kFloat32, {4, 2, 16}, 1);
  call.k = tensor(Type::kFloat32, {8, 2, 16});
  call.k->fill([](int64_t) { return 0.0; });
  call.v = noisy(Type::kFloat32, {8, 2, 16}, 2);
  call.out = tensor(Type::kFloat32, {4, 2, 16});
  call.lse = tensor(Type::kFloat32, {2, 4});
  call.cu_q = indices({0, 1, 4});
  call.cu_k = indices({0, 5, 8});
  call.causal = true;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const double exact[] = {1.609438, 0.0, 0.693147, 1.098612};
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(call.lse->at(i), exact[i % 4], 1e-6) << i;
  call.lse = tensor(Type::kFloat32, {4, 2});
  EXPECT_EQ(call.run(), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`softmax_lse`: expected shape [2, 4], found [4, 2]");
}

}  // namespace
}  // namespace opmux::test
