// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_with_kvcache and its overload with an int: what FlashAttention gets for every
// argument, where its results end, and what is refused before it is called.
#include <gmock/gmock.h>

#include <limits>

#include "tests/flash_attn/flash_attn_world.hpp"

namespace opmux::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string refusal(const KvcacheCall& call, OpmuxStatus status) {
  EXPECT_EQ(call.run(), status);
  EXPECT_EQ(recorded().calls, 0);
  return take_error();
}

TEST(KvcacheCall, PassesEveryArgumentAndWritesInPlace) {
  const KvcacheCall call;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall& record = recorded();
  EXPECT_EQ(record.calls, 1);
  EXPECT_EQ(record.q.data, call.q.data());
  EXPECT_EQ(record.k.data, call.k_cache.data());
  EXPECT_EQ(record.v.data, call.v_cache.data());
  EXPECT_FALSE(record.k_new.given);
  EXPECT_FALSE(record.v_new.given);
  EXPECT_EQ(record.cache_seqlens.data, call.cache_seqlens->data());
  EXPECT_FALSE(record.rotary_cos.given);
  EXPECT_FALSE(record.rotary_sin.given);
  EXPECT_FALSE(record.cache_batch_idx.given);
  EXPECT_FALSE(record.leftpad_k.given);
  EXPECT_FALSE(record.block_table.given);
  EXPECT_FALSE(record.alibi_slopes.given);
  EXPECT_EQ(record.out.data, call.out.data());
  EXPECT_EQ(record.softmax_scale, 0.25F);  // 1 / sqrt(16)
  EXPECT_FALSE(record.causal);
  EXPECT_EQ(record.window_left, -1);
  EXPECT_EQ(record.window_right, -1);
  EXPECT_EQ(record.softcap, 0.0F);
  EXPECT_FALSE(record.rotary_interleaved);
  EXPECT_EQ(record.num_splits, 0);
  EXPECT_TRUE(record.inference_mode);
  EXPECT_THAT(call.out.halves(), Each(kTwo));
}

TEST(KvcacheCall, PassesWhatTheCallerAsksFor) {
  KvcacheCall call;
  call.k_cache = half_tensor({3, 8, 2, 16});
  call.v_cache = half_tensor({3, 8, 2, 16});
  call.append(2);
  call.rotary_cos = half_tensor({8, 8});
  call.rotary_sin = half_tensor({8, 8});
  call.cache_batch_idx = int_tensor({2, 0});
  call.cache_leftpad = int_tensor({1, 0});
  call.alibi_slopes = float_tensor({4}, 0.5F);
  call.softmax_scale = value(2);
  call.causal = true;
  call.window_size = {5, 0};
  call.softcap = 20.0;
  call.rotary_interleaved = true;
  call.num_splits = 3;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall& record = recorded();
  EXPECT_EQ(record.k_new.data, call.k->data());
  EXPECT_EQ(record.v_new.data, call.v->data());
  EXPECT_EQ(record.rotary_cos.data, call.rotary_cos->data());
  EXPECT_EQ(record.rotary_sin.data, call.rotary_sin->data());
  EXPECT_THAT(record.cache_batch_idx.integers, ElementsAre(2, 0, 0, 0));
  EXPECT_THAT(record.leftpad_k.integers, ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(record.alibi_slopes.data, call.alibi_slopes->data());
  EXPECT_EQ(record.softmax_scale, 2.0F);
  EXPECT_TRUE(record.causal);
  EXPECT_EQ(record.window_left, 5);
  EXPECT_EQ(record.window_right, 0);
  EXPECT_EQ(record.softcap, 20.0F);
  EXPECT_TRUE(record.rotary_interleaved);
  EXPECT_EQ(record.num_splits, 3);
  // The caller's caches, written by the fake.
  EXPECT_THAT(call.k_cache.halves(), Each(0x4200));
  EXPECT_THAT(call.v_cache.halves(), Each(0x4400));
}

TEST(KvcacheCall, PassesPages) {
  const KvcacheCall call = KvcacheCall::paged();
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(recorded().block_table.data, call.block_table->data());
  EXPECT_THAT(recorded().k.shape, ElementsAre(4, 256, 2, 16));
}

TEST(KvcacheCall, TakesAnAbsentLengthForFullCaches) {
  KvcacheCall call;
  call.cache_seqlens.reset();
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_FALSE(recorded().cache_seqlens.given);
}

TEST(KvcacheCall, MakesATensorOfOneLengthForAll) {
  KvcacheCall call;
  call.length = 6;
  call.append(2);
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(recorded().cache_seqlens.rank, 1);
  EXPECT_EQ(recorded().cache_seqlens.shape[0], 2);
  EXPECT_THAT(recorded().cache_seqlens.integers, ElementsAre(6, 6, 0, 0));
}

TEST(KvcacheCall, RefusesALengthThatDoesNotFit) {
  KvcacheCall call;
  call.length = 7;
  call.append(2);
  EXPECT_EQ(
      refusal(call, OPMUX_INVALID_ARGUMENT),
      "flash::mha_fwd_kvcache: argument 7 `cache_seqlens`: expected a length that leaves room "
      "for k in the cache, found 7");
  call = {};
  call.length = 9;
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT), HasSubstr("found 9"));
  call.length = -1;
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT), HasSubstr("found -1"));
}

