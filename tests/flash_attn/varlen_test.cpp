// SPDX-License-Identifier: Apache-2.0
//
// flash_attn_varlen_func: what FlashAttention gets for every argument, where its results end, and
// what is refused before it is called.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/flash_attn/flash_attn_world.hpp"

namespace opmux::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One token in each of 2 sequences.
VarlenCall decode() {
  VarlenCall call;
  call.q = half_tensor({2, 4, 16});
  call.out = half_tensor({2, 4, 16}, 0);
  call.cu_seqlens_q = int_tensor({0, 1, 2});
  call.max_seqlen_q = value(1);
  return call;
}

std::string refusal(const VarlenCall& call, OpmuxStatus status) {
  EXPECT_EQ(call.run(), status);
  EXPECT_EQ(recorded().calls, 0);
  return take_error();
}

TEST(VarlenCall, PassesEveryArgumentAndWritesInPlace) {
  const VarlenCall call;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall& record = recorded();
  EXPECT_EQ(record.calls, 1);
  EXPECT_EQ(record.q.data, call.q.data());
  EXPECT_THAT(record.q.shape, ElementsAre(5, 4, 16, 0));
  EXPECT_EQ(record.k.data, call.k.data());
  EXPECT_EQ(record.v.data, call.v.data());
  EXPECT_EQ(record.out.data, call.out.data());
  EXPECT_THAT(record.cu_seqlens_q.integers, ElementsAre(0, 3, 5, 0));
  EXPECT_THAT(record.cu_seqlens_k.integers, ElementsAre(0, 4, 6, 0));
  EXPECT_FALSE(record.seqused_k.given);
  EXPECT_FALSE(record.leftpad_k.given);
  EXPECT_FALSE(record.block_table.given);
  EXPECT_FALSE(record.alibi_slopes.given);
  EXPECT_EQ(record.max_seqlen_q, 3);
  EXPECT_EQ(record.max_seqlen_k, 4);
  EXPECT_EQ(record.p_dropout, 0.0F);
  EXPECT_EQ(record.softmax_scale, 0.25F);  // 1 / sqrt(16)
  EXPECT_FALSE(record.zero_tensors);
  EXPECT_FALSE(record.causal);
  EXPECT_EQ(record.window_left, -1);
  EXPECT_EQ(record.window_right, -1);
  EXPECT_EQ(record.softcap, 0.0F);
  EXPECT_FALSE(record.return_softmax);
  EXPECT_FALSE(record.generator);
  EXPECT_TRUE(record.inference_mode);
  EXPECT_THAT(call.out.halves(), Each(kTwo));
}

TEST(VarlenCall, PassesWhatTheCallerAsksFor) {
  VarlenCall call;
  call.k = half_tensor({3, 256, 2, 16});
  call.v = half_tensor({3, 256, 2, 16});
  call.block_table = int_tensor({2, 2}, 1);
  call.alibi_slopes = float_tensor({2, 4}, 0.5F);
  call.softmax_scale = value(0.125);
  call.causal = true;
  call.window_size = {7, std::int64_t{1} << 40};
  call.softcap = 30.0;
  call.deterministic = true;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall& record = recorded();
  EXPECT_EQ(record.block_table.data, call.block_table->data());
  EXPECT_EQ(record.alibi_slopes.data, call.alibi_slopes->data());
  EXPECT_EQ(record.softmax_scale, 0.125F);
  EXPECT_TRUE(record.causal);
  EXPECT_EQ(record.window_left, 7);
  EXPECT_EQ(record.window_right, std::numeric_limits<int>::max());
  EXPECT_EQ(record.softcap, 30.0F);
}

TEST(VarlenCall, ReadsStridedQueriesKeysAndValues) {
  // Fused projections: q, k and v of a row lie side by side.
  VarlenCall call;
  call.q = half_tensor({5, 8, 16});
  call.q.shape = {5, 4, 16};
  call.q.strides = {128, 16, 1};
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(recorded().q.data, call.q.data());
  EXPECT_THAT(recorded().q.strides, ElementsAre(128, 16, 1, 0));
}

