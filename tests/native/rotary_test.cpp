// SPDX-License-Identifier: Apache-2.0
//
// rotary_embedding against float64. Products are exact in double and results rounded once: 1 unit
// of 2^-24 (1.01 with the double's own rounding), and 2^-51 of the products where they cancel.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/calls.hpp"
#include "tests/native/reference.hpp"

namespace opmux::test {
namespace {

struct Rotation {
  int64_t head_size = 0;
  int64_t rotated = 0;
  bool is_neox = true;
  int64_t offset = 0;
  bool inverse = false;
};

// `before` holds heads * head_size values for each token; `after` is what the kernel left.
void expect_rotated(const std::vector<double>& before, const TestTensor& after,
                    const TestTensor& positions, const TestTensor& cache, const Rotation& how) {
  const int64_t pairs = how.rotated / 2;
  const int64_t per_token = after.count() / positions.count();
  std::vector<double> exact = before;
  std::vector<double> magnitude(before.size(), 0.0);
  std::vector<bool> rotated(before.size(), false);
  for (int64_t token = 0; token < positions.count(); ++token) {
    const auto position = static_cast<int64_t>(positions.at(token));
    for (int64_t head = 0; head < per_token / how.head_size; ++head) {
      const int64_t base = token * per_token + head * how.head_size + how.offset;
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const auto first = static_cast<size_t>(base + (how.is_neox ? pair : 2 * pair));
        const auto second = first + static_cast<size_t>(how.is_neox ? pairs : 1);
        const double cos = cache.at(position * how.rotated + pair);
        const double sin = cache.at(position * how.rotated + pairs + pair);
        const reference::Pair result =
            reference::rotate(before[first], before[second], cos, how.inverse ? -sin : sin);
        exact[first] = result.first;
        exact[second] = result.second;
        for (const size_t at : {first, second}) {
          magnitude[at] = result.magnitude;
          rotated[at] = true;
        }
      }
    }
  }
  for (size_t i = 0; i < exact.size(); ++i) {
    const double found = after.at(static_cast<int64_t>(i));
    if (rotated[i]) {
      ASSERT_TRUE(close(after.type(), found, exact[i], {1.01, std::ldexp(magnitude[i], -51)}))
          << "at " << i;
    } else {
      ASSERT_EQ(found, exact[i]) << "at " << i;
    }
  }
}

void fill_cache(TestTensor& cache, int64_t rotated) {
  cache.fill([&](int64_t i) {
    const int64_t pairs = rotated / 2;
    const int64_t position = i / rotated;
    const double angle =
        static_cast<double>(position) *
        std::pow(100.0, -static_cast<double>(i % rotated % pairs) / static_cast<double>(pairs));
    return i % rotated < pairs ? std::cos(angle) : std::sin(angle);
  });
}

Values arguments(TestTensor& positions, TestTensor& query, OpmuxValue key, TestTensor& cache,
                 const Rotation& how) {
  return {value(positions),  value(query),         key,
          value(cache),      value(how.head_size), value(how.is_neox),
          value(how.offset), value(how.inverse)};
}

TEST(Rotary, AgreesWithFloat64InEveryMode) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const Type cache_type : {type, Type::kFloat32}) {
        for (const Rotation& how : {Rotation{64, 64, true, 0, false},
                                    {64, 64, false, 0, false},
                                    {64, 8, true, 0, false},
                                    {10, 6, false, 3, true},
                                    {10, 6, true, 4, true},
                                    {2, 2, true, 0, false},
                                    {7, 2, false, 5, false},
                                    {1100, 1090, true, 10, true}}) {
          for (const Type index : {Type::kInt64, Type::kInt32}) {
            TestTensor positions(index, {5});
            TestTensor query(type, {5, 3 * how.head_size});
            TestTensor key(type, {5, how.head_size});
            TestTensor cache(cache_type, {20, how.rotated});
            positions.fill([](int64_t i) { return static_cast<double>((i * 7) % 20); });
            query.fill([](int64_t i) { return 3.0 * noise(i); });
            key.fill([](int64_t i) { return 3.0 * noise(i, 2); });
            fill_cache(cache, how.rotated);
            const std::vector<double> queries = query.values();
            const std::vector<double> keys = key.values();
            ASSERT_EQ(run_on(target, "rotary_embedding",
                             arguments(positions, query, value(key), cache, how)),
                      OPMUX_OK)
                << take_error();
            SCOPED_TRACE(std::string(target->target) + " " + name_of(type) + " " +
                         std::to_string(how.head_size));
            expect_rotated(queries, query, positions, cache, how);
            expect_rotated(keys, key, positions, cache, how);
            EXPECT_TRUE(query.guards_hold());
          }
        }
      }
    }
  }
}