TEST(KvcacheCall, MakesNoTensorsAgainForTheNextCall) {
  KvcacheCall call;
  call.append(2);
  call.softmax_lse = float_tensor({2, 4, 3});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall first = recorded();
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall& second = recorded();
  ASSERT_NE(first.out.identity, nullptr);
  EXPECT_EQ(second.q.identity, first.q.identity);
  EXPECT_EQ(second.k.identity, first.k.identity);
  EXPECT_EQ(second.v.identity, first.v.identity);
  EXPECT_EQ(second.k_new.identity, first.k_new.identity);
  EXPECT_EQ(second.v_new.identity, first.v_new.identity);
  EXPECT_EQ(second.cache_seqlens.identity, first.cache_seqlens.identity);
  EXPECT_EQ(second.out.identity, first.out.identity);
}

TEST(KvcacheCall, CopiesTheResultOfRegroupedDecode) {
  const KvcacheCall call = KvcacheCall::decode();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    EXPECT_EQ(recorded().q.data, call.q.data());
    EXPECT_THAT(recorded().q.shape, ElementsAre(2, 1, 4, 16));
    EXPECT_FALSE(recorded().out.given);
    EXPECT_THAT(call.out.halves(), Each(kTwo));
  }
}

TEST(KvcacheCall, WritesInPlaceWhereDecodeDoesNotRegroup) {
  KvcacheCall equal_heads = KvcacheCall::decode();
  equal_heads.k_cache = half_tensor({2, 8, 4, 16});
  equal_heads.v_cache = half_tensor({2, 8, 4, 16});
  KvcacheCall window = KvcacheCall::decode();
  window.window_size = {-1, 0};
  KvcacheCall slopes = KvcacheCall::decode();
  slopes.alibi_slopes = float_tensor({4}, 0.5F);
  for (const KvcacheCall* call : {&equal_heads, &window, &slopes}) {
    ASSERT_EQ(call->run(), OPMUX_OK) << take_error();
    EXPECT_EQ(recorded().out.data, call->out.data());
    EXPECT_THAT(call->out.halves(), Each(kTwo));
  }
}

TEST(KvcacheCall, CopiesTheLogSumExpWhereItIsGiven) {
  KvcacheCall call = KvcacheCall::decode();
  call.return_softmax_lse = true;
  call.softmax_lse = float_tensor({2, 4, 1});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_THAT(call.softmax_lse->floats(), ElementsAre(-kInfinity, 1, 2, 3, 4, 5, 6, 7));
  call.return_softmax_lse = false;
  call.softmax_lse = float_tensor({2, 4, 1});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_THAT(call.softmax_lse->floats(), ElementsAre(-kInfinity, 1, 2, 3, 4, 5, 6, 7));
}

TEST(KvcacheCall, CallsNothingWithoutQueries) {
  KvcacheCall no_sequences;
  no_sequences.q = half_tensor({0, 3, 4, 16});
  no_sequences.out = half_tensor({0, 3, 4, 16});
  no_sequences.cache_seqlens = int_tensor(std::vector<std::int32_t>{});
  KvcacheCall no_tokens;
  no_tokens.q = half_tensor({2, 0, 4, 16});
  no_tokens.out = half_tensor({2, 0, 4, 16});
  for (const KvcacheCall* call : {&no_sequences, &no_tokens}) {
    EXPECT_EQ(call->run(), OPMUX_OK) << take_error();
    EXPECT_EQ(recorded().calls, 0);
  }
  no_tokens.append(2);
  EXPECT_EQ(
      refusal(no_tokens, OPMUX_UNSUPPORTED),
      "flash::mha_fwd_kvcache: argument 3 `k`: expected None without queries, found a Tensor");
}