TEST(VarlenCall, MakesNoTensorsAgainForTheNextCall) {
  VarlenCall call;
  call.softmax_lse = float_tensor({4, 5});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall first = recorded();
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  const fakes::RecordedCall& second = recorded();
  ASSERT_NE(first.out.identity, nullptr);
  EXPECT_EQ(second.q.identity, first.q.identity);
  EXPECT_EQ(second.k.identity, first.k.identity);
  EXPECT_EQ(second.v.identity, first.v.identity);
  EXPECT_EQ(second.cu_seqlens_q.identity, first.cu_seqlens_q.identity);
  EXPECT_EQ(second.cu_seqlens_k.identity, first.cu_seqlens_k.identity);
  EXPECT_EQ(second.out.identity, first.out.identity);
}

TEST(VarlenCall, CopiesTheResultOfRegroupedDecode) {
  const VarlenCall call = decode();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    // FlashAttention pointed its q elsewhere; the caller's is as it was.
    EXPECT_EQ(recorded().q.data, call.q.data());
    EXPECT_THAT(recorded().q.shape, ElementsAre(2, 4, 16, 0));
    EXPECT_EQ(recorded().max_seqlen_q, 1);
    EXPECT_FALSE(recorded().out.given);
    EXPECT_THAT(call.out.halves(), Each(kTwo));
    EXPECT_THAT(call.q.halves(), Each(kOne));
  }
}

TEST(VarlenCall, WritesInPlaceWhereDecodeDoesNotRegroup) {
  VarlenCall equal_heads = decode();
  equal_heads.k = half_tensor({6, 4, 16});
  equal_heads.v = half_tensor({6, 4, 16});
  VarlenCall one_head = decode();  // regrouped, but a view of the caller's memory
  one_head.k = half_tensor({6, 1, 16});
  one_head.v = half_tensor({6, 1, 16});
  VarlenCall window = decode();
  window.window_size = {2, 0};
  VarlenCall slopes = decode();
  slopes.alibi_slopes = float_tensor({4}, 0.5F);
  for (const VarlenCall* call : {&equal_heads, &one_head, &window, &slopes}) {
    ASSERT_EQ(call->run(), OPMUX_OK) << take_error();
    EXPECT_EQ(recorded().out.data, call->out.data());
    EXPECT_EQ(recorded().max_seqlen_q, 1);
    EXPECT_THAT(call->out.halves(), Each(kTwo));
  }
}

TEST(VarlenCall, KeepsDecodeWithAnEmptySequenceFromRegrouping) {
  VarlenCall call = decode();
  call.cu_seqlens_q = int_tensor({0, 1, 1, 2});
  call.cu_seqlens_k = int_tensor({0, 2, 4, 6});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(recorded().max_seqlen_q, 2);
  EXPECT_EQ(recorded().out.data, call.out.data());
  EXPECT_THAT(call.out.halves(), Each(kTwo));
}

TEST(VarlenCall, CopiesIntoAnOutThatFlashAttentionCannotWrite) {
  VarlenCall call;
  call.out = half_tensor({5, 4, 32}, 0);
  call.out.shape = {5, 4, 16};
  call.out.strides = {128, 32, 2};
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_FALSE(recorded().out.given);
  call.out.strides.clear();
  call.out.shape = {5, 4, 32};
  const std::vector<std::uint16_t> halves = call.out.halves();
  for (std::size_t at = 0; at < halves.size(); ++at) {
    EXPECT_EQ(halves[at], at % 2 == 0 ? kTwo : 0) << at;
  }
  // Misaligned.
  VarlenCall shifted;
  shifted.out = half_tensor({6, 4, 16}, 0);
  shifted.out.shape = {5, 4, 16};
  shifted.out.offset = 2;
  ASSERT_EQ(shifted.run(), OPMUX_OK) << take_error();
  EXPECT_FALSE(recorded().out.given);
  EXPECT_THAT(shifted.out.halves(), Each(kTwo));
}

TEST(VarlenCall, CopiesTheLogSumExpWithMinusInfinityForRowsWithoutKeys) {
  VarlenCall call;
  call.softmax_lse = float_tensor({4, 5});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  std::vector<float> expected(20);
  for (std::size_t at = 0; at < expected.size(); ++at) {
    expected[at] = static_cast<float>(at);
  }
  expected[0] = -kInfinity;
  EXPECT_THAT(call.softmax_lse->floats(), ElementsAreArray(expected));
}

