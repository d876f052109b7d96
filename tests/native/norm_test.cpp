// SPDX-License-Identifier: Apache-2.0
//
// rms_norm and fused_add_rms_norm against float64.
//
// Bounds, in units of 2^-24: float32 results are rounded once from double (1, and 0.1 for the sum),
// others are off by 3 before they are rounded to their type; a product with the weight may be off
// by 2^-149 times the weight where input * factor is subnormal.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/native/calls.hpp"
#include "tests/native/reference.hpp"

namespace opmux::test {
namespace {

Bound bound_of(Type type, double weight) {
  if (type == Type::kFloat32) return {1.1, 0.0};
  return {3.0, std::ldexp(std::max(1.0, std::abs(weight)), -149)};
}

void expect_rows(const std::vector<double>& input, const std::vector<double>& weight,
                 double epsilon, const TestTensor& out, int64_t width) {
  for (int64_t row = 0; row < out.count() / width; ++row) {
    const std::vector<double> values(input.begin() + row * width,
                                     input.begin() + (row + 1) * width);
    const std::vector<double> exact = reference::rms_norm(values, weight, epsilon);
    for (int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_TRUE(close(out.type(), out.at(row * width + i), exact[at],
                        bound_of(out.type(), weight.empty() ? 1.0 : weight[at])))
          << "row " << row << " column " << i << " of " << width;
    }
  }
}

TEST(RmsNorm, AgreesWithFloat64ForEveryTypeWidthAndTarget) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const int64_t width : {1, 2, 3, 7, 64, 511, 512, 513, 767, 769, 3584, 8191}) {
        TestTensor input(type, {3, width});
        TestTensor weight(type, {width});
        TestTensor out(type, {3, width});
        input.fill([](int64_t i) { return 5.0 * noise(i); });
        weight.fill([](int64_t i) { return 1.0 + noise(i, 2); });
        ASSERT_EQ(
            run_on(target, "rms_norm", {value(input), value(weight), value(1e-5), value(out)}),
            OPMUX_OK)
            << take_error();
        SCOPED_TRACE(target->target);
        expect_rows(input.values(), weight.values(), 1e-5, out, width);
        EXPECT_TRUE(out.guards_hold());
      }
    }
  }
}

TEST(RmsNorm, RoundsOnceAfterTheWeight) {
  TestTensor input(Type::kBFloat16, {2});
  TestTensor weight(Type::kBFloat16, {2});
  TestTensor out(Type::kBFloat16, {2});
  input.fill([](int64_t i) { return static_cast<double>(i + 1); });
  weight.fill([](int64_t i) { return i == 0 ? 1.015625 : 1.0; });
  ASSERT_EQ(run("rms_norm", {value(input), value(weight), value(0.0), value(out)}), OPMUX_OK);
  EXPECT_EQ(out.at(0), 0.640625);
}

TEST(RmsNorm, FollowsBothStridesOfATranspose) {
  for (const Type type : kFloatTypes) {
    TestTensor input(type, {2, 2}, {{1, 2}, 0});
    TestTensor weight(type, {2});
    TestTensor out(type, {2, 2});
    const double values[] = {3, 4, 6, 8};
    input.fill([&](int64_t i) { return values[i]; });
    weight.fill([](int64_t) { return 1.0; });
    ASSERT_EQ(run("rms_norm", {value(input), value(weight), value(0.0), value(out)}), OPMUX_OK);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(close(type, out.at(i), i % 2 == 0 ? 3.0 / std::sqrt(12.5) : 4.0 / std::sqrt(12.5),
                        bound_of(type, 1.0)));
    }
  }
}

