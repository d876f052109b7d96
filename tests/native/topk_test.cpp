// SPDX-License-Identifier: Apache-2.0
//
// topk_softmax, topk_sigmoid and grouped_topk against float64.
//
// Bounds, in units of 2^-24, as the kernels derive them: 5 for a score; a renormalized weight is
// one score over a sum of scores, 5 each, and one rounding: 11. Two scores closer than their bounds
// may change places, so that selections are judged by the exact scores of what was selected.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/native/calls.hpp"
#include "tests/native/reference.hpp"

namespace opmux::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kScoreUnits = 5.0;
constexpr double kWeightUnits = 11.0;

struct Outputs {
  explicit Outputs(int64_t tokens, int64_t k, Type index = Type::kInt32)
      : weights(Type::kFloat32, {tokens, k}),
        indices(index, {tokens, k}),
        sources(Type::kInt32, {tokens, k}) {}
  TestTensor weights;
  TestTensor indices;
  TestTensor sources;
};

Values softmax_call(TestTensor& gating, OpmuxValue bias, OpmuxValue padding, bool renormalize,
                    Outputs& out) {
  return {
      value(gating),     bias, padding, value(renormalize), value(out.weights), value(out.indices),
      value(out.sources)};
}

Values sigmoid_call(TestTensor& gating, OpmuxValue bias, OpmuxValue padding, bool renormalize,
                    double scaling, Outputs& out) {
  return {value(gating),
          bias,
          padding,
          value(renormalize),
          value(scaling),
          value(out.weights),
          value(out.indices),
          value(out.sources)};
}

// Indices distinct and in range; each chosen biased score as great as the one that float64 ranks
// there, within the bounds; the weights as float64 computes them from the same choice.
void expect_row(const std::vector<double>& scores, const std::vector<double>& bias,
                const std::vector<double>& chosen, const std::vector<double>& weights,
                bool renormalize, double scaling) {
  std::vector<double> biased = scores;
  for (size_t i = 0; i < bias.size(); ++i) biased[i] += bias[i];
  const auto k = static_cast<int64_t>(chosen.size());
  const std::vector<int64_t> ranked = reference::greatest(biased, k);
  double sum = 0.0;
  for (const double index : chosen) sum += scores[static_cast<size_t>(index)];
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto expert = static_cast<size_t>(chosen[i]);
    const double best = biased[static_cast<size_t>(ranked[i])];
    ASSERT_NEAR(biased[expert], best,
                std::ldexp(2.0 * kScoreUnits + 2.0, -24) * std::max(1.0, std::abs(best)));
    const double exact = scores[expert] * scaling / (renormalize && sum > 0.0 ? sum : 1.0);
    ASSERT_TRUE(
        close(Type::kFloat32, weights[i], exact, {kWeightUnits, 2.0 * std::ldexp(scaling, -149)}));
  }
}

std::vector<double> row_of(const TestTensor& tensor, int64_t row, int64_t width) {
  std::vector<double> result;
  for (int64_t i = 0; i < width; ++i) result.push_back(tensor.at(row * width + i));
  return result;
}

void expect_distinct(const std::vector<double>& indices, int64_t experts) {
  const std::set<double> distinct(indices.begin(), indices.end());
  EXPECT_EQ(distinct.size(), indices.size());
  for (const double index : indices) {
    EXPECT_GE(index, 0.0);
    EXPECT_LT(index, static_cast<double>(experts));
  }
}

std::vector<double> sigmoid(std::vector<double> row) {
  for (double& x : row) x = 1.0 / (1.0 + std::exp(-x));
  return row;
}