TEST(KvcacheCall, GivesZerosAndMinusInfinityForACacheWithoutSlots) {
  KvcacheCall call;
  call.k_cache = half_tensor({2, 0, 2, 16});
  call.v_cache = half_tensor({2, 0, 2, 16});
  call.out = half_tensor({2, 3, 4, 16}, kOne);
  call.softmax_lse = float_tensor({2, 4, 3});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(recorded().calls, 0);
  EXPECT_THAT(call.out.halves(), Each(0));
  EXPECT_THAT(call.softmax_lse->floats(), Each(-kInfinity));
}

TEST(KvcacheCall, AppendsNothingForNoNewTokens) {
  KvcacheCall call;
  call.append(0);
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_FALSE(recorded().k_new.given);
  EXPECT_FALSE(recorded().v_new.given);
}

TEST(KvcacheCall, TellsWhatFlashAttentionCannotDo) {
  KvcacheCall call = KvcacheCall::paged();
  call.k_cache = half_tensor({4, 16, 2, 16});
  call.v_cache = half_tensor({4, 16, 2, 16});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 1 `k_cache`: expected a page size that is a multiple "
            "of 256, found 16");
  call = KvcacheCall::paged();
  call.cache_batch_idx = int_tensor({0, 1});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 8 `cache_batch_idx`: expected None with a block "
            "table, found a Tensor");
  call = KvcacheCall::paged();
  call.cache_leftpad = int_tensor({0, 1});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 9 `cache_leftpad`: expected None with a block table, "
            "found a Tensor");
  call = {};
  call.num_splits = 129;
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 17 `num_splits`: expected at most 128, found 129");
  call = {};
  call.append(2);
  call.rotary_cos = half_tensor({8, 4});
  call.rotary_sin = half_tensor({8, 4});
  EXPECT_THAT(refusal(call, OPMUX_UNSUPPORTED),
              HasSubstr("`rotary_cos`: expected a multiple of 8, found 4"));
  call.rotary_cos = half_tensor({7, 8});
  call.rotary_sin = half_tensor({7, 8});
  EXPECT_THAT(refusal(call, OPMUX_UNSUPPORTED),
              HasSubstr("`rotary_cos`: expected a row for every slot of the cache, found 7"));
  call = KvcacheCall::decode();  // 4 heads to one head of a cache of 3 slots
  call.k_cache = half_tensor({2, 3, 1, 16});
  call.v_cache = half_tensor({2, 3, 1, 16});
  call.k = half_tensor({2, 1, 1, 16});
  call.v = half_tensor({2, 1, 1, 16});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 1 `k_cache`: expected as many slots as q has tokens, "
            "or heads to each head of the cache, found 3");
}

TEST(KvcacheCall, RefusesGapsWhereFlashAttentionReadsRowsWhole) {
  KvcacheCall call;
  call.cache_seqlens = with_gaps(int_tensor({5, 4}));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 7 `cache_seqlens`: expected a contiguous tensor, "
            "found one with gaps");
  call = {};
  call.cache_batch_idx = with_gaps(int_tensor({1, 0}));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 8 `cache_batch_idx`: expected a contiguous tensor, "
            "found one with gaps");
  call = {};
  call.cache_leftpad = with_gaps(int_tensor({1, 0}));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 9 `cache_leftpad`: expected a contiguous tensor, "
            "found one with gaps");
  call = KvcacheCall::paged();
  call.block_table = with_gaps(int_tensor({2, 2}, 1));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 10 `block_table`: expected rows without gaps, found "
            "rows with gaps");
  call = {};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4}, {2, 4}}) {
    call.alibi_slopes = with_gaps(float_tensor(shape, 0.5F));
    EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
              "flash::mha_fwd_kvcache: argument 11 `alibi_slopes`: expected rows without gaps, "
              "found rows with gaps");
  }
}

TEST(KvcacheCall, RefusesRotaryTablesWithGapsBetweenRows) {
  TestTensor half_of_a_table = half_tensor({8, 16});  // cosines and sines side by side
  half_of_a_table.shape = {8, 8};
  half_of_a_table.strides = {16, 1};
  KvcacheCall call;
  call.append(2);
  call.rotary_cos = half_of_a_table;
  call.rotary_sin = half_tensor({8, 8});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 5 `rotary_cos`: expected a contiguous tensor, found "
            "one with gaps");
  call.rotary_cos = half_tensor({8, 8});
  call.rotary_sin = half_of_a_table;
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 6 `rotary_sin`: expected a contiguous tensor, found "
            "one with gaps");
}