// Columns of a joint projection, a strided weight, an output in a layout of its own.
TEST(RmsNorm, FollowsAnyStridesAndOffsets) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const Layout& in : {Layout{{12, 2, 1}, 0}, {{50, 11, 2}, 3}, {{1, 3, 6}, 1}}) {
        for (const Layout& to : {Layout{{4, 2, 1}, 5}, {{2, 20, 1}, 0}, {{31, 9, 3}, 1}}) {
          TestTensor input(type, {3, 2, 2}, in);
          TestTensor weight(type, {2}, {{5}, 1});
          TestTensor out(type, {3, 2, 2}, to);
          input.fill([](int64_t i) { return noise(i); });
          weight.fill([](int64_t i) { return 1.0 + noise(i, 3); });
          ASSERT_EQ(
              run_on(target, "rms_norm", {value(input), value(weight), value(1e-6), value(out)}),
              OPMUX_OK);
          expect_rows(input.values(), weight.values(), 1e-6, out, 2);
          EXPECT_TRUE(out.guards_hold());
        }
      }
    }
  }
}

// The squares leave the range of the type, the results do not.
TEST(RmsNorm, LargeAndSmallMagnitudesDoNotOverflow) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      const double large = 0.9 * greatest(type);
      const double small = std::ldexp(1.0, type == Type::kFloat16 ? -24 : -130);
      for (const double scale : {large, small, 1.0}) {
        TestTensor input(type, {2, 70});
        TestTensor weight(type, {70});
        TestTensor out(type, {2, 70});
        input.fill([&](int64_t i) { return scale * (0.5 + 0.5 * noise(i)); });
        input.set(0, scale);
        input.set(70, scale);
        weight.fill([](int64_t i) { return 1.0 + noise(i, 2); });
        ASSERT_EQ(run_on(target, "rms_norm", {value(input), value(weight), value(0.0), value(out)}),
                  OPMUX_OK);
        SCOPED_TRACE(std::string(target->target) + " " + name_of(type) + " " +
                     std::to_string(scale));
        expect_rows(input.values(), weight.values(), 0.0, out, 70);
      }
    }
  }
}

TEST(RmsNorm, ConstantRowsAreExactAndRowsStayApart) {
  for (const Type type : kFloatTypes) {
    for (const int64_t width : {1, 2, 3, 767, 768, 769, 8191}) {
      TestTensor input(type, {7, width}, {{width + 1, 1}, 0});
      TestTensor weight(type, {width});
      TestTensor out(type, {7, width}, {{width + 1, 1}, 0});
      input.fill([](int64_t) { return 1.0; });
      weight.fill([](int64_t) { return 1.0; });
      ASSERT_EQ(run("rms_norm", {value(input), value(weight), value(0.0), value(out)}), OPMUX_OK);
      EXPECT_TRUE(out.guards_hold());
      for (int64_t i = 0; i < out.count(); ++i) ASSERT_EQ(out.at(i), 1.0) << i;
    }
  }
}

TEST(RmsNorm, NanSpoilsItsOwnRowOnly) {
  for (const Type type : kFloatTypes) {
    TestTensor input(type, {3, 40});
    TestTensor weight(type, {40});
    TestTensor out(type, {3, 40});
    input.fill([](int64_t i) { return i == 57 ? std::nan("") : noise(i); });
    weight.fill([](int64_t) { return 1.0; });
    ASSERT_EQ(run("rms_norm", {value(input), value(weight), value(1e-6), value(out)}), OPMUX_OK);
    for (int64_t i = 0; i < 120; ++i) EXPECT_EQ(std::isnan(out.at(i)), i / 40 == 1) << i;
  }
}

TEST(RmsNorm, EmptyTensorsNeedNoData) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 8}, {3, 0}, {0}}) {
    TestTensor input(Type::kFloat16, shape);
    TestTensor weight(Type::kFloat16, {shape.back()});
    TestTensor out(Type::kFloat16, shape);
    input.view()->data = nullptr;
    out.view()->data = nullptr;
    EXPECT_EQ(run("rms_norm", {value(input), value(weight), value(1e-6), value(out)}), OPMUX_OK)
        << take_error();
    EXPECT_EQ(run("fused_add_rms_norm", {value(input), value(out), value(weight), value(1e-6)}),
              OPMUX_OK)
        << take_error();
  }
}

