// SPDX-License-Identifier: Apache-2.0
//
// The gated activations against float64.
//
// Bounds, in units of 2^-24, as the kernels derive them
// (plugins/native/cpu/kernels/activation.cpp): float32 7 (silu, gelu_tanh) and 16 (gelu); 16-bit
// types 72, 72 + 4 |z| and 60 before the result is rounded to them, z being the argument of the
// exponential. A product with a subnormal activation may be off by 2^-149 times the other half.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/native/calls.hpp"
#include "tests/native/reference.hpp"

namespace opmux::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Operator {
  const char* name;
  double (*activation)(double);
};

constexpr Operator kOperators[] = {{"silu_and_mul", reference::silu},
                                   {"gelu_and_mul", reference::gelu},
                                   {"gelu_tanh_and_mul", reference::gelu_tanh}};

Bound bound_of(const Operator& op, Type type, double x, double y) {
  const double other = std::ldexp(std::max(1.0, std::abs(y)), -149);
  const bool wide = type == Type::kFloat32;
  if (op.activation == reference::gelu) return {wide ? 16.0 : 60.0, other};
  if (wide) return {7.0, other};
  const double z = op.activation == reference::gelu_tanh
                       ? std::min(200.0, std::abs(reference::gelu_tanh_argument(x)))
                       : 0.0;
  return {72.0 + 4.0 * z, other};
}

// Checks all elements of out [rows, d] against input [rows, 2d].
void expect_right(const Operator& op, const TestTensor& input, const TestTensor& out, int64_t d) {
  for (int64_t i = 0; i < out.count(); ++i) {
    const double x = input.at(i / d * 2 * d + i % d);
    const double y = input.at(i / d * 2 * d + d + i % d);
    ASSERT_TRUE(close(out.type(), out.at(i), op.activation(x) * y, bound_of(op, out.type(), x, y)))
        << op.name << " of " << x << " and " << y << " at " << i;
  }
}

TEST(Activation, AgreesWithFloat64ForEveryTypeWidthAndTarget) {
  for (const native::KernelTable* target : targets()) {
    for (const Operator& op : kOperators) {
      for (const Type type : kFloatTypes) {
        for (const int64_t d : {1, 2, 7, 16, 64, 513, 1030}) {
          TestTensor input(type, {3, 2 * d});
          TestTensor out(type, {3, d});
          input.fill([](int64_t i) { return 8.0 * noise(i); });
          ASSERT_EQ(run_on(target, op.name, {value(input), value(out)}), OPMUX_OK) << take_error();
          SCOPED_TRACE(target->target);
          expect_right(op, input, out, d);
          EXPECT_TRUE(out.guards_hold());
        }
      }
    }
  }
}

// Every float16 and bfloat16 as the gate, against several other halves.
TEST(Activation, IsRightForEverySixteenBitGate) {
  for (const native::KernelTable* target : targets()) {
    for (const Operator& op : kOperators) {
      for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
        for (const double y : {1.0, -0.71875, 1024.0, 0x1p-14}) {
          TestTensor input(type, {1, 131072});
          TestTensor out(type, {1, 65536});
          input.fill(
              [&](int64_t i) { return i < 65536 ? decode16(type, static_cast<uint16_t>(i)) : y; });
          ASSERT_EQ(run_on(target, op.name, {value(input), value(out)}), OPMUX_OK);
          SCOPED_TRACE(target->target);
          for (int64_t i = 0; i < 65536; ++i) {
            const double x = input.at(i);
            // What the formula gives for an infinite gate, and zero for what float32 cannot hold.
            const double exact = x == -kInfinity ? std::nan("") : op.activation(x) * y;
            ASSERT_TRUE(close(type, out.at(i), exact, bound_of(op, type, x, y)))
                << op.name << " of " << x << " and " << y;
          }
        }
      }
    }
  }
}

