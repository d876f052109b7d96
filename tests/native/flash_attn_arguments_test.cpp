// SPDX-License-Identifier: Apache-2.0
//
// What wrong calls of the FlashAttention operators are told, and that nothing is written by them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/native/attention_calls.hpp"

namespace opmux::test {
namespace {

const Type f32 = Type::kFloat32;

VarlenCall varlen() {
  VarlenCall call;
  call.q = noisy(f32, {4, 4, 16}, 1);
  call.k = noisy(f32, {6, 2, 16}, 2);
  call.v = noisy(f32, {6, 2, 16}, 3);
  call.out = tensor(f32, {4, 4, 16});
  call.cu_q = indices({0, 1, 4});
  call.cu_k = indices({0, 2, 6});
  return call;
}

CacheCall cache() {
  CacheCall call;
  call.q = noisy(f32, {2, 1, 4, 16}, 1);
  call.k = noisy(f32, {2, 8, 2, 16}, 2);
  call.v = noisy(f32, {2, 8, 2, 16}, 3);
  call.out = tensor(f32, {2, 1, 4, 16});
  call.lengths = indices({3, 5});
  return call;
}

CacheCall appending() {
  CacheCall call = cache();
  call.new_k = noisy(f32, {2, 2, 2, 16}, 4);
  call.new_v = noisy(f32, {2, 2, 2, 16}, 5);
  return call;
}

CacheCall rotating() {
  CacheCall call = appending();
  call.cos = noisy(f32, {8, 4}, 6);
  call.sin = noisy(f32, {8, 4}, 7);
  return call;
}

template <class Call>
void expect_refused(Call call, const std::function<void(Call&)>& change, const std::string& error,
                    OpmuxStatus status = OPMUX_INVALID_ARGUMENT) {
  change(call);
  const std::vector<unsigned char> keys = call.k->bytes();
  const std::vector<unsigned char> values = call.v->bytes();
  EXPECT_EQ(call.run(), status) << error;
  EXPECT_EQ(take_error(), error);
  EXPECT_TRUE(call.out->untouched()) << error;
  EXPECT_EQ(call.k->bytes(), keys);
  EXPECT_EQ(call.v->bytes(), values);
}

TEST(FlashAttnArguments, Varlen) {
  using Change = std::function<void(VarlenCall&)>;
  const auto expect = [](const std::string& error, const Change& change,
                         OpmuxStatus status = OPMUX_INVALID_ARGUMENT) {
    expect_refused<VarlenCall>(varlen(), change, error, status);
  };
  ASSERT_EQ(varlen().run(), OPMUX_OK) << take_error();
  expect("`q`: expected rank 3, found 2", [](VarlenCall& c) { c.q = tensor(f32, {4, 64}); });
  expect("`k`: expected rank 3, found 4", [](VarlenCall& c) { c.k = tensor(f32, {1, 6, 2, 16}); });
  expect("`k`: expected rank 4, found 3", [](VarlenCall& c) { c.blocks = table({{0}, {0}}); });
  expect("`k`: expected dtype float32, found bfloat16", [](VarlenCall& c) {
    c.k = tensor(Type::kBFloat16, {6, 2, 16});
  });
  expect("`v`: expected dtype float32, found float16", [](VarlenCall& c) {
    c.v = tensor(Type::kFloat16, {6, 2, 16});
  });
  expect("`q`: expected dtype float32, float16 or bfloat16, found int32", [](VarlenCall& c) {
    c.q = tensor(Type::kInt32, {4, 4, 16});
  });
  expect("`out`: expected dtype float32, found bfloat16", [](VarlenCall& c) {
    c.out = tensor(Type::kBFloat16, {4, 4, 16});
  });
  expect("`out`: expected shape [4, 4, 16], found [4, 4, 15]", [](VarlenCall& c) {
    c.out = tensor(f32, {4, 4, 15});
  });
  expect("`k`: expected head size 16, that of `q`, found 8", [](VarlenCall& c) {
    c.k = tensor(f32, {6, 2, 8});
  });
  expect("`q`: expected a head size of more than 0, found 0", [](VarlenCall& c) {
    c.q = tensor(f32, {4, 4, 0});
  });
  expect(
      "`v`: the native kernels need head size 16, that of `q`, found 8",
      [](VarlenCall& c) {
        c.v = tensor(f32, {6, 2, 8});
      },
      OPMUX_UNSUPPORTED);
  expect("`v`: expected shape [6, 2, 16], found [5, 2, 16]", [](VarlenCall& c) {
    c.v = tensor(f32, {5, 2, 16});
  });
  expect("`k`: expected a number of heads that divides the 4 of `q`, found 3", [](VarlenCall& c) {
    c.k = tensor(f32, {6, 3, 16});
  });
  expect("`k`: expected a number of heads that divides the 4 of `q`, found 0", [](VarlenCall& c) {
    c.k = tensor(f32, {6, 0, 16});
  });
  expect("`cu_seqlens_q`: expected at least 1 offset, found 0",
         [](VarlenCall& c) { c.cu_q = tensor(Type::kInt32, {0}); });
  expect("`cu_seqlens_q`: expected sequences of at most max_seqlen_q 2, found 3 in sequence 1",
         [](VarlenCall& c) { c.max_q = 2; });
  expect("`cu_seqlens_k`: expected sequences of at most max_seqlen_k 3, found 4 in sequence 1",
         [](VarlenCall& c) { c.max_k = 3; });
  expect(
      "`dropout_p`: the native kernels have no dropout, found 0.5",
      [](VarlenCall& c) { c.dropout = 0.5; }, OPMUX_UNSUPPORTED);
  expect(
      "`dropout_p`: the native kernels have no dropout, found nan",
      [](VarlenCall& c) { c.dropout = std::nan(""); }, OPMUX_UNSUPPORTED);
  expect(
      "`return_attn_probs`: the native kernels never hold the weights, found true",
      [](VarlenCall& c) { c.probabilities = true; }, OPMUX_UNSUPPORTED);
  expect(
      "`s_dmask`: the native kernels never hold the weights, found a tensor",
      [](VarlenCall& c) {
        c.mask = tensor(f32, {2, 4, 3, 4});
      },
      OPMUX_UNSUPPORTED);
  expect("`softmax_scale`: expected a finite number, found inf",
         [](VarlenCall& c) { c.scale = HUGE_VAL; });
  expect("`alibi_slopes`: expected dtype float32, found float16",
         [](VarlenCall& c) { c.slopes = tensor(Type::kFloat16, {4}); });
  expect("`alibi_slopes`: expected shape [4], found [2]",
         [](VarlenCall& c) { c.slopes = tensor(f32, {2}); });
  expect("`alibi_slopes`: expected shape [2, 4], found [3, 4]", [](VarlenCall& c) {
    c.slopes = tensor(f32, {3, 4});
  });
  expect("`softmax_lse`: expected shape [4, 4], found [4, 3]", [](VarlenCall& c) {
    c.lse = tensor(f32, {4, 3});
  });
  expect("`softmax_lse`: expected dtype float32, found float16", [](VarlenCall& c) {
    c.lse = tensor(Type::kFloat16, {4, 4});
  });
}

TEST(FlashAttnArguments, LongWindowLists) {
  VarlenCall call = varlen();
  Values values = call.values();
  const int64_t numbers[] = {-1, -1, -1};
  const OpmuxIntList list = {numbers, 3};
  values[12].payload.int_list = &list;
  EXPECT_EQ(run("flash_attn_varlen_func", values), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`window_size`: expected 2 integers, found 3");
  values[12] = value(3);
  EXPECT_EQ(run("flash_attn_varlen_func", values), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`window_size`: expected a list of integers, found an integer");
  values = call.values();
  values[10] = none();
  EXPECT_EQ(run("flash_attn_varlen_func", values), OPMUX_OK) << take_error();
  values[10] = value(true);
  EXPECT_EQ(run("flash_attn_varlen_func", values), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`softmax_scale`: expected a float, found a bool");
}

TEST(FlashAttnArguments, KvCache) {
  using Change = std::function<void(CacheCall&)>;
  const auto expect = [](const std::string& error, const Change& change) {
    expect_refused<CacheCall>(cache(), change, error);
  };
  ASSERT_EQ(cache().run(), OPMUX_OK) << take_error();
  expect("`q`: expected rank 4, found 3", [](CacheCall& c) { c.q = tensor(f32, {2, 4, 16}); });
  expect("`k_cache`: expected at least 2 rows, the batch of `q`, found 1", [](CacheCall& c) {
    c.k = tensor(f32, {1, 8, 2, 16});
    c.v = tensor(f32, {1, 8, 2, 16});
  });
  expect("`v_cache`: expected shape [2, 8, 2, 16], found [2, 9, 2, 16]", [](CacheCall& c) {
    c.v = tensor(f32, {2, 9, 2, 16});
  });
  expect("`cache_seqlens`: expected shape [2], found [3]", [](CacheCall& c) {
    c.lengths = indices({1, 1, 1});
  });
  expect("`cache_seqlens`: expected dtype int32 or int64, found uint32", [](CacheCall& c) {
    c.lengths = indices({1, 1}, Type::kUint32);
  });
  const std::string lengths =
      "`cache_seqlens`: expected lengths from 0 to 8, the 8 tokens of the cache less 0 appended, "
      "found ";
  expect(lengths + "-1 in sequence 1", [](CacheCall& c) { c.lengths = indices({1, -1}); });
  expect(lengths + "9 in sequence 0", [](CacheCall& c) { c.lengths = indices({9, 9}); });
  expect(lengths + "9223372036854775807 in sequence 0", [](CacheCall& c) { c.length = INT64_MAX; });
  expect("`cache_leftpad`: expected from 0 to the length 5, found 6 in sequence 1",
         [](CacheCall& c) {
           c.padding = indices({0, 6});
         });
  expect("`cache_leftpad`: expected from 0 to the length 3, found -1 in sequence 0",
         [](CacheCall& c) {
           c.padding = indices({-1, 0});
         });
  expect("`cache_batch_idx`: expected from 0 to 1, the rows of `k_cache`, found 2 in sequence 1",
         [](CacheCall& c) {
           c.rows = indices({1, 2});
         });
  expect("`cache_batch_idx`: expected None with `block_table`, found a tensor", [](CacheCall& c) {
    c.rows = indices({0, 1});
    c.blocks = table({{0}, {1}});
  });
  expect("`block_table`: expected shape [2, 1], found [1, 1]",
         [](CacheCall& c) { c.blocks = table({{0}}); });
  expect("`block_table`: expected dtype int32 or int64, found float32", [](CacheCall& c) {
    c.blocks = tensor(f32, {2, 1});
  });
  expect("`softmax_lse`: expected a tensor, as return_softmax_lse is true, found None",
         [](CacheCall& c) { c.return_lse = true; });
  expect("`softmax_lse`: expected shape [2, 4, 1], found [2, 1, 4]", [](CacheCall& c) {
    c.lse = tensor(f32, {2, 1, 4});
  });
}

TEST(FlashAttnArguments, Appending) {
  using Change = std::function<void(CacheCall&)>;
  const auto expect = [](const std::string& error, const Change& change) {
    expect_refused<CacheCall>(appending(), change, error);
  };
  ASSERT_EQ(appending().run(), OPMUX_OK) << take_error();
  expect("`v`: expected a tensor beside `k`, found None", [](CacheCall& c) { c.new_v.reset(); });
  expect("`k`: expected a tensor beside `v`, found None", [](CacheCall& c) { c.new_k.reset(); });
  expect("`k`: expected shape [2, 2, 2, 16], found [2, 2, 4, 16]", [](CacheCall& c) {
    c.new_k = tensor(f32, {2, 2, 4, 16});
  });
  expect("`v`: expected shape [2, 2, 2, 16], found [2, 3, 2, 16]", [](CacheCall& c) {
    c.new_v = tensor(f32, {2, 3, 2, 16});
  });
  expect("`k`: expected dtype float32, found float16", [](CacheCall& c) {
    c.new_k = tensor(Type::kFloat16, {2, 2, 2, 16});
  });
  expect("`cache_seqlens`: expected a tensor, which says where `k` is appended, found None",
         [](CacheCall& c) { c.lengths.reset(); });
  expect(
      "`cache_seqlens`: expected lengths from 0 to 6, the 8 tokens of the cache less 2 appended, "
      "found 7 in sequence 1",
      [](CacheCall& c) {
        c.lengths = indices({3, 7});
      });
  expect(
      "`cache_seqlens`: expected lengths from 0 to -1, the 8 tokens of the cache less 9 appended, "
      "found 3 in sequence 0",
      [](CacheCall& c) {
        c.new_k = tensor(f32, {2, 9, 2, 16});
        c.new_v = tensor(f32, {2, 9, 2, 16});
      });
}

TEST(FlashAttnArguments, Rotating) {
  using Change = std::function<void(CacheCall&)>;
  const auto expect = [](const std::string& error, const Change& change) {
    expect_refused<CacheCall>(rotating(), change, error);
  };
  ASSERT_EQ(rotating().run(), OPMUX_OK) << take_error();
  expect("`rotary_sin`: expected a tensor beside `rotary_cos`, found None",
         [](CacheCall& c) { c.sin.reset(); });
  expect("`rotary_cos`: expected a tensor beside `rotary_sin`, found None",
         [](CacheCall& c) { c.cos.reset(); });
  expect(
      "`rotary_cos`: expected None without `k`, which is what is rotated beside `q`, found a "
      "tensor",
      [](CacheCall& c) {
        c.new_k.reset();
        c.new_v.reset();
      });
  expect("`rotary_sin`: expected shape [8, 4], found [8, 3]", [](CacheCall& c) {
    c.sin = tensor(f32, {8, 3});
  });
  expect("`rotary_sin`: expected dtype float32, found float16", [](CacheCall& c) {
    c.sin = tensor(Type::kFloat16, {8, 4});
  });
  // Two new keys after five; with a causal mask also a query at each position.
  expect("`rotary_cos`: expected at least 7 rows, the positions of sequence 1, found 6",
         [](CacheCall& c) {
           c.cos = tensor(f32, {6, 4});
           c.sin = tensor(f32, {6, 4});
         });
  expect("`rotary_cos`: expected at least 9 rows, the positions of sequence 1, found 8",
         [](CacheCall& c) {
           c.q = noisy(f32, {2, 4, 4, 16}, 1);
           c.out = tensor(f32, {2, 4, 4, 16});
           c.causal = true;
         });
}

// FlashAttention takes a window that covers the cache for none, and then rotates all queries by the
// first position.
TEST(FlashAttnArguments, AWindowThatCoversTheCacheIsNone) {
  std::vector<std::vector<double>> outs;
  for (const int64_t left : {-1, 8, 7}) {
    CacheCall call = rotating();
    call.q = noisy(f32, {2, 2, 4, 16}, 1);
    call.out = tensor(f32, {2, 2, 4, 16});
    call.window[0] = left;
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    outs.push_back(call.out->values());
  }
  EXPECT_EQ(outs[0], outs[1]);
  EXPECT_NE(outs[0], outs[2]);
}

TEST(FlashAttnArguments, AnyNegativeDistanceOfAWindowIsNoLimit) {
  std::vector<std::vector<double>> outs;
  for (const int64_t distance : {-1, -2, 0}) {
    CacheCall call = rotating();
    call.q = noisy(f32, {2, 2, 4, 16}, 1);
    call.out = tensor(f32, {2, 2, 4, 16});
    call.window[0] = distance;
    call.window[1] = distance;
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    outs.push_back(call.out->values());
  }
  EXPECT_EQ(outs[0], outs[1]);
  EXPECT_NE(outs[0], outs[2]);
}

}  // namespace
}  // namespace opmux::test
