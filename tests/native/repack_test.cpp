// SPDX-License-Identifier: Apache-2.0
//
// The repacks against the layout's definition, value by value, and against recorded words.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/native/calls.hpp"
#include "tests/native/reference.hpp"

namespace opmux::test {
namespace {

using Matrix = std::vector<uint32_t>;  // [size_k, size_n] unpacked values

struct Case {
  int64_t size_k;
  int64_t size_n;
  int bits;
  bool wide_k;
};

std::vector<uint32_t> words_of(const TestTensor& tensor) {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    words.push_back(static_cast<uint32_t>(static_cast<int32_t>(tensor.at(i))));
  }
  return words;
}

void put_words(TestTensor& tensor, const std::vector<uint32_t>& words) {
  tensor.fill([&](int64_t i) {
    return static_cast<double>(static_cast<int32_t>(words[static_cast<size_t>(i)]));
  });
}

// Along k, the lowest k in the lowest bits.
std::vector<uint32_t> pack_gptq(const Matrix& values, const Case& c) {
  const int64_t per_word = 32 / c.bits;
  std::vector<uint32_t> words(static_cast<size_t>(c.size_k / per_word * c.size_n), 0);
  for (int64_t k = 0; k < c.size_k; ++k) {
    for (int64_t n = 0; n < c.size_n; ++n) {
      words[static_cast<size_t>(k / per_word * c.size_n + n)] |=
          values[static_cast<size_t>(k * c.size_n + n)] << (k % per_word * c.bits);
    }
  }
  return words;
}

// Along n; the nibbles of a word hold columns 0, 2, 4, 6, 1, 3, 5, 7, its bytes 0, 2, 1, 3.
std::vector<uint32_t> pack_awq(const Matrix& values, const Case& c) {
  const int64_t per_word = 32 / c.bits;
  const std::vector<int> columns =
      c.bits == 4 ? std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7} : std::vector<int>{0, 2, 1, 3};
  std::vector<uint32_t> words(static_cast<size_t>(c.size_k * c.size_n / per_word), 0);
  for (int64_t word = 0; word < static_cast<int64_t>(words.size()); ++word) {
    for (int64_t i = 0; i < per_word; ++i) {
      words[static_cast<size_t>(word)] |=
          values[static_cast<size_t>(word * per_word + columns[static_cast<size_t>(i)])]
          << (i * c.bits);
    }
  }
  return words;
}

std::vector<uint32_t> expected_words(const Matrix& values, const Case& c) {
  const reference::MarlinLayout layout(c.bits, c.wide_k, c.size_n);
  std::vector<uint32_t> words(static_cast<size_t>(c.size_k * c.size_n * c.bits / 32), 0);
  for (int64_t k = 0; k < c.size_k; ++k) {
    for (int64_t n = 0; n < c.size_n; ++n) {
      const int64_t bit = layout.bit_of(k, n);
      words[static_cast<size_t>(bit / 32)] |= values[static_cast<size_t>(k * c.size_n + n)]
                                              << (bit % 32);
    }
  }
  return words;
}

std::vector<uint32_t> run_gptq(const std::vector<uint32_t>& packed, const std::vector<int>& perm,
                               const Case& c, const OpmuxHost* host = serial_host()) {
  const int64_t per_word = 32 / c.bits;
  TestTensor weight(Type::kInt32, {c.size_k / per_word, c.size_n});
  TestTensor permutation(Type::kInt32, {static_cast<int64_t>(perm.size())});
  TestTensor out(Type::kInt32, {c.size_k / 16, c.size_n * 16 / per_word}, {{}, 1});
  put_words(weight, packed);
  permutation.fill([&](int64_t i) { return perm[static_cast<size_t>(i)]; });
  EXPECT_EQ(run("gptq_marlin_repack",
                {value(weight), value(permutation), value(c.size_k), value(c.size_n), value(c.bits),
                 value(c.wide_k), value(out)},
                host),
            OPMUX_OK)
      << take_error();
  EXPECT_TRUE(out.guards_hold());
  return words_of(out);
}

std::vector<uint32_t> run_awq(const std::vector<uint32_t>& packed, const Case& c) {
  const int64_t per_word = 32 / c.bits;
  TestTensor weight(Type::kInt32, {c.size_k, c.size_n / per_word});
  TestTensor out(Type::kInt32, {c.size_k / 16, c.size_n * 16 / per_word});
  put_words(weight, packed);
  EXPECT_EQ(run("awq_marlin_repack", {value(weight), value(c.size_k), value(c.size_n),
                                      value(c.bits), value(c.wide_k), value(out)}),
            OPMUX_OK)
      << take_error();
  EXPECT_TRUE(out.guards_hold());
  return words_of(out);
}