TEST(RmsNorm, ManyThreadsGiveTheSameBytesAsOne) {
  for (const Type type : kFloatTypes) {
    TestTensor input(type, {100, 1025});
    TestTensor weight(type, {1025});
    TestTensor alone(type, {100, 1025});
    TestTensor shared(type, {100, 1025});
    input.fill([](int64_t i) { return noise(i); });
    weight.fill([](int64_t i) { return noise(i, 2); });
    ASSERT_EQ(run("rms_norm", {value(input), value(weight), value(1e-6), value(alone)}), OPMUX_OK);
    take_parallel_calls();
    ASSERT_EQ(
        run("rms_norm", {value(input), value(weight), value(1e-6), value(shared)}, threaded_host()),
        OPMUX_OK);
    EXPECT_EQ(take_parallel_calls(), 1);
    EXPECT_EQ(alone.bytes(), shared.bytes());
  }
}

TEST(RmsNorm, EveryTargetGivesTheSameBytes) {
  for (const Type type : kFloatTypes) {
    TestTensor input(type, {5, 1027});
    TestTensor weight(type, {1027});
    input.fill([](int64_t i) { return noise(i); });
    weight.fill([](int64_t i) { return noise(i, 2); });
    std::vector<unsigned char> first;
    for (const native::KernelTable* target : targets()) {
      TestTensor out(type, {5, 1027});
      ASSERT_EQ(run_on(target, "rms_norm", {value(input), value(weight), value(1e-6), value(out)}),
                OPMUX_OK);
      if (first.empty()) first = out.bytes();
      EXPECT_EQ(out.bytes(), first) << target->target;
    }
  }
}

TEST(FusedAddRmsNorm, AddsRoundsAndNormalizes) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const int64_t width : {1, 7, 64, 513, 3584}) {
        for (const bool weighted : {true, false}) {
          TestTensor input(type, {3, width}, {{width + 3, 1}, 1});
          TestTensor residual(type, {3, width}, {{2 * width, 2}, 0});
          TestTensor weight(type, {width});
          input.fill([](int64_t i) { return 3.0 * noise(i); });
          residual.fill([](int64_t i) { return 9.0 * noise(i, 2); });
          weight.fill([](int64_t i) { return 1.0 + noise(i, 3); });
          std::vector<double> sums = input.values();
          for (int64_t i = 0; i < input.count(); ++i) {
            auto& sum = sums[static_cast<size_t>(i)];
            sum = round_to(type, sum + residual.at(i));
          }
          ASSERT_EQ(run_on(target, "fused_add_rms_norm",
                           {value(input), value(residual), weighted ? value(weight) : none(),
                            value(1e-5)}),
                    OPMUX_OK)
              << take_error();
          EXPECT_EQ(residual.values(), sums) << target->target << " " << name_of(type);
          expect_rows(sums, weighted ? weight.values() : std::vector<double>(), 1e-5, input, width);
          EXPECT_TRUE(input.guards_hold());
          EXPECT_TRUE(residual.guards_hold());
        }
      }
    }
  }
}

TEST(FusedAddRmsNorm, ManyThreadsGiveTheSameBytesAsOne) {
  TestTensor weight(Type::kBFloat16, {513});
  weight.fill([](int64_t i) { return noise(i, 3); });
  std::vector<unsigned char> first;
  for (const OpmuxHost* host : {serial_host(), threaded_host()}) {
    TestTensor input(Type::kBFloat16, {300, 513});
    TestTensor residual(Type::kBFloat16, {300, 513});
    input.fill([](int64_t i) { return noise(i); });
    residual.fill([](int64_t i) { return noise(i, 2); });
    ASSERT_EQ(run("fused_add_rms_norm", {value(input), value(residual), value(weight), value(1e-6)},
                  host),
              OPMUX_OK);
    if (first.empty()) first = input.bytes();
    EXPECT_EQ(input.bytes(), first);
  }
}

}  // namespace
}  // namespace opmux::test