TEST(TopK, AgreesWithFloat64ForEveryTypeSizeAndTarget) {
  for (const native::KernelTable* target : targets()) {
    for (const bool softmax : {true, false}) {
      for (const Type type : kFloatTypes) {
        for (const int64_t experts : {1, 3, 8, 60, 64, 257, 1025}) {
          for (const bool renormalize : {false, true}) {
            for (const bool with_bias : {false, true}) {
              const int64_t k = std::min<int64_t>(experts, 7);
              TestTensor gating(type, {4, experts});
              TestTensor bias(Type::kFloat32, {experts});
              Outputs out(4, k);
              gating.fill([](int64_t i) { return 6.0 * noise(i); });
              bias.fill([](int64_t i) { return 0.2 * noise(i, 2); });
              const OpmuxValue bias_value = with_bias ? value(bias) : none();
              const double scaling = softmax ? 1.0 : 2.5;
              const Values call =
                  softmax ? softmax_call(gating, bias_value, none(), renormalize, out)
                          : sigmoid_call(gating, bias_value, none(), renormalize, scaling, out);
              ASSERT_EQ(run_on(target, softmax ? "topk_softmax" : "topk_sigmoid", call), OPMUX_OK)
                  << take_error();
              for (int64_t row = 0; row < 4; ++row) {
                const std::vector<double> logits = row_of(gating, row, experts);
                const std::vector<double> chosen = row_of(out.indices, row, k);
                expect_distinct(chosen, experts);
                expect_row(softmax ? reference::softmax(logits) : sigmoid(logits),
                           with_bias ? bias.values() : std::vector<double>(), chosen,
                           row_of(out.weights, row, k), renormalize, scaling);
                for (int64_t i = 0; i < k; ++i) {
                  EXPECT_EQ(out.sources.at(row * k + i), static_cast<double>(i * 4 + row));
                }
              }
              EXPECT_TRUE(out.weights.guards_hold());
              EXPECT_TRUE(out.indices.guards_hold());
            }
          }
        }
      }
    }
  }
}

TEST(TopK, KnownValues) {
  for (const bool renormalize : {false, true}) {
    TestTensor gating(Type::kFloat32, {1, 4});
    Outputs out(1, 2);
    gating.fill([](int64_t i) { return static_cast<double>(i + 1); });
    ASSERT_EQ(run("topk_softmax", softmax_call(gating, none(), none(), renormalize, out)),
              OPMUX_OK);
    EXPECT_EQ(out.indices.values(), (std::vector<double>{3, 2}));
    EXPECT_NEAR(out.weights.at(0), renormalize ? 0.731059 : 0.643914, 1e-6);
    EXPECT_NEAR(out.weights.at(1), renormalize ? 0.268941 : 0.236883, 1e-6);
  }
}

TEST(TopK, TheBiasMovesTheSelectionAndNotTheWeights) {
  TestTensor gating(Type::kFloat32, {1, 4});
  TestTensor bias(Type::kFloat32, {4}, {{3}, 1});
  Outputs out(1, 2);
  gating.fill([](int64_t) { return 0.0; });
  bias.fill([](int64_t i) { return i == 2 ? 5.0 : i == 3 ? 1.0 : 0.0; });
  ASSERT_EQ(run("topk_softmax", softmax_call(gating, value(bias), none(), false, out)), OPMUX_OK);
  EXPECT_EQ(out.indices.values(), (std::vector<double>{2, 3}));
  EXPECT_EQ(out.weights.values(), (std::vector<double>{0.25, 0.25}));
}

TEST(TopK, TiesGoToTheLowerIndex) {
  for (const native::KernelTable* target : targets()) {
    for (const int64_t experts : {4, 60, 600}) {
      TestTensor gating(Type::kBFloat16, {1, experts});
      Outputs out(1, 4);
      gating.fill([](int64_t i) { return i % 2 == 0 ? 0.0 : -0.0; });
      for (const bool softmax : {true, false}) {
        ASSERT_EQ(softmax ? run_on(target, "topk_softmax",
                                   softmax_call(gating, none(), none(), true, out))
                          : run_on(target, "topk_sigmoid",
                                   sigmoid_call(gating, none(), none(), true, 1.0, out)),
                  OPMUX_OK);
        EXPECT_EQ(out.indices.values(), (std::vector<double>{0, 1, 2, 3}));
        EXPECT_EQ(out.weights.values(), (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
      }
    }
  }
}

struct Degenerate {
  std::vector<double> row;
  std::vector<double> softmax_indices;
  std::vector<double> softmax_weights;
  std::vector<double> sigmoid_indices;
};

TEST(TopK, DegenerateRowsKeepIndicesDistinct) {
  const double nan = std::nan("");
  const Degenerate cases[] = {
      {{nan, nan, nan, nan}, {0, 1}, {0, 0}, {0, 1}},
      {{-kInfinity, -kInfinity, -kInfinity, -kInfinity}, {0, 1}, {0, 0}, {0, 1}},
      {{nan, 1, 3, 2}, {0, 1}, {0, 0}, {2, 3}},
      {{1, kInfinity, 2, 0}, {0, 1}, {0, 0}, {1, 2}},
      {{-kInfinity, 0, -kInfinity, -kInfinity}, {1, 0}, {1, 0}, {1, 0}},
      {{0, 1000, -1000, 0}, {1, 0}, {1, 0}, {1, 0}},
  };
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const bool renormalize : {false, true}) {
        for (const Degenerate& degenerate : cases) {
          TestTensor gating(type, {1, 4});
          Outputs out(1, 2);
          gating.fill([&](int64_t i) { return degenerate.row[static_cast<size_t>(i)]; });
          ASSERT_EQ(run_on(target, "topk_softmax",
                           softmax_call(gating, none(), none(), renormalize, out)),
                    OPMUX_OK);
          EXPECT_EQ(out.indices.values(), degenerate.softmax_indices);
          EXPECT_EQ(out.weights.values(), degenerate.softmax_weights);
          ASSERT_EQ(run_on(target, "topk_sigmoid",
                           sigmoid_call(gating, none(), none(), renormalize, 1.0, out)),
                    OPMUX_OK);
          EXPECT_EQ(out.indices.values(), degenerate.sigmoid_indices);
          for (const double weight : out.weights.values()) EXPECT_TRUE(std::isfinite(weight));
        }
      }
    }
  }
}