TEST(KvcacheCall, RefusesRotaryTablesWithoutNewTokens) {
  KvcacheCall call;
  call.append(0);
  call.rotary_cos = half_tensor({8, 8});
  call.rotary_sin = half_tensor({8, 8});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_fwd_kvcache: argument 5 `rotary_cos`: expected None without tokens in k, "
            "found a Tensor");
}

TEST(KvcacheCall, RefusesSizesThatAnIntCannotCount) {
  constexpr std::int64_t kTooMany = std::int64_t{1} << 31;
  KvcacheCall call;
  call.q = repeated(half_tensor({1, 3, 4, 16}), kTooMany);
  EXPECT_EQ(
      refusal(call, OPMUX_UNSUPPORTED),
      "flash::mha_fwd_kvcache: argument 0 `q`: expected sizes below 2^31, found a larger one");
  call = {};
  call.k_cache = repeated(half_tensor({1, 8, 2, 16}), kTooMany);
  call.v_cache = repeated(half_tensor({1, 8, 2, 16}), kTooMany);
  EXPECT_EQ(
      refusal(call, OPMUX_UNSUPPORTED),
      "flash::mha_fwd_kvcache: argument 1 `k_cache`: expected sizes below 2^31, found a larger "
      "one");
  call.k_cache.shape[0] = kTooMany - 1;
  call.v_cache.shape[0] = kTooMany - 1;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_THAT(recorded().k.shape, ElementsAre(kTooMany - 1, 8, 2, 16));
}

TEST(KvcacheCall, TellsWhatIsWrongForEveryProvider) {
  KvcacheCall call;
  call.k_cache = half_tensor({1, 8, 2, 16});
  call.v_cache = half_tensor({1, 8, 2, 16});
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_fwd_kvcache: argument 1 `k_cache`: expected a cache for every sequence of "
            "q, found 1");
  call = {};
  call.append(2);
  call.v.reset();
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_fwd_kvcache: argument 4 `v`: expected a Tensor, as the other of k and v is "
            "given, found None");
  call = {};
  call.append(2);
  call.cache_seqlens.reset();
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_fwd_kvcache: argument 7 `cache_seqlens`: expected lengths, as k is given, "
            "found None");
  call = {};
  call.append(9);
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`k`: expected no more tokens than the cache has slots, found 9"));
  call = {};
  call.append(2);
  call.rotary_cos = half_tensor({8, 8});
  EXPECT_THAT(
      refusal(call, OPMUX_INVALID_ARGUMENT),
      HasSubstr("`rotary_sin`: expected a Tensor, as the other of rotary_cos and rotary_sin"));
  call.rotary_cos = half_tensor({8, 16});
  call.rotary_sin = half_tensor({8, 16});
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`rotary_cos`: expected at most half of the head size, found 16"));
  call = {};
  call.rotary_cos = half_tensor({8, 8});
  call.rotary_sin = half_tensor({8, 8});
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_fwd_kvcache: argument 5 `rotary_cos`: expected None without k, found a "
            "Tensor");
  call = {};
  call.return_softmax_lse = true;
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_fwd_kvcache: argument 20 `softmax_lse`: expected a Tensor, as "
            "return_softmax_lse is true, found None");
  call = {};
  call.cache_seqlens = int_tensor({1, 2, 3});
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_fwd_kvcache: argument 7 `cache_seqlens`: expected shape [2], found [3]");
  call = {};
  call.cache_batch_idx = int_tensor({1});
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`cache_batch_idx`: expected shape [2], found [1]"));
  call = KvcacheCall::paged();
  call.block_table = int_tensor({3, 2}, 1);
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`block_table`: expected shape [2, 2], found [3, 2]"));
}

TEST(KvcacheCall, FallsBackFromWhatABuildWasMadeWithout) {
  KvcacheCall call;
  call.softcap = 1.0;
  EXPECT_EQ(call.run(), OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(),
            "flash::mha_fwd_kvcache: This flash attention build does not support softcap.");
}

TEST(KvcacheCall, NeverRepeatsACallThatFailedInFlashAttention) {
  KvcacheCall call;
  call.softcap = -1.0;
  EXPECT_EQ(call.run(), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(),
            "flash::mha_fwd_kvcache: CUDA error: no kernel image is available for execution");
}

}  // namespace
}  // namespace opmux::testing
