// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/rules.hpp"
#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

// Each binding writes its generation's mark; a call must see one mark in both of its outputs.
struct Mark {
  std::int64_t value = 0;
  static OpmuxStatus run(void* self, const OpmuxCall* call) {
    for (std::uint32_t index = 0; index < call->value_count; ++index) {
      *static_cast<std::int64_t*>(call->values[index].payload.tensor->data) =
          static_cast<Mark*>(self)->value;
    }
    return OPMUX_OK;
  }
};

TEST(GenerationTest, EveryCallSeesExactlyOneGenerationWhileRoutesAreRebuilt) {
  constexpr int kSwaps = 2000;
  constexpr int kCallers = 8;
  Registry& registry = Registry::create();
  const detail::OperatorState* const state =
      test::declared(registry, "mark(Tensor(a!) x, Tensor(b!) y) -> ()");
  Mark marks[2] = {{1}, {2}};
  const BoundCall* bindings[2];
  for (std::uint32_t index = 0; index < 2; ++index) {
    BoundCall binding;
    binding.call = &Mark::run;
    binding.binding = &marks[index];
    binding.provider = "p" + std::to_string(index);
    binding.counter = registry.counter_of("mark", binding.provider, "cpu");
    bindings[index] = &registry.add_binding(binding.provider, binding);
  }
  const auto publish = [&](int which) {
    RouteSet routes;
    routes.routes[state][0].entries = {bindings[which]};
    registry.publish(std::move(routes));
  };
  publish(1);

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      const Operator<void(Tensor, Tensor)> mark(registry.find("mark"));
      std::int64_t x = 0;
      std::int64_t y = 0;
      const TensorView x_view(&x, DType::kInt64, {1});
      const TensorView y_view(&y, DType::kInt64, {1});
      std::uint64_t mine = 0;
      do {
        if (!mark(x_view, y_view).ok() || x != y || (x != 1 && x != 2)) ++wrong;
        ++mine;
      } while (!stop.load(std::memory_order_relaxed));
      calls += mine;
    });
  }
  for (int swap = 0; swap < kSwaps; ++swap) publish(swap % 2);
  stop = true;
  for (std::thread& caller : callers) caller.join();

  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(registry.current().number, static_cast<std::uint64_t>(kSwaps) + 1);
  EXPECT_EQ(registry.counters().sum(0).calls + registry.counters().sum(1).calls, calls.load());
}

TEST(GenerationTest, RoutesThatDoNotDifferAreNoNewGeneration) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  op.add("acme");
  op.publish();
  const std::uint64_t first = op.registry().current().number;
  op.publish();
  EXPECT_EQ(op.registry().current().number, first);
  op.publish(/*strict=*/true);
  EXPECT_EQ(op.registry().current().number, first + 1);
}

TEST(GenerationTest, RoutesThatComeBackAreTheSameRecord) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  op.add("acme");
  op.publish();
  const OperatorRoute* const before = op.registry().current().routes[0];
  op.publish(/*strict=*/true);
  EXPECT_NE(op.registry().current().routes[0], before);
  op.publish();
  EXPECT_EQ(op.registry().current().routes[0], before);
}

TEST(GenerationTest, AnOperatorThatComesLaterIsFoundFromItsGenerationOn) {
  Registry& registry = Registry::create();
  const auto* const old_state = test::declared(registry, "op(Tensor(a!) x) -> ()");
  RouteSet routes;
  routes.routes[old_state];
  registry.publish(routes);
  const auto* const new_state = test::declared(registry, "later(Tensor(a!) x) -> ()");
  EXPECT_EQ(registry.find("later"), nullptr) << "no generation has it yet";
  routes.routes[new_state];
  registry.publish(routes);
  EXPECT_EQ(registry.find("later"), new_state);
  EXPECT_EQ(registry.find("op"), old_state);
}

TEST(GenerationTest, HandlesOfARemovedOperatorSaySinceWhen) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  op.add("acme");
  op.publish();
  const std::uint64_t before = op.registry().current().number;
  op.registry().publish({});
  EXPECT_EQ(op.registry().find("op"), nullptr);
  float x = 0;
  const Status status =
      Operator<void(Tensor)>(op.op().state())(TensorView(&x, DType::kFloat32, {1}));
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "registry.removed_operator");
  EXPECT_EQ(status.rejection()->found, "none since generation " + std::to_string(before + 1));
  // Unchanged, the generation after it tells the same.
  op.registry().publish({true, {}});
  EXPECT_EQ(Operator<void(Tensor)>(op.op().state())(TensorView(&x, DType::kFloat32, {1}))
                .rejection()
                ->found,
            status.rejection()->found);
}