TEST(Rotary, PairsHalvesForNeoxAndNeighboursOtherwise) {
  // Angle of pair 0: 90 degrees, of pair 1: none.
  for (const bool is_neox : {true, false}) {
    TestTensor positions(Type::kInt64, {1});
    TestTensor query(Type::kFloat32, {1, 4});
    TestTensor cache(Type::kFloat32, {1, 4});
    positions.fill([](int64_t) { return 0.0; });
    query.fill([](int64_t i) { return static_cast<double>(i + 1); });
    const double angles[] = {0.0, 1.0, 1.0, 0.0};
    cache.fill([&](int64_t i) { return angles[i]; });
    ASSERT_EQ(run("rotary_embedding",
                  arguments(positions, query, none(), cache, {4, 4, is_neox, 0, false})),
              OPMUX_OK);
    const std::vector<double> expected =
        is_neox ? std::vector<double>{-3, 2, 1, 4} : std::vector<double>{-2, 1, 3, 4};
    EXPECT_EQ(query.values(), expected);
  }
}

TEST(Rotary, LeavesWhatIsNotRotatedAsItIs) {
  TestTensor positions(Type::kInt64, {1});
  TestTensor query(Type::kFloat32, {1, 3, 4});
  TestTensor cache(Type::kFloat32, {2, 2});
  positions.fill([](int64_t) { return 1.0; });
  const double head[] = {1, 0, 5, 7};
  query.fill([&](int64_t i) { return head[i % 4]; });
  cache.fill([](int64_t i) { return i == 2 ? std::cos(1.0) : i == 3 ? std::sin(1.0) : 0.0; });
  ASSERT_EQ(
      run("rotary_embedding", arguments(positions, query, none(), cache, {4, 2, true, 0, false})),
      OPMUX_OK);
  for (int64_t i = 0; i < 12; i += 4) {
    EXPECT_NEAR(query.at(i), 0.540302, 1e-6);
    EXPECT_NEAR(query.at(i + 1), 0.841471, 1e-6);
    EXPECT_EQ(query.at(i + 2), 5.0);
    EXPECT_EQ(query.at(i + 3), 7.0);
  }
}

TEST(Rotary, InverseUndoesTheRotation) {
  TestTensor positions(Type::kInt64, {6});
  TestTensor query(Type::kFloat32, {6, 32});
  TestTensor cache(Type::kFloat32, {9, 16});
  positions.fill([](int64_t i) { return static_cast<double>(i); });
  query.fill([](int64_t i) { return noise(i); });
  fill_cache(cache, 16);
  const std::vector<double> before = query.values();
  for (const bool inverse : {false, true}) {
    ASSERT_EQ(run("rotary_embedding",
                  arguments(positions, query, none(), cache, {16, 16, true, 0, inverse})),
              OPMUX_OK);
  }
  // Four roundings of values below 2, and a cache whose cos^2 + sin^2 is 1 within 2^-23.
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(query.at(static_cast<int64_t>(i)), before[i], std::ldexp(8.0, -23));
  }
}

// Query and key as slices of one projection: heads of 8, four of query, two of key, two of value.
TEST(Rotary, WorksInPlaceOnSlicesAndLeavesTheRestAlone) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const bool is_neox : {true, false}) {
        const Rotation how = {8, 6, is_neox, 1, false};
        const auto width = static_cast<uint64_t>(dtype_of(type).bits / 8);
        TestTensor positions(Type::kInt64, {4}, {{3}, 0});
        TestTensor joint(type, {4, 64});
        TestTensor cache(type, {11, 6}, {{9, 1}, 2});
        positions.fill([](int64_t i) { return static_cast<double>(10 - i); });
        joint.fill([](int64_t i) { return noise(i); });
        fill_cache(cache, 6);
        const std::vector<double> before = joint.values();
        // Views into `joint`.
        OpmuxTensor query = *joint.view();
        OpmuxTensor key = *joint.view();
        int64_t query_shape[] = {4, 4, 8};
        int64_t key_shape[] = {4, 16};
        int64_t query_strides[] = {64, 8, 1};
        int64_t key_strides[] = {64, 1};
        query.rank = 3;
        query.shape = query_shape;
        query.strides = query_strides;
        key.rank = 2;
        key.shape = key_shape;
        key.strides = key_strides;
        key.byte_offset = 32 * width;
        OpmuxValue query_value = value(joint);
        OpmuxValue key_value = value(joint);
        query_value.payload.tensor = &query;
        key_value.payload.tensor = &key;
        ASSERT_EQ(run_on(target, "rotary_embedding",
                         {value(positions), query_value, key_value, value(cache), value(8),
                          value(is_neox), value(1), value(false)}),
                  OPMUX_OK)
            << take_error();
        // The same on a contiguous copy.
        TestTensor copy(type, {4, 48});
        copy.fill([&](int64_t i) { return before[static_cast<size_t>(i / 48 * 64 + i % 48)]; });
        const std::vector<double> copied = copy.values();
        ASSERT_EQ(
            run_on(target, "rotary_embedding", arguments(positions, copy, none(), cache, how)),
            OPMUX_OK);
        expect_rotated(copied, copy, positions, cache, how);
        for (int64_t i = 0; i < 256; ++i) {
          const double expected =
              i % 64 < 48 ? copy.at(i / 64 * 48 + i % 64) : before[static_cast<size_t>(i)];
          ASSERT_EQ(joint.at(i), expected) << i;
        }
      }
    }
  }
}