Matrix golden(const Case& c) {
  Matrix values;
  for (int64_t k = 0; k < c.size_k; ++k) {
    for (int64_t n = 0; n < c.size_n; ++n) {
      values.push_back(static_cast<uint32_t>((7 * k + 13 * n / 4 + k * n / 3) % (1 << c.bits)));
    }
  }
  return values;
}

Matrix random_values(const Case& c) {
  Matrix values;
  for (int64_t i = 0; i < c.size_k * c.size_n; ++i) {
    values.push_back(static_cast<uint32_t>((noise(i) + 1.0) * 0.5 * (1 << c.bits)));
  }
  return values;
}

constexpr Case kCases[] = {{16, 64, 4, false},  {16, 64, 8, false},   {48, 192, 4, false},
                           {48, 192, 8, false}, {32, 64, 4, true},    {32, 64, 8, true},
                           {96, 192, 4, true},  {96, 192, 8, true},   {256, 128, 4, false},
                           {256, 128, 8, true}, {128, 1024, 4, true}, {16, 640, 8, false}};

uint32_t xor_of(const std::vector<uint32_t>& words) {
  return std::accumulate(words.begin(), words.end(), 0u,
                         [](uint32_t left, uint32_t right) { return left ^ right; });
}

uint64_t sum_of(const std::vector<uint32_t>& words) {
  return std::accumulate(words.begin(), words.end(), uint64_t{0});
}

TEST(Repack, FourBitWordsAreTheRecordedOnes) {
  const Case c = {32, 128, 4, false};
  const std::vector<uint32_t> packed = pack_gptq(golden(c), c);
  EXPECT_EQ((std::vector<uint32_t>{packed.begin(), packed.begin() + 4}),
            (std::vector<uint32_t>{0x1a3c5e70, 0x6f7091a3, 0xb4c4d5d6, 0x19191919}));
  const std::vector<uint32_t> awq = pack_awq(golden(c), c);
  EXPECT_EQ((std::vector<uint32_t>{awq.begin(), awq.begin() + 2}),
            (std::vector<uint32_t>{0x60933d60, 0x0a3dd70a}));
  for (const std::vector<uint32_t>& words : {run_gptq(packed, {}, c), run_awq(awq, c)}) {
    ASSERT_EQ(words.size(), 512u);
    EXPECT_EQ((std::vector<uint32_t>{words.begin(), words.begin() + 8}),
              (std::vector<uint32_t>{0x13f77a80, 0x5d306e64, 0x96794258, 0xdfb3364c, 0x47d5ad6e,
                                     0x3bb94cfc, 0x1fadda8b, 0x0391692a}));
    EXPECT_EQ(words[510], 0xccf4006bu);
    EXPECT_EQ(words[511], 0x5a8349a4u);
    EXPECT_EQ(xor_of(words), 0xb2c133d6u);
    EXPECT_EQ(sum_of(words), 0x10213fb84dau);
  }
}

TEST(Repack, EightBitWordsAreTheRecordedOnes) {
  const Case c = {32, 128, 8, false};
  const std::vector<uint32_t> packed = pack_gptq(golden(c), c);
  EXPECT_EQ((std::vector<uint32_t>{packed.begin(), packed.begin() + 4}),
            (std::vector<uint32_t>{0x150e0700, 0x19110a03, 0x1d150d06, 0x21191109}));
  const std::vector<uint32_t> words = run_gptq(packed, {}, c);
  ASSERT_EQ(words.size(), 1024u);
  EXPECT_EQ((std::vector<uint32_t>{words.begin(), words.begin() + 8}),
            (std::vector<uint32_t>{0x3f073800, 0x7123671a, 0xa3409634, 0xd55dc64e, 0x0779f568,
                                   0x39962482, 0x6bb3549c, 0x9dcf83b6}));
  EXPECT_EQ(words[1022], 0x28b3fa84u);
  EXPECT_EQ(words[1023], 0x950a64d9u);
  EXPECT_EQ(xor_of(words), 0x8703cee5u);
}

TEST(Repack, OneValueGoesToTheRecordedPlace) {
  struct OneHot {
    int bits;
    int64_t k;
    int64_t n;
    size_t word;
    uint32_t content;
  };
  for (const OneHot& hot : {OneHot{4, 0, 0, 0, 0x0000000f},
                            {4, 1, 0, 0, 0x000f0000},
                            {4, 8, 0, 0, 0x000000f0},
                            {4, 0, 8, 0, 0x00000f00},
                            {4, 0, 16, 1, 0x0000000f},
                            {4, 15, 63, 127, 0xf0000000},
                            {8, 1, 0, 0, 0x00ff0000},
                            {8, 0, 8, 1, 0x000000ff},
                            {8, 0, 16, 2, 0x000000ff},
                            {8, 15, 63, 255, 0xff000000}}) {
    const Case c = {16, 64, hot.bits, false};
    Matrix values(1024, 0);
    values[static_cast<size_t>(hot.k * 64 + hot.n)] = (1u << hot.bits) - 1;
    const std::vector<uint32_t> words = run_gptq(pack_gptq(values, c), {}, c);
    for (size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(words[i], i == hot.word ? hot.content : 0u) << hot.k << " " << hot.n << " " << i;
    }
  }
}