TEST(GenerationTest, ManyReasonsDoNotPushOutTheRunningRoute) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  op.add("acme");
  op.publish();
  // Overrides of a program that makes up routes, each with a reason of its own.
  for (int made = 0; made < 40; ++made) {
    RouteSet routes = op.routes();
    routes.routes.begin()->second[0].skipped.push_back(
        {"other", reject(rules::kRegistryNotRouted, std::to_string(made), "a route", "none")});
    op.registry().prepare(std::move(routes));
  }
  const std::uint64_t before = op.registry().current().number;
  op.publish();
  EXPECT_EQ(op.registry().current().number, before);
}

TEST(GenerationTest, ADeclarationThatNoGenerationHadIsForgotten) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  op.add("acme");
  op.publish();
  const std::uint64_t before = op.registry().current().number;
  test::declared(op.registry(), "later(Tensor(a!) x) -> ()");
  op.publish();
  EXPECT_EQ(op.registry().current().number, before) << "of a change that was refused";

  const auto* const mended = test::declared(op.registry(), "later(Tensor(a!) x, int n) -> ()");
  RouteSet routes = op.routes();
  routes.routes[mended];
  op.registry().publish(routes);
  EXPECT_EQ(op.registry().find("later"), mended);
  EXPECT_EQ(op.registry().publish(routes).number, before + 1);

  float x = 0;
  EXPECT_EQ(
      Operator<void(Tensor, std::int64_t)>(mended)(TensorView(&x, DType::kFloat32, {1}), 1).code(),
      StatusCode::kUnsupported);
}

TEST(GenerationTest, ADeclarationWithAnotherSchemaIsRefused) {
  Registry& registry = Registry::create();
  const auto* const state = test::declared(registry, "op(Tensor(a!) x) -> ()");
  RouteSet routes;
  routes.routes[state];
  registry.publish(std::move(routes));
  std::vector<Rejection> rejections;
  EXPECT_EQ(registry.declare({test::declare("op(Tensor(a!) x) -> ()")}, rejections),
            OperatorList{state});
  EXPECT_TRUE(rejections.empty());
  EXPECT_EQ(registry.declare({test::declare("op(Tensor(a!) x, int n) -> ()")}, rejections),
            OperatorList{nullptr});
  ASSERT_EQ(rejections.size(), 1u);
  EXPECT_EQ(rejections[0].rule, "registry.redeclared_operator");
  EXPECT_EQ(rejections[0].expected, "op(Tensor(a!) x) -> ()");
  EXPECT_EQ(rejections[0].found, "op(Tensor(a!) x, int n) -> ()");
}

// ---- counters ----

TEST(CountersTest, KeepTheCountsOfThreadsThatEnded) {
  Counters counters;
  for (int thread = 0; thread < 3; ++thread) {
    std::thread([&] { BindingCounterCell::increment(counters.local().cell(0).calls); }).join();
  }
  EXPECT_EQ(counters.sum(0).calls, 3u);
}

TEST(CountersTest, AThreadGoesOnWithTheBlockOfOneThatEnded) {
  Counters counters;
  for (int thread = 0; thread < 100; ++thread) {
    std::thread([&] {
      CounterBlock& block = counters.local();
      EXPECT_EQ(block.last_generation, nullptr) << "this thread called nothing yet";
      BindingCounterCell::increment(block.cell(0).calls);
      static const Generation generation;
      block.last_generation = &generation;
    }).join();
  }
  EXPECT_EQ(counters.sum(0).calls, 100u);
  EXPECT_EQ(counters.block_count(), 1u);
}

TEST(CountersTest, CountInDestructorsOfAThread) {
  static Counters counters;
  struct Late {
    ~Late() { BindingCounterCell::increment(counters.local().cell(0).calls); }
    int touched = 0;
  };
  for (int thread = 0; thread < 3; ++thread) {
    std::thread([] {
      thread_local Late late;
      ++late.touched;
      BindingCounterCell::increment(counters.local().cell(0).calls);
    }).join();
  }
  EXPECT_EQ(counters.sum(0).calls, 6u);
  EXPECT_EQ(counters.block_count(), 1u);
}

TEST(CountersTest, KeepTheCountsWhenBindingsAreAdded) {
  Counters counters;
  BindingCounterCell::increment(counters.local().cell(3).calls);
  BindingCounterCell::increment(counters.local().cell(3).shadow_errors);
  BindingCounterCell::increment(counters.local().cell(5000).errors);
  EXPECT_EQ(counters.sum(3).calls, 1u);
  EXPECT_EQ(counters.sum(3).shadow_errors, 1u);
  EXPECT_EQ(counters.sum(5000).errors, 1u);
  EXPECT_EQ(counters.sum(9999).calls, 0u);
}

TEST(CountersTest, KeepTwoRuntimesApartOnOneThread) {
  Counters first;
  Counters second;
  for (int round = 0; round < 4; ++round) {
    BindingCounterCell::increment(first.local().cell(0).calls);
    if (round % 2 == 0) BindingCounterCell::increment(second.local().cell(0).calls);
  }
  EXPECT_EQ(first.sum(0).calls, 4u);
  EXPECT_EQ(second.sum(0).calls, 2u);
}

}  // namespace
}  // namespace opmux