TEST(VarlenCall, CallsNothingWhereNoRowBelongsToASequence) {
  VarlenCall no_rows;
  no_rows.q = half_tensor({0, 4, 16});
  no_rows.out = half_tensor({0, 4, 16});
  no_rows.cu_seqlens_q = int_tensor({0, 0, 0});
  no_rows.softmax_lse = float_tensor({4, 0});
  no_rows.max_seqlen_q = value(0);
  VarlenCall no_sequences = no_rows;
  no_sequences.cu_seqlens_q = int_tensor({0});
  no_sequences.cu_seqlens_k = int_tensor({0});
  VarlenCall padding;  // rows that no sequence claims are left as they are
  padding.max_seqlen_q = value(0);
  for (const VarlenCall* call : {&no_rows, &no_sequences, &padding}) {
    EXPECT_EQ(call->run(), OPMUX_OK) << take_error();
    EXPECT_EQ(recorded().calls, 0);
  }
  EXPECT_THAT(padding.out.halves(), Each(0));
}

TEST(VarlenCall, GivesZerosAndMinusInfinityForNoKeys) {
  VarlenCall call;
  call.k = half_tensor({0, 2, 16});
  call.v = half_tensor({0, 2, 16});
  call.cu_seqlens_k = int_tensor({0, 0, 0});
  call.max_seqlen_k = value(0);
  call.out = half_tensor({5, 4, 16}, kOne);
  call.softmax_lse = float_tensor({4, 5});
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(recorded().calls, 0);
  EXPECT_THAT(call.out.halves(), Each(0));
  EXPECT_THAT(call.softmax_lse->floats(), Each(-kInfinity));
}

TEST(VarlenCall, TellsWhatFlashAttentionCannotDo) {
  VarlenCall call;
  call.dropout_p = value(0.1);
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 9 `dropout_p`: expected 0, found another number");
  call = {};
  call.return_attn_probs = true;
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 15 `return_attn_probs`: expected false, found true");
  call = {};
  call.s_dmask = half_tensor({1});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 18 `s_dmask`: expected None, found a Tensor");
  call = {};
  call.q = float_tensor({5, 4, 16});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 0 `q`: expected float16 or bfloat16, found Float");
  call = {};
  call.k.dtype = DType::kBFloat16;
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 1 `k`: expected Half as q has, found BFloat16");
  call = {};
  call.q = half_tensor({5, 4, 12});
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 0 `q`: expected a head size up to 256 that is a "
            "multiple of 8, found 12");
  call = {};
  call.q = half_tensor({5, 4, 264});
  EXPECT_THAT(refusal(call, OPMUX_UNSUPPORTED), HasSubstr("found 264"));
  call = {};
  call.cu_seqlens_q.dtype = DType::kInt64;
  call.cu_seqlens_q.memory.resize(8);
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 3 `cu_seqlens_q`: expected int32, found Long");
  call = {};
  call.q.offset = 2;
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 0 `q`: expected rows without gaps that begin at "
            "multiples of 16 bytes, found others");
  call = {};
  call.v.strides = {68, 17, 1};
  call.v.memory.resize(256);
  EXPECT_THAT(refusal(call, OPMUX_UNSUPPORTED), HasSubstr("argument 2 `v`: expected rows"));
  call = {};
  call.k = half_tensor({3, 128, 2, 16});
  call.v = half_tensor({3, 128, 2, 16});
  call.block_table = int_tensor({2, 2}, 1);
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 1 `k`: expected a page size that is a multiple of "
            "256, found 128");
  call = {};
  call.alibi_slopes = half_tensor({4});
  EXPECT_THAT(refusal(call, OPMUX_UNSUPPORTED),
              HasSubstr("`alibi_slopes`: expected float32, found Half"));
  call = {};
  call.softmax_lse = half_tensor({4, 5});
  EXPECT_THAT(refusal(call, OPMUX_UNSUPPORTED),
              HasSubstr("`softmax_lse`: expected float32, found Half"));
}

TEST(VarlenCall, RefusesGapsWhereFlashAttentionReadsRowsWhole) {
  VarlenCall call;
  call.cu_seqlens_q = with_gaps(int_tensor({0, 3, 5}));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 3 `cu_seqlens_q`: expected a contiguous tensor, found "
            "one with gaps");
  call = {};
  call.cu_seqlens_k = with_gaps(int_tensor({0, 4, 6}));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 4 `cu_seqlens_k`: expected a contiguous tensor, found "
            "one with gaps");
  call = {};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4}, {2, 4}}) {
    call.alibi_slopes = with_gaps(float_tensor(shape, 0.5F));
    EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
              "flash::mha_varlen_fwd: argument 5 `alibi_slopes`: expected rows without gaps, found "
              "rows with gaps");
  }
  call = {};
  call.k = half_tensor({3, 256, 2, 16});
  call.v = half_tensor({3, 256, 2, 16});
  call.block_table = with_gaps(int_tensor({2, 2}, 1));
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 6 `block_table`: expected rows without gaps, found "
            "rows with gaps");
}

