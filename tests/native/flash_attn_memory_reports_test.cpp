// SPDX-License-Identifier: Apache-2.0
//
// Failures that people reported of attention kernels about memory: offsets, layouts, tables; each
// with its number, and the right outcome.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>

#include "tests/native/attention_calls.hpp"
#include "tests/native/attention_means.hpp"

namespace opmux::test {
namespace {

// Memory that is only there where it is touched.
class Sparse {
 public:
  explicit Sparse(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) data_ = static_cast<char*>(memory);
  }
  ~Sparse() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_ = nullptr;
};

TEST(Attention, C21_block_offsets_go_beyond_31_bits) {
  // Keys and values of a page lie one after the other.
  constexpr int64_t kHalf = int64_t{16} * 8 * 128;
  constexpr int64_t kPage = 2 * kHalf;
  const Sparse memory(static_cast<size_t>(kPage) * 65537 * 2);
  ASSERT_NE(memory.data(), nullptr);
  const uint16_t value_bits = encode16(Type::kFloat16, 0.75);
  for (const int64_t block : {65535, 65536}) {
    for (int64_t i = 0; i < kHalf; ++i) {
      std::memcpy(memory.data() + (block * kPage + kHalf + i) * 2, &value_bits, 2);
    }
  }
  for (const int64_t block : {65535, 65536}) {
    CacheCall call;
    call.q = noisy(Type::kFloat16, {1, 1, 8, 128}, 1);
    call.k = tensor(Type::kFloat16, {1, 16, 8, 128});
    call.v = tensor(Type::kFloat16, {1, 16, 8, 128});
    call.out = tensor(Type::kFloat16, {1, 1, 8, 128});
    call.blocks = table({{block}});
    call.length = 16;
    int64_t strides[] = {kPage, 8 * 128, 128, 1};
    int64_t shape[] = {65537, 16, 8, 128};
    for (TestTensor* cache : {call.k.get(), call.v.get()}) {
      OpmuxTensor& view = *cache->view();
      view.data = memory.data();
      view.shape = shape;
      view.strides = strides;
      view.byte_offset = cache == call.v.get() ? kHalf * 2 : 0;
    }
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    for (int64_t i = 0; i < call.out->count(); ++i) ASSERT_EQ(call.out->at(i), 0.75) << block;
  }
}

TEST(Attention, C22_every_page_size_gives_the_same_and_none_is_an_error) {
  std::vector<unsigned char> first;
  for (const int64_t page : {16, 128, 256, 512, 768}) {
    const int64_t columns = (300 + page - 1) / page;
    std::vector<int64_t> row;
    for (int64_t i = 0; i < columns; ++i) row.push_back(columns - i);
    CacheCall call;
    call.q = noisy(Type::kFloat32, {1, 1, 4, 32}, 1);
    call.k = tensor(Type::kFloat32, {columns + 1, page, 2, 32});
    call.v = tensor(Type::kFloat32, {columns + 1, page, 2, 32});
    call.blocks = table({row});
    for (int64_t i = 0; i < 300 * 64; ++i) {
      const int64_t slot = i / 64;
      const int64_t at = (row[static_cast<size_t>(slot / page)] * page + slot % page) * 64 + i % 64;
      call.k->set(at, noise(i, 2));
      call.v->set(at, noise(i, 3));
    }
    call.out = tensor(Type::kFloat32, {1, 1, 4, 32});
    call.lengths = indices({300});
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    if (first.empty()) first = call.out->bytes();
    EXPECT_EQ(call.out->bytes(), first) << page;
  }
  CacheCall call = cache_means({});
  call.blocks = table({{0}});
  EXPECT_EQ(call.run(), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`k_cache`: expected pages of at least 1 token, found 0");
}

TEST(Attention, C42_only_the_elements_of_out_are_written_in_any_layout) {
  // 1400 keys: the walk over them is split and joined.
  for (const int64_t keys : {20, 1400}) {
    std::vector<double> first;
    const Layout layouts[] = {{{}, 0},
                              {{4 * 3 * 24, 24, 3 * 24, 1}, 2},  // [batch, heads, queries, head]
                              {{1000, 300, 40, 1}, 6},           // padded rows
                              {{4 * 3 * 48, 4 * 48, 48, 2}, 0}};
    for (const Layout& layout : layouts) {
      CacheCall call;
      call.q = noisy(Type::kFloat16, {2, 3, 4, 24}, 1);
      call.k = noisy(Type::kFloat16, {2, keys, 2, 24}, 2);
      call.v = noisy(Type::kFloat16, {2, keys, 2, 24}, 3);
      call.out = tensor(Type::kFloat16, {2, 3, 4, 24}, layout);
      call.lse = tensor(Type::kFloat32, {2, 4, 3}, {{40, 1, 9}, 4});
      call.causal = true;
      ASSERT_EQ(call.run(threaded_host()), OPMUX_OK) << take_error();
      EXPECT_TRUE(call.out->guards_hold());
      EXPECT_TRUE(call.lse->guards_hold());
      if (first.empty()) first = call.out->values();
      EXPECT_EQ(call.out->values(), first);
    }
  }
}

TEST(Attention, C42_inputs_may_have_any_strides) {
  std::vector<double> first;
  for (const bool strided : {false, true}) {
    const auto layout = [&](const Layout& wanted) { return strided ? wanted : Layout{}; };
    CacheCall call;
    call.q = noisy(Type::kBFloat16, {2, 2, 4, 32}, 1, 1.0, layout({{500, 2, 100, 3}, 1}));
    call.k = noisy(Type::kBFloat16, {3, 8, 2, 32}, 2, 1.0, layout({{32, 200, 100, 1}, 3}));
    call.v = noisy(Type::kBFloat16, {3, 8, 2, 32}, 3, 1.0, layout({{2000, 64, 1, 2}, 0}));
    call.new_k = noisy(Type::kBFloat16, {2, 2, 2, 32}, 4, 1.0, layout({{1, 2, 4, 8}, 0}));
    call.new_v = noisy(Type::kBFloat16, {2, 2, 2, 32}, 5, 1.0, layout({{400, 32, 100, 1}, 0}));
    call.cos = noisy(Type::kFloat32, {40, 5}, 6, 1.0, layout({{1, 40}, 2}));
    call.sin = noisy(Type::kFloat32, {40, 5}, 7, 1.0, layout({{9, 1}, 1}));
    call.lengths = indices({9, 14});
    call.blocks = table({{2, 0}, {0, 1}});
    call.out = tensor(Type::kBFloat16, {2, 2, 4, 32});
    call.causal = true;
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    EXPECT_TRUE(call.k->guards_hold());
    EXPECT_TRUE(call.v->guards_hold());
    std::vector<double> found = call.out->values();
    for (const double x : call.k->values()) found.push_back(x);
    for (const double x : call.v->values()) found.push_back(x);
    if (first.empty()) first = found;
    EXPECT_EQ(found, first);
  }
}

TEST(Attention, C43_offsets_and_lengths_may_have_64_bits_and_must_make_sense) {
  VarlenCall narrow = means(4, 6);
  ASSERT_EQ(narrow.run(), OPMUX_OK) << take_error();
  VarlenCall wide = means(4, 6);
  wide.cu_q = indices({0, 4}, Type::kInt64);
  wide.cu_k = indices({0, 6}, Type::kInt64);
  ASSERT_EQ(wide.run(), OPMUX_OK) << take_error();
  EXPECT_EQ(wide.out->bytes(), narrow.out->bytes());

  const auto expect = [](std::vector<int64_t> q, std::vector<int64_t> k, const std::string& error) {
    VarlenCall call = means(4, 6);
    call.cu_q = indices(std::move(q));
    call.cu_k = indices(std::move(k));
    EXPECT_EQ(call.run(), OPMUX_INVALID_ARGUMENT) << error;
    EXPECT_EQ(take_error(), error);
    EXPECT_TRUE(call.out->untouched());
  };
  expect({1, 4}, {0, 6}, "`cu_seqlens_q`: expected 0 at index 0, found 1");
  expect({0, 4}, {-1, 6}, "`cu_seqlens_k`: expected 0 at index 0, found -1");
  expect({0, 3, 2}, {0, 3, 6},
         "`cu_seqlens_q`: expected at least 3, the offset before, found 2 at index 2");
  expect({0, 2, 4}, {0, 5, 3},
         "`cu_seqlens_k`: expected at least 5, the offset before, found 3 at index 2");
  expect({0, 2, 5}, {0, 3, 6},
         "`cu_seqlens_q`: expected at most 4, the rows of `q`, found 5 at index 2");
  expect({0, 4}, {0, 7}, "`cu_seqlens_k`: expected at most 6, the rows of `k`, found 7 at index 1");
  expect({0, 4}, {0, 3, 6}, "`cu_seqlens_k`: expected shape [2], found [3]");
  VarlenCall real = means(4, 6);
  real.cu_q = tensor(Type::kFloat32, {2});
  EXPECT_EQ(real.run(), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`cu_seqlens_q`: expected dtype int32 or int64, found float32");
}

TEST(Attention, C44_rows_after_the_last_offset_are_left_alone) {
  for (const Type type : kFloatTypes) {
    VarlenCall call;
    call.q = noisy(type, {24, 2, 16}, 1);
    call.k = noisy(type, {24, 2, 16}, 2);
    call.v = noisy(type, {24, 2, 16}, 3);
    for (int64_t i = 21 * 32; i < 24 * 32; ++i) {
      for (TestTensor* input : {call.q.get(), call.k.get(), call.v.get()}) input->set(i, kNan);
    }
    call.out = tensor(type, {24, 2, 16});
    call.out->fill([](int64_t) { return 7.0; });
    call.lse = tensor(Type::kFloat32, {2, 24});
    call.lse->fill([](int64_t) { return 7.0; });
    call.cu_q = indices({0, 21});
    call.cu_k = indices({0, 21});
    ASSERT_EQ(call.run(), OPMUX_OK) << take_error();
    for (int64_t i = 0; i < 21 * 32; ++i) ASSERT_LT(std::abs(call.out->at(i)), 1.0) << i;
    for (int64_t i = 21 * 32; i < 24 * 32; ++i) ASSERT_EQ(call.out->at(i), 7.0) << i;
    for (int64_t i = 0; i < 48; ++i) ASSERT_EQ(call.lse->at(i) == 7.0, i % 24 >= 21) << i;
  }
}

CacheCall paged(std::vector<int64_t> blocks, int64_t length) {
  CacheCall call = cache_means(std::vector<double>(512, 1.0));
  for (TestTensor* cache : {call.k.get(), call.v.get()}) {
    OpmuxTensor& view = *cache->view();
    view.shape[0] = 2;
    view.shape[1] = 256;
  }
  call.blocks = table({std::move(blocks)});
  call.lengths = indices({length});
  return call;
}

TEST(Attention, C45_block_tables_are_checked_where_they_are_needed) {
  const auto expect = [](CacheCall call, const std::string& error) {
    const std::vector<unsigned char> before = call.k->bytes();
    EXPECT_EQ(call.run(), OPMUX_INVALID_ARGUMENT) << error;
    EXPECT_EQ(take_error(), error);
    EXPECT_TRUE(call.out->untouched());
    EXPECT_EQ(call.k->bytes(), before);
  };
  expect(paged({1}, 257),
         "`cache_seqlens`: expected lengths from 0 to 256, the 256 tokens of the cache less 0 "
         "appended, found 257 in sequence 0");
  expect(paged({0, -1}, 257),
         "`block_table`: expected blocks from 0 to 1, the pages of `k_cache`, found -1 at [0, 1]");
  expect(paged({2, 0}, 257),
         "`block_table`: expected blocks from 0 to 1, the pages of `k_cache`, found 2 at [0, 0]");
  // Where the new key goes.
  CacheCall appending = paged({0, 9}, 256);
  appending.new_k = equal_rows({1, 1, 1}, {1.0});
  appending.new_v = equal_rows({1, 1, 1}, {1.0});
  expect(std::move(appending),
         "`block_table`: expected blocks from 0 to 1, the pages of `k_cache`, found 9 at [0, 1]");

  // Columns after the length, and before the window, are not looked at.
  CacheCall unused = paged({1, -5}, 256);
  ASSERT_EQ(unused.run(), OPMUX_OK) << take_error();
  expect_rows(*unused.out, {1.0});
  CacheCall windowed = paged({99, 1}, 500);
  windowed.causal = true;
  windowed.window[0] = 100;
  ASSERT_EQ(windowed.run(), OPMUX_OK) << take_error();
  expect_rows(*windowed.out, {1.0});

  VarlenCall varlen = means(1, 512);
  OpmuxTensor& key = *varlen.k->view();
  OpmuxTensor& value = *varlen.v->view();
  int64_t shape[] = {2, 256, 1, 16};
  for (OpmuxTensor* view : {&key, &value}) {
    view->rank = 4;
    view->shape = shape;
    view->strides = nullptr;
  }
  varlen.blocks = table({{1}});
  varlen.cu_k = indices({0, 257});
  EXPECT_EQ(varlen.run(), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "`block_table`: expected at least 2 columns, the pages of the 257 keys of sequence 0, "
            "found 1");
  varlen.blocks = table({{1, -1}});
  EXPECT_EQ(varlen.run(), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "`block_table`: expected blocks from 0 to 1, the pages of `k`, found -1 at [0, 1]");
  EXPECT_TRUE(varlen.out->untouched());
}

}  // namespace
}  // namespace opmux::test