TEST(Activation, IsRightForFloat32OfEveryMagnitude) {
  for (const native::KernelTable* target : targets()) {
    for (const Operator& op : kOperators) {
      // Magnitudes 2^-149 to 2^127, both signs, 64 mantissas each.
      const int64_t d = int64_t{277} * 2 * 64;
      TestTensor input(Type::kFloat32, {2, 2 * d});
      TestTensor out(Type::kFloat32, {2, d});
      input.fill([&](int64_t i) {
        const int64_t column = i % (2 * d);
        if (column >= d) return i < 2 * d ? 1.5 : std::ldexp(1.0 + noise(i) * 0.25, 60);
        const double magnitude =
            std::ldexp(1.0 + 0.499 * (1.0 + noise(i)), static_cast<int>(column % 277) - 149);
        return column / 277 % 2 == 0 ? magnitude : -magnitude;
      });
      ASSERT_EQ(run_on(target, op.name, {value(input), value(out)}), OPMUX_OK);
      SCOPED_TRACE(target->target);
      expect_right(op, input, out, d);
    }
  }
}

// Densely where the exponential matters: the float32 bounds are tight there.
TEST(Activation, IsRightForDenseFloat32Gates) {
  for (const Operator& op : kOperators) {
    const int64_t d = 1 << 18;
    TestTensor input(Type::kFloat32, {1, 2 * d});
    TestTensor out(Type::kFloat32, {1, d});
    input.fill([&](int64_t i) {
      return i < d ? -110.0 + 220.0 * static_cast<double>(i) / static_cast<double>(d)
                   : 1.0 + 0.5 * noise(i);
    });
    ASSERT_EQ(run(op.name, {value(input), value(out)}), OPMUX_OK);
    expect_right(op, input, out, d);
    input.fill([&](int64_t i) { return i < d ? 3.0 * noise(i) : noise(i, 2); });
    ASSERT_EQ(run(op.name, {value(input), value(out)}), OPMUX_OK);
    expect_right(op, input, out, d);
  }
}

TEST(Activation, SpecialValuesFollowTheFormula) {
  const double nan = std::nan("");
  for (const native::KernelTable* target : targets()) {
    for (const Operator& op : kOperators) {
      for (const Type type : kFloatTypes) {
        const double gates[] = {0.0, -0.0, kInfinity, -kInfinity, nan,  -200.0,
                                1.0, 1.0,  1.0,       0.0,        -3e4, kInfinity};
        const double others[] = {2.0, 2.0, 2.0,       2.0,       2.0, 1.0,
                                 nan, 0.0, kInfinity, kInfinity, 1.0, -1.0};
        const double expected[] = {0.0, -0.0, kInfinity, nan, nan,  -0.0,
                                   nan, 0.0,  kInfinity, nan, -0.0, -kInfinity};
        TestTensor input(type, {24});
        TestTensor out(type, {12});
        input.fill([&](int64_t i) { return i < 12 ? gates[i] : others[i - 12]; });
        ASSERT_EQ(run_on(target, op.name, {value(input), value(out)}), OPMUX_OK);
        for (int64_t i = 0; i < 12; ++i) {
          SCOPED_TRACE(std::string(op.name) + " " + name_of(type) + " " + std::to_string(i));
          if (std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(out.at(i))) << out.at(i);
          } else {
            EXPECT_EQ(out.at(i), expected[i]);
            EXPECT_EQ(std::signbit(out.at(i)), std::signbit(expected[i]));
          }
        }
      }
    }
  }
}

TEST(Activation, KnownValues) {
  TestTensor input(Type::kFloat32, {4});
  TestTensor out(Type::kFloat32, {2});
  input.fill([](int64_t i) { return static_cast<double>(i + 1); });
  ASSERT_EQ(run("silu_and_mul", {value(input), value(out)}), OPMUX_OK);
  EXPECT_NEAR(out.at(0), 2.193176, 1e-6);
  EXPECT_NEAR(out.at(1), 7.046377, 1e-6);
}