TEST(TopK, AnInfiniteOrNanBiasKeepsIndicesDistinct) {
  TestTensor gating(Type::kFloat32, {1, 4});
  TestTensor bias(Type::kFloat32, {4});
  Outputs out(1, 4);
  gating.fill([](int64_t i) { return static_cast<double>(i); });
  const double values[] = {std::nan(""), kInfinity, -kInfinity, 0.0};
  bias.fill([&](int64_t i) { return values[i]; });
  ASSERT_EQ(run("topk_softmax", softmax_call(gating, value(bias), none(), false, out)), OPMUX_OK);
  EXPECT_EQ(out.indices.values(), (std::vector<double>{1, 3, 0, 2}));
}

TEST(TopK, PaddingRowsGetNoExpertAndTheirWeights) {
  for (const Type index : {Type::kInt32, Type::kInt64, Type::kUint32}) {
    TestTensor gating(Type::kFloat16, {3, 8});
    TestTensor padding(Type::kBool, {3}, {{5}, 1});
    Outputs padded(3, 2, index);
    Outputs plain(3, 2, index);
    gating.fill([](int64_t i) { return noise(i); });
    padding.fill([](int64_t i) { return i == 1 ? 1.0 : 0.0; });
    ASSERT_EQ(run("topk_softmax", softmax_call(gating, none(), value(padding), true, padded)),
              OPMUX_OK)
        << take_error();
    ASSERT_EQ(run("topk_softmax", softmax_call(gating, none(), none(), true, plain)), OPMUX_OK);
    const double nobody = index == Type::kUint32 ? 4294967295.0 : -1.0;
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(padded.indices.at(i), i / 2 == 1 ? nobody : plain.indices.at(i));
    }
    EXPECT_EQ(padded.weights.values(), plain.weights.values());
    EXPECT_EQ(padded.sources.values(), plain.sources.values());
  }
}

TEST(TopK, FollowsStridesAndOffsets) {
  TestTensor gating(Type::kBFloat16, {5, 60}, {{64, 1}, 3});
  TestTensor transposed(Type::kBFloat16, {5, 60}, {{1, 5}, 0});
  gating.fill([](int64_t i) { return 4.0 * noise(i); });
  transposed.fill([](int64_t i) { return 4.0 * noise(i); });
  Outputs plain(5, 4);
  ASSERT_EQ(run("topk_softmax", softmax_call(gating, none(), none(), true, plain)), OPMUX_OK);
  TestTensor weights(Type::kFloat32, {5, 4}, {{1, 5}, 1});
  TestTensor indices(Type::kInt64, {5, 4}, {{9, 2}, 3});
  TestTensor sources(Type::kInt32, {5, 4}, {{20, 3}, 2});
  ASSERT_EQ(run("topk_softmax", {value(transposed), none(), none(), value(true), value(weights),
                                 value(indices), value(sources)}),
            OPMUX_OK);
  EXPECT_EQ(weights.values(), plain.weights.values());
  EXPECT_EQ(indices.values(), plain.indices.values());
  EXPECT_EQ(sources.values(), plain.sources.values());
  EXPECT_TRUE(weights.guards_hold());
  EXPECT_TRUE(indices.guards_hold());
  EXPECT_TRUE(sources.guards_hold());
}

