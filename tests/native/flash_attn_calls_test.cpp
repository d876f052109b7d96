// SPDX-License-Identifier: Apache-2.0
//
// What FlashAttention calls have in common whatever their numbers: overloads, aliases, threads,
// memory.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/attention_calls.hpp"

namespace opmux::test {
namespace {

TEST(FlashAttn, OneLengthForAllIsTheSameAsATensorOfIt) {
  std::vector<unsigned char> first;
  for (const bool one : {false, true}) {
    CacheCall call;
    call.q = noisy(Type::kBFloat16, {3, 2, 4, 64}, 1);
    call.k = noisy(Type::kBFloat16, {3, 20, 2, 64}, 2);
    call.v = noisy(Type::kBFloat16, {3, 20, 2, 64}, 3);
    call.out = tensor(Type::kBFloat16, {3, 2, 4, 64});
    call.causal = true;
    if (one) {
      call.length = 13;
    } else {
      call.lengths = indices({13, 13, 13});
    }
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    if (first.empty()) first = call.out->bytes();
    EXPECT_EQ(call.out->bytes(), first);
  }
}

TEST(FlashAttn, SlopesMayDifferBySequence) {
  std::vector<std::vector<double>> outs;
  for (const int64_t variant : {0, 1, 2}) {
    CacheCall call;
    call.q = noisy(Type::kFloat32, {2, 1, 4, 32}, 1);
    call.k = noisy(Type::kFloat32, {2, 30, 4, 32}, 2);
    call.v = noisy(Type::kFloat32, {2, 30, 4, 32}, 3);
    call.out = tensor(Type::kFloat32, {2, 1, 4, 32});
    call.slopes = variant == 2 ? tensor(Type::kFloat32, {2, 4}) : tensor(Type::kFloat32, {4});
    call.slopes->fill([&](int64_t i) {
      return (1.0 + static_cast<double>(i % 4)) * (variant == 1 || i >= 4 ? 0.5 : 1.0);
    });
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    outs.push_back(call.out->values());
  }
  EXPECT_NE(outs[0], outs[1]);
  std::vector<double> both(outs[0].begin(), outs[0].begin() + 128);
  both.insert(both.end(), outs[1].begin() + 128, outs[1].end());
  EXPECT_EQ(outs[2], both);
}

// Tensors without elements may have no memory, and strides of their own.
TEST(FlashAttn, NothingToDoNeedsNoMemory) {
  CacheCall call;
  call.q = tensor(Type::kFloat32, {2, 0, 4, 32});
  call.k = tensor(Type::kFloat32, {2, 0, 4, 32});
  call.v = tensor(Type::kFloat32, {2, 0, 4, 32});
  call.out = tensor(Type::kFloat32, {2, 0, 4, 32});
  int64_t strides[] = {4096, 128, 32, 1};
  for (TestTensor* each : {call.q.get(), call.k.get(), call.v.get(), call.out.get()}) {
    each->view()->data = nullptr;
    each->view()->strides = strides;
  }
  EXPECT_EQ(call.run(), OPMUX_OK) << take_error();
}

TEST(FlashAttn, WithoutLengthsTheWholeCacheIsSeen) {
  std::vector<unsigned char> first;
  for (const bool given : {false, true}) {
    CacheCall call;
    call.q = noisy(Type::kFloat32, {2, 1, 4, 32}, 1);
    call.k = noisy(Type::kFloat32, {6, 4, 2, 32}, 2);
    call.v = noisy(Type::kFloat32, {6, 4, 2, 32}, 3);
    call.blocks = table({{5, 1, 0}, {2, 4, 3}});
    call.out = tensor(Type::kFloat32, {2, 1, 4, 32});
    if (given) call.lengths = indices({12, 12}, Type::kInt64);
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    if (first.empty()) first = call.out->bytes();
    EXPECT_EQ(call.out->bytes(), first);
  }
}

// Rows that see different keys of one block, next to a key that only the later ones see.
TEST(FlashAttn, WhatAQueryDoesNotSeeCannotSpoilIt) {
  for (const native::KernelTable* target : targets()) {
    for (const double poison : {std::nan(""), HUGE_VAL}) {
      VarlenCall call;
      call.q = noisy(Type::kFloat32, {6, 2, 64}, 1);
      call.k = noisy(Type::kFloat32, {6, 1, 64}, 2);
      call.v = noisy(Type::kFloat32, {6, 1, 64}, 3);
      for (int64_t i = 5 * 64; i < 6 * 64; ++i) {
        call.k->set(i, poison);
        call.v->set(i, poison);
      }
      call.out = tensor(Type::kFloat32, {6, 2, 64});
      call.cu_q = indices({0, 6});
      call.cu_k = indices({0, 6});
      call.causal = true;
      ASSERT_EQ(run_on(target, "flash_attn_varlen_func", call.values()), OPMUX_OK);
      for (int64_t i = 0; i < 5 * 2 * 64; ++i) ASSERT_TRUE(std::isfinite(call.out->at(i))) << i;
      for (int64_t i = 5 * 2 * 64; i < 6 * 2 * 64; ++i) ASSERT_TRUE(std::isnan(call.out->at(i)));
    }
  }
}

TEST(FlashAttn, OutMayBeTheQueries) {
  VarlenCall call;
  call.q = noisy(Type::kFloat16, {50, 4, 64}, 1);
  call.k = noisy(Type::kFloat16, {700, 2, 64}, 2);
  call.v = noisy(Type::kFloat16, {700, 2, 64}, 3);
  call.out = tensor(Type::kFloat16, {50, 4, 64});
  call.cu_q = indices({0, 30, 50});
  call.cu_k = indices({0, 60, 700});
  call.causal = true;
  ASSERT_EQ(call.run(threaded_host()), OPMUX_OK) << take_error();
  Values values = call.values();
  values[16] = value(*call.q);
  ASSERT_EQ(run("flash_attn_varlen_func", values, threaded_host()), OPMUX_OK);
  EXPECT_EQ(call.q->bytes(), call.out->bytes());
}

// Sixteen sequences, and one that is so long that its keys are split.
TEST(FlashAttn, ManyThreadsGiveTheSameBytesAsOne) {
  std::vector<unsigned char> out;
  std::vector<unsigned char> cache;
  for (const OpmuxHost* host : {serial_host(), threaded_host()}) {
    CacheCall call;
    std::vector<int64_t> lengths(16, 40);
    lengths[3] = 1400;
    call.q = noisy(Type::kBFloat16, {16, 2, 8, 64}, 1);
    call.k = noisy(Type::kBFloat16, {16, 1402, 2, 64}, 2);
    call.v = noisy(Type::kBFloat16, {16, 1402, 2, 64}, 3);
    call.new_k = noisy(Type::kBFloat16, {16, 2, 2, 64}, 4);
    call.new_v = noisy(Type::kBFloat16, {16, 2, 2, 64}, 5);
    call.lengths = indices(lengths);
    call.causal = true;
    call.out = tensor(Type::kBFloat16, {16, 2, 8, 64});
    take_parallel_calls();
    ASSERT_EQ(call.run(host), OPMUX_OK) << take_error();
    EXPECT_EQ(take_parallel_calls(), 2);  // attending and joining
    if (out.empty()) {
      out = call.out->bytes();
      cache = call.k->bytes();
    }
    EXPECT_EQ(call.out->bytes(), out);
    EXPECT_EQ(call.k->bytes(), cache);
  }
}

TEST(FlashAttn, NoMemoryIsAnErrorBeforeAnythingIsWritten) {
  CacheCall call;
  call.q = noisy(Type::kFloat32, {1, 1, 2, 64}, 1);
  call.k = noisy(Type::kFloat32, {1, 8, 2, 64}, 2);
  call.v = noisy(Type::kFloat32, {1, 8, 2, 64}, 3);
  call.new_k = noisy(Type::kFloat32, {1, 1, 2, 64}, 4);
  call.new_v = noisy(Type::kFloat32, {1, 1, 2, 64}, 5);
  call.lengths = indices({3});
  call.out = tensor(Type::kFloat32, {1, 1, 2, 64});
  const std::vector<unsigned char> before = call.k->bytes();
  EXPECT_EQ(call.run(poor_host()), OPMUX_ERROR_BEFORE_LAUNCH);
  EXPECT_EQ(take_error(), "workspace: expected 120 bytes, the host has none left");
  EXPECT_EQ(call.k->bytes(), before);
  EXPECT_TRUE(call.out->untouched());
}

}  // namespace
}  // namespace opmux::test