TEST(Repack, TheLayoutGivesEveryBitOnce) {
  for (const Case& c : kCases) {
    const reference::MarlinLayout layout(c.bits, c.wide_k, c.size_n);
    std::vector<int> seen(static_cast<size_t>(c.size_k * c.size_n), 0);
    for (int64_t k = 0; k < c.size_k; ++k) {
      for (int64_t n = 0; n < c.size_n; ++n) {
        const int64_t bit = layout.bit_of(k, n);
        ASSERT_EQ(bit % c.bits, 0);
        ++seen.at(static_cast<size_t>(bit / c.bits));
      }
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  }
}

TEST(Repack, AgreesWithTheLayoutForEverySize) {
  for (const Case& c : kCases) {
    const Matrix values = random_values(c);
    const std::vector<uint32_t> expected = expected_words(values, c);
    EXPECT_EQ(run_gptq(pack_gptq(values, c), {}, c), expected)
        << c.size_k << " " << c.size_n << " " << c.bits << " " << c.wide_k;
    EXPECT_EQ(run_awq(pack_awq(values, c), c), expected)
        << c.size_k << " " << c.size_n << " " << c.bits << " " << c.wide_k;
  }
}

TEST(Repack, RowKOfTheResultIsRowPermKOfTheInput) {
  for (const Case& c : kCases) {
    if (c.wide_k) continue;
    const Matrix values = random_values(c);
    std::vector<int> perm(static_cast<size_t>(c.size_k));
    for (size_t k = 0; k < perm.size(); ++k) {
      perm[k] = static_cast<int>((k * 5 + 3) % perm.size());  // 5 and 16 share no factor
    }
    Matrix permuted;
    for (const int row : perm) {
      permuted.insert(permuted.end(), values.begin() + row * c.size_n,
                      values.begin() + (row + 1) * c.size_n);
    }
    EXPECT_EQ(run_gptq(pack_gptq(values, c), perm, c), expected_words(permuted, c));
  }
}

TEST(Repack, ManyThreadsGiveTheSameWordsAsOne) {
  const Case c = {512, 512, 4, false};
  const std::vector<uint32_t> packed = pack_gptq(random_values(c), c);
  const std::vector<uint32_t> alone = run_gptq(packed, {}, c);
  take_parallel_calls();
  EXPECT_EQ(run_gptq(packed, {}, c, threaded_host()), alone);
  EXPECT_EQ(take_parallel_calls(), 1);
}

// ---- what is refused, and that nothing is written then

struct Refusal {
  Case c;
  std::string error;
};

TEST(Repack, RefusesSizesThatAreNoWholeTiles) {
  const Refusal refusals[] = {
      {{16, 1, 4, false}, "`size_n`: expected a positive multiple of 64, found 1"},
      {{16, 672, 4, false}, "`size_n`: expected a positive multiple of 64, found 672"},
      {{16, 8608, 4, false}, "`size_n`: expected a positive multiple of 64, found 8608"},
      {{24, 64, 4, false}, "`size_k`: expected a positive multiple of 16, found 24"},
      {{0, 64, 4, false}, "`size_k`: expected a positive multiple of 16, found 0"},
      {{16, 0, 4, false}, "`size_n`: expected a positive multiple of 64, found 0"},
      {{-16, 64, 4, false}, "`size_k`: expected a positive multiple of 16, found -16"},
      {{16, 64, 4, true}, "`size_k`: expected a multiple of 32 with is_a_8bit, found 16"},
      {{16, 64, 0, false}, "`num_bits`: expected 4 or 8, found 0"},
      {{16, 64, 1, false}, "`num_bits`: expected 4 or 8, found 1"},
      {{16, 64, 3, false}, "`num_bits`: expected 4 or 8, found 3"},
      {{16, 64, 16, false}, "`num_bits`: expected 4 or 8, found 16"},
      {{16, 64, 32, false}, "`num_bits`: expected 4 or 8, found 32"},
      {{16, 64, -4, false}, "`num_bits`: expected 4 or 8, found -4"},
      {{32, 64, 4, false}, "`b_q_weight`: expected shape [4, 64], found [2, 64]"},
      {{16, 128, 4, false}, "`b_q_weight`: expected shape [2, 128], found [2, 64]"},
      {{int64_t{1} << 62, int64_t{1} << 62, 4, false},
       "`b_q_weight`: expected shape [576460752303423488, 4611686018427387904], found [2, 64]"}};
  for (const Refusal& refusal : refusals) {
    TestTensor weight(Type::kInt32, {2, 64});
    TestTensor perm(Type::kInt32, {0});
    TestTensor out(Type::kInt32, {1, 128});
    EXPECT_EQ(run("gptq_marlin_repack",
                  {value(weight), value(perm), value(refusal.c.size_k), value(refusal.c.size_n),
                   value(refusal.c.bits), value(refusal.c.wide_k), value(out)}),
              OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error(), refusal.error);
    EXPECT_TRUE(out.untouched());
  }
}

OpmuxStatus repack_small(TestTensor& weight, TestTensor& perm, TestTensor& out,
                         bool wide_k = false) {
  return run("gptq_marlin_repack", {value(weight), value(perm), value(wide_k ? 32 : 16), value(64),
                                    value(4), value(wide_k), value(out)});
}

TEST(Repack, RefusesOtherTypesLayoutsAndOverlaps) {
  TestTensor weight(Type::kInt32, {2, 64});
  TestTensor none_of(Type::kInt32, {0});
  TestTensor out(Type::kInt32, {1, 128});
  weight.fill([](int64_t) { return 0.0; });

  for (const Type type : {Type::kInt64, Type::kUint8, Type::kFloat32}) {
    TestTensor other(type, {2, 64});
    EXPECT_EQ(repack_small(other, none_of, out), OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error(), std::string("`b_q_weight`: expected dtype int32, found ") +
                                (type == Type::kInt64   ? "int64"
                                 : type == Type::kUint8 ? "uint8"
                                                        : "float32"));
    TestTensor wrong_out(type, {1, 128});
    EXPECT_EQ(repack_small(weight, none_of, wrong_out), OPMUX_INVALID_ARGUMENT);
    EXPECT_TRUE(wrong_out.untouched());
  }
  take_error();

  TestTensor transposed(Type::kInt32, {2, 64}, {{1, 2}, 0});
  EXPECT_EQ(repack_small(transposed, none_of, out), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(),
            "`b_q_weight`: expected a contiguous tensor of shape [2, 64], found strides [1, 2]");

  TestTensor wide(Type::kInt32, {1, 129});
  EXPECT_EQ(repack_small(weight, none_of, wide), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`out`: expected shape [1, 128], found [1, 129]");

  TestTensor overlap(Type::kInt32, {1, 128});
  overlap.view()->data = static_cast<char*>(weight.view()->data) + 64;
  EXPECT_EQ(repack_small(weight, none_of, overlap), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`out`: expected memory of its own, found that it overlaps `b_q_weight`");

  TestTensor device(Type::kInt32, {2, 64});
  device.view()->device.type = OPMUX_DEVICE_CUDA;
  EXPECT_EQ(repack_small(device, none_of, out), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`b_q_weight`: expected device cpu, found cuda");
  EXPECT_TRUE(out.untouched());
}

TEST(Repack, RefusesPermutationsThatDoNotFit) {
  TestTensor weight(Type::kInt32, {2, 64});
  TestTensor out(Type::kInt32, {1, 128});
  TestTensor few(Type::kInt32, {15});
  EXPECT_EQ(repack_small(weight, few, out), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`perm`: expected shape [16], found [15]");
  for (const int wrong : {-1, 16}) {
    TestTensor perm(Type::kInt32, {16});
    perm.fill([&](int64_t i) { return i == 5 ? wrong : static_cast<double>(i); });
    EXPECT_EQ(repack_small(weight, perm, out), OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error(),
              "`perm`: expected rows from 0 to 15, found " + std::to_string(wrong) + " at index 5");
  }
  TestTensor longs(Type::kInt64, {16});
  EXPECT_EQ(repack_small(weight, longs, out), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "`perm`: expected dtype int32, found int64");
  EXPECT_TRUE(out.untouched());
}

// Another provider may serve it: the schema allows it.
TEST(Repack, APermutationWithEightBitActivationsIsUnsupported) {
  TestTensor weight(Type::kInt32, {4, 64});
  TestTensor perm(Type::kInt32, {32});
  TestTensor out(Type::kInt32, {2, 128});
  EXPECT_EQ(repack_small(weight, perm, out, true), OPMUX_UNSUPPORTED);
  EXPECT_EQ(take_error(), "`perm`: expected an empty tensor with is_a_8bit, found 32 elements");
  EXPECT_TRUE(out.untouched());
}

}  // namespace
}  // namespace opmux::test