TEST(TopK, ManyThreadsGiveTheSameBytesAsOne) {
  TestTensor gating(Type::kFloat32, {3000, 130});
  gating.fill([](int64_t i) { return 4.0 * noise(i); });
  Outputs alone(3000, 8);
  Outputs shared(3000, 8);
  ASSERT_EQ(run("topk_sigmoid", sigmoid_call(gating, none(), none(), true, 2.0, alone)), OPMUX_OK);
  take_parallel_calls();
  ASSERT_EQ(
      run("topk_sigmoid", sigmoid_call(gating, none(), none(), true, 2.0, shared), threaded_host()),
      OPMUX_OK);
  EXPECT_EQ(take_parallel_calls(), 1);
  EXPECT_EQ(alone.weights.bytes(), shared.weights.bytes());
  EXPECT_EQ(alone.indices.bytes(), shared.indices.bytes());
}

TEST(TopK, NoTokensIsFineAndNoMemoryIsAnErrorBeforeAnything) {
  TestTensor gating(Type::kFloat32, {0, 8});
  Outputs none_of(0, 2);
  EXPECT_EQ(run("topk_softmax", softmax_call(gating, none(), none(), true, none_of), poor_host()),
            OPMUX_OK);
  TestTensor some(Type::kFloat32, {1, 8});
  Outputs out(1, 2);
  EXPECT_EQ(run("topk_softmax", softmax_call(some, none(), none(), true, out), poor_host()),
            OPMUX_ERROR_BEFORE_LAUNCH);
  EXPECT_EQ(take_error(), "workspace: expected 64 bytes, the host has none left");
  EXPECT_TRUE(out.weights.untouched());
}

// ---- grouped_topk

struct Grouped {
  int64_t groups;
  int64_t chosen;
  int64_t topk;
};

Values grouped_call(TestTensor& scores, TestTensor& bias, const Grouped& how, bool renormalize,
                    double scaling, int64_t function, TestTensor& values, TestTensor& indices) {
  return {value(scores),      value(bias),    value(how.groups), value(how.chosen), value(how.topk),
          value(renormalize), value(scaling), value(function),   value(values),     value(indices)};
}

// The experts that float64 chooses; the data of the tests keeps scores apart by more than the
// bounds, so that the order is certain.
std::vector<int64_t> grouped_choice(std::vector<double> biased, const Grouped& how) {
  const auto size = static_cast<int64_t>(biased.size()) / how.groups;
  std::vector<double> of_groups;
  for (int64_t group = 0; group < how.groups; ++group) {
    std::vector<double> members(biased.begin() + group * size, biased.begin() + (group + 1) * size);
    std::sort(members.rbegin(), members.rend());
    of_groups.push_back(size == 1 ? members[0] : members[0] + members[1]);
  }
  const std::vector<int64_t> best = reference::greatest(of_groups, how.chosen);
  const std::set<int64_t> kept(best.begin(), best.end());
  for (size_t i = 0; i < biased.size(); ++i) {
    if (kept.count(static_cast<int64_t>(i) / size) == 0) biased[i] = -kInfinity;
  }
  return reference::greatest(biased, how.topk);
}