TEST(Rotary, FollowsStridesOfTheLastDimension) {
  const Rotation how = {6, 4, true, 2, false};
  TestTensor positions(Type::kInt32, {2, 3}, {{1, 2}, 0});
  TestTensor query(Type::kBFloat16, {2, 3, 12}, {{200, 50, 3}, 1});
  TestTensor key(Type::kBFloat16, {2, 3, 1, 6}, {{7, 60, 1, 9}, 0});
  TestTensor cache(Type::kFloat32, {8, 4}, {{1, 8}, 3});
  positions.fill([](int64_t i) { return static_cast<double>(i + 1); });
  query.fill([](int64_t i) { return noise(i); });
  key.fill([](int64_t i) { return noise(i, 2); });
  fill_cache(cache, 4);
  const std::vector<double> queries = query.values();
  const std::vector<double> keys = key.values();
  ASSERT_EQ(run("rotary_embedding", arguments(positions, query, value(key), cache, how)), OPMUX_OK)
      << take_error();
  expect_rotated(queries, query, positions, cache, how);
  expect_rotated(keys, key, positions, cache, how);
  EXPECT_TRUE(query.guards_hold());
  EXPECT_TRUE(key.guards_hold());
}

TEST(Rotary, NoTokensIsFine) {
  TestTensor positions(Type::kInt64, {0});
  TestTensor query(Type::kFloat32, {0, 4, 64});
  TestTensor cache(Type::kFloat32, {16, 64});
  query.view()->data = nullptr;
  EXPECT_EQ(
      run("rotary_embedding", arguments(positions, query, none(), cache, {64, 64, true, 0, false})),
      OPMUX_OK)
      << take_error();
}

TEST(Rotary, APositionOutsideTheCacheIsRefusedBeforeAnythingIsWritten) {
  for (const int64_t wrong : {int64_t{-1}, int64_t{16}, int64_t{1} << 40}) {
    TestTensor positions(Type::kInt64, {3});
    TestTensor query(Type::kFloat32, {3, 8});
    TestTensor cache(Type::kFloat32, {16, 8});
    positions.fill([&](int64_t i) { return i == 2 ? static_cast<double>(wrong) : 1.0; });
    EXPECT_EQ(
        run("rotary_embedding", arguments(positions, query, none(), cache, {8, 8, true, 0, false})),
        OPMUX_INVALID_ARGUMENT);
    EXPECT_EQ(take_error(),
              "`positions`: expected positions from 0 to 15, the rows of `cos_sin_cache`, found " +
                  std::to_string(wrong) + " at token 2");
    EXPECT_TRUE(query.untouched());
  }
}

TEST(Rotary, ManyThreadsGiveTheSameBytesAsOne) {
  TestTensor positions(Type::kInt64, {300});
  TestTensor cache(Type::kBFloat16, {512, 64});
  positions.fill([](int64_t i) { return static_cast<double>(i); });
  fill_cache(cache, 64);
  std::vector<unsigned char> first;
  for (const OpmuxHost* host : {serial_host(), threaded_host()}) {
    TestTensor query(Type::kBFloat16, {300, 8, 64});
    TestTensor key(Type::kBFloat16, {300, 2, 64});
    query.fill([](int64_t i) { return noise(i); });
    key.fill([](int64_t i) { return noise(i, 2); });
    take_parallel_calls();
    ASSERT_EQ(run("rotary_embedding",
                  arguments(positions, query, value(key), cache, {64, 64, true, 0, false}), host),
              OPMUX_OK);
    EXPECT_EQ(take_parallel_calls(), 1);
    if (first.empty()) first = query.bytes();
    EXPECT_EQ(query.bytes(), first);
  }
}

}  // namespace
}  // namespace opmux::test