TEST(Activation, FollowsAnyStridesAndOffsets) {
  const std::vector<Layout> inputs = {
      {{14, 1}, 0}, {{40, 1}, 3}, {{64, 3}, 1}, {{1, 5}, 0}, {{-1, 8}, 64}};
  const std::vector<Layout> outputs = {{{7, 1}, 0}, {{19, 1}, 1}, {{30, 2}, 7}, {{1, 5}, 2}};
  for (const native::KernelTable* target : targets()) {
    for (const Operator& op : kOperators) {
      for (const Type type : kFloatTypes) {
        for (const Layout& in : inputs) {
          if (in.strides[0] < 0) continue;
          for (const Layout& to : outputs) {
            TestTensor input(type, {5, 14}, in);
            TestTensor out(type, {5, 7}, to);
            input.fill([](int64_t i) { return 4.0 * noise(i); });
            ASSERT_EQ(run_on(target, op.name, {value(input), value(out)}), OPMUX_OK);
            expect_right(op, input, out, 7);
            EXPECT_TRUE(out.guards_hold());
            EXPECT_TRUE(input.guards_hold());
          }
        }
      }
    }
  }
}

TEST(Activation, LeadingDimensionsMayBeOfAnyNumberAndStride) {
  TestTensor input(Type::kBFloat16, {2, 3, 2, 8}, {{7, 64, 400, 1}, 0});
  TestTensor out(Type::kBFloat16, {2, 3, 2, 4}, {{100, 30, 9, 2}, 0});
  input.fill([](int64_t i) { return 4.0 * noise(i); });
  // Rows of the input overlap, which only outputs must not.
  ASSERT_EQ(run("silu_and_mul", {value(input), value(out)}), OPMUX_OK);
  expect_right(kOperators[0], input, out, 4);
  EXPECT_TRUE(out.guards_hold());
}

TEST(Activation, EmptyTensorsNeedNoData) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{0, 8}, {3, 0}, {0}, {2, 0, 4}, {0, 0}}) {
    std::vector<int64_t> half = shape;
    half.back() /= 2;
    TestTensor input(Type::kFloat16, shape);
    TestTensor out(Type::kFloat16, half);
    input.view()->data = nullptr;
    out.view()->data = nullptr;
    EXPECT_EQ(run("silu_and_mul", {value(input), value(out)}), OPMUX_OK) << take_error();
  }
}

TEST(Activation, ManyThreadsGiveTheSameBytesAsOne) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{200, 1026}, {1, 400002}}) {
    for (const Type type : kFloatTypes) {
      std::vector<int64_t> half = shape;
      half.back() /= 2;
      TestTensor input(type, shape);
      TestTensor alone(type, half);
      TestTensor shared(type, half);
      input.fill([](int64_t i) { return 6.0 * noise(i); });
      ASSERT_EQ(run("gelu_and_mul", {value(input), value(alone)}), OPMUX_OK);
      take_parallel_calls();
      ASSERT_EQ(run("gelu_and_mul", {value(input), value(shared)}, threaded_host()), OPMUX_OK);
      EXPECT_EQ(take_parallel_calls(), 1);
      EXPECT_EQ(alone.bytes(), shared.bytes());
    }
  }
}

TEST(Activation, SmallCallsStayOnTheCallingThread) {
  TestTensor input(Type::kFloat32, {4, 64});
  TestTensor out(Type::kFloat32, {4, 32});
  input.fill([](int64_t i) { return noise(i); });
  take_parallel_calls();
  ASSERT_EQ(run("silu_and_mul", {value(input), value(out)}), OPMUX_OK);
  EXPECT_EQ(take_parallel_calls(), 0);
}

TEST(Activation, EveryTargetGivesTheSameBytes) {
  for (const Operator& op : kOperators) {
    for (const Type type : kFloatTypes) {
      TestTensor input(type, {8, 2054});
      input.fill([](int64_t i) { return 20.0 * noise(i); });
      std::vector<unsigned char> first;
      for (const native::KernelTable* target : targets()) {
        TestTensor out(type, {8, 1027});
        ASSERT_EQ(run_on(target, op.name, {value(input), value(out)}), OPMUX_OK);
        if (first.empty()) first = out.bytes();
        EXPECT_EQ(out.bytes(), first) << op.name << " " << name_of(type) << " " << target->target;
      }
    }
  }
}

}  // namespace
}  // namespace opmux::test