TEST(GroupedTopK, AgreesWithFloat64) {
  for (const native::KernelTable* target : targets()) {
    for (const Type type : kFloatTypes) {
      for (const Type value_type : {Type::kFloat32, type}) {
        for (const Grouped& how :
             {Grouped{8, 4, 8}, {1, 1, 6}, {4, 4, 3}, {16, 3, 5}, {64, 7, 7}}) {
          for (const int64_t function : {0, 1}) {
            for (const bool renormalize : {false, true}) {
              const int64_t experts = 64;
              TestTensor scores(type, {3, experts});
              TestTensor bias(type, {experts});
              TestTensor values(value_type, {3, how.topk});
              TestTensor indices(Type::kInt32, {3, how.topk});
              // Multiples of 1/64 in a different order in each row.
              scores.fill([&](int64_t i) {
                return static_cast<double>((i * 37 + i / experts * 11) % experts) / 64.0;
              });
              bias.fill([](int64_t i) { return static_cast<double>(i % 4) / 32.0; });
              ASSERT_EQ(run_on(target, "grouped_topk",
                               grouped_call(scores, bias, how, renormalize, 2.5, function, values,
                                            indices)),
                        OPMUX_OK)
                  << take_error();
              for (int64_t row = 0; row < 3; ++row) {
                std::vector<double> unbiased = row_of(scores, row, experts);
                if (function == 1) unbiased = sigmoid(unbiased);
                std::vector<double> biased = unbiased;
                for (size_t i = 0; i < biased.size(); ++i) {
                  biased[i] += bias.at(static_cast<int64_t>(i));
                }
                const std::vector<int64_t> chosen = grouped_choice(biased, how);
                double sum = 0.0;
                for (const int64_t expert : chosen) sum += unbiased[static_cast<size_t>(expert)];
                for (int64_t i = 0; i < how.topk; ++i) {
                  const auto expert = static_cast<size_t>(chosen[static_cast<size_t>(i)]);
                  ASSERT_EQ(indices.at(row * how.topk + i), static_cast<double>(expert))
                      << row << " " << i << " of " << how.groups << " groups";
                  const double exact = unbiased[expert] * 2.5 / (renormalize ? sum : 1.0);
                  ASSERT_TRUE(
                      close(value_type, values.at(row * how.topk + i), exact, {kWeightUnits, 0.0}));
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(GroupedTopK, ChoosesByTheTwoBestOfAGroup) {
  // Group 1 has the best expert, group 0 the best pair.
  TestTensor scores(Type::kFloat32, {1, 4});
  TestTensor bias(Type::kFloat32, {4});
  TestTensor values(Type::kFloat32, {1, 1});
  TestTensor indices(Type::kInt64, {1, 1});
  const double given[] = {0.5, 0.625, 0.75, 0.125};
  scores.fill([&](int64_t i) { return given[i]; });
  bias.fill([](int64_t) { return 0.0; });
  ASSERT_EQ(
      run("grouped_topk", grouped_call(scores, bias, {2, 1, 1}, false, 1.0, 0, values, indices)),
      OPMUX_OK);
  EXPECT_EQ(indices.at(0), 1.0);
  EXPECT_EQ(values.at(0), 0.625);
}

TEST(GroupedTopK, ScoresThatAreNotFiniteComeLastAndWeighNothing) {
  const double nan = std::nan("");
  const double given[] = {nan, 0.5, kInfinity, 0.25, -kInfinity, 0.125, 0.0625, nan};
  for (const int64_t function : {0, 1}) {
    TestTensor scores(Type::kFloat32, {1, 8});
    TestTensor bias(Type::kFloat32, {8});
    TestTensor values(Type::kFloat32, {1, 6});
    TestTensor indices(Type::kInt32, {1, 6});
    scores.fill([&](int64_t i) { return given[i]; });
    bias.fill([](int64_t) { return 0.0; });
    ASSERT_EQ(run("grouped_topk",
                  grouped_call(scores, bias, {1, 1, 6}, false, 1.0, function, values, indices)),
              OPMUX_OK);
    EXPECT_EQ(indices.values(), (std::vector<double>{1, 3, 5, 6, 0, 2}));
    EXPECT_EQ(values.at(4), 0.0);
    EXPECT_EQ(values.at(5), 0.0);
  }
}

TEST(GroupedTopK, ARowWithoutFiniteGroupsTakesTheFirstExperts) {
  TestTensor scores(Type::kFloat32, {2, 8});
  TestTensor bias(Type::kBFloat16, {8});
  TestTensor values(Type::kFloat32, {2, 4});
  TestTensor indices(Type::kInt32, {2, 4});
  scores.fill([](int64_t i) { return i < 8 ? std::nan("") : 1.0; });
  bias.fill([](int64_t) { return 0.0; });
  ASSERT_EQ(
      run("grouped_topk", grouped_call(scores, bias, {4, 2, 4}, true, 3.0, 0, values, indices)),
      OPMUX_OK);
  EXPECT_EQ(indices.values(), (std::vector<double>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(values.at(0), 0.25);
  EXPECT_EQ(values.at(4), 0.75);
}

}  // namespace
}  // namespace opmux::test