TEST(VarlenCall, RefusesSizesThatAnIntCannotCount) {
  constexpr std::int64_t kTooMany = std::int64_t{1} << 31;
  VarlenCall call;
  call.q = repeated(half_tensor({1, 4, 16}), kTooMany);
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 0 `q`: expected sizes below 2^31, found a larger one");
  call = {};
  call.k = repeated(half_tensor({1, 2, 16}), kTooMany);
  call.v = repeated(half_tensor({1, 2, 16}), kTooMany);
  EXPECT_EQ(refusal(call, OPMUX_UNSUPPORTED),
            "flash::mha_varlen_fwd: argument 1 `k`: expected sizes below 2^31, found a larger one");
  call.k.shape[0] = kTooMany - 1;
  call.v.shape[0] = kTooMany - 1;
  ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
  EXPECT_THAT(recorded().k.shape, ElementsAre(kTooMany - 1, 2, 16, 0));
}

TEST(VarlenCall, TellsWhatIsWrongForEveryProvider) {
  VarlenCall call;
  call.window_size = {-1, -1, -1};
  EXPECT_EQ(
      refusal(call, OPMUX_INVALID_ARGUMENT),
      "flash::mha_varlen_fwd: argument 12 `window_size`: expected int[] of 2, found int[] of 3");
  call = {};
  call.k = half_tensor({6, 3, 16});
  call.v = half_tensor({6, 3, 16});
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_varlen_fwd: argument 1 `k`: expected a number of heads that divides q's, "
            "found 3");
  call = {};
  call.k = half_tensor({6, 0, 16});
  call.v = half_tensor({6, 0, 16});
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT), HasSubstr("divides q's, found 0"));
  call = {};
  call.v = half_tensor({5, 2, 16});
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_varlen_fwd: argument 2 `v`: expected shape [6, 2, 16], found [5, 2, 16]");
  call = {};
  call.cu_seqlens_k = int_tensor({0, 6});
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_varlen_fwd: argument 4 `cu_seqlens_k`: expected shape [3], found [2]");
  call = {};
  call.out = half_tensor({5, 2, 16});
  EXPECT_EQ(
      refusal(call, OPMUX_INVALID_ARGUMENT),
      "flash::mha_varlen_fwd: argument 16 `out`: expected shape [5, 4, 16], found [5, 2, 16]");
  call = {};
  call.softmax_lse = float_tensor({5, 4});
  EXPECT_EQ(
      refusal(call, OPMUX_INVALID_ARGUMENT),
      "flash::mha_varlen_fwd: argument 17 `softmax_lse`: expected shape [4, 5], found [5, 4]");
  call = {};
  call.block_table = int_tensor({2, 2}, 1);
  EXPECT_EQ(refusal(call, OPMUX_INVALID_ARGUMENT),
            "flash::mha_varlen_fwd: argument 1 `k`: expected 4 dimensions, found [6, 2, 16]");
  call = {};
  call.max_seqlen_k = value(std::int64_t{1} << 31);
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`max_seqlen_k`: expected an int of 32 bits, found 2147483648"));
  call = {};
  call.max_seqlen_q = value(-1);
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`max_seqlen_q`: expected at least 0, found -1"));
  call = {};
  call.max_seqlen_q = none();
  EXPECT_THAT(refusal(call, OPMUX_INVALID_ARGUMENT),
              HasSubstr("`max_seqlen_q`: expected int, found None"));
}

TEST(VarlenCall, FallsBackFromWhatABuildWasMadeWithout) {
  VarlenCall call;
  call.softcap = 1.0;
  EXPECT_EQ(call.run(), OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(),
            "flash::mha_varlen_fwd: This flash attention build does not support softcap.");
}

TEST(VarlenCall, NeverRepeatsACallThatFailedInFlashAttention) {
  VarlenCall call;
  call.softcap = -1.0;
  EXPECT_EQ(call.run(), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(),
            "flash::mha_varlen_fwd: CUDA error: no kernel image is available for execution");
  call.softcap = -2.0;
  EXPECT_EQ(call.run(), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(take_error(), "flash::mha_varlen_fwd: expected out and softmax_lse, found 0 results");
}

}  // namespace
}  // namespace opmux::testing
