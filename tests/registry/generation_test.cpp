// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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
  std::vector<Rejection> rejections;
  Registry& registry =
      Registry::create({test::declare("mark(Tensor(a!) x, Tensor(b!) y) -> ()")}, 2, rejections);
  Mark marks[2] = {{1}, {2}};
  const BoundCall* bindings[2];
  for (std::uint32_t index = 0; index < 2; ++index) {
    BoundCall binding;
    binding.call = &Mark::run;
    binding.binding = &marks[index];
    binding.counter = index;
    binding.provider = "p" + std::to_string(index);
    bindings[index] = &registry.add_binding(std::move(binding));
  }
  const auto publish = [&](int which) {
    auto generation = std::make_unique<Generation>();
    generation->routes.resize(1);
    generation->routes[0][0].entries = {bindings[which]};
    registry.publish(std::move(generation));
  };
  publish(0);

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
  EXPECT_EQ(registry.current().number, static_cast<std::uint64_t>(kSwaps) + 2);
  EXPECT_EQ(registry.counters().sum(0).calls + registry.counters().sum(1).calls, calls.load());
}

TEST(CountersTest, KeepTheCountsOfThreadsThatEnded) {
  Counters counters(1);
  for (int thread = 0; thread < 3; ++thread) {
    std::thread([&] { BindingCounterCell::increment(counters.local().cells[0].calls); }).join();
  }
  EXPECT_EQ(counters.sum(0).calls, 3u);
}

TEST(CountersTest, KeepTwoRuntimesApartOnOneThread) {
  Counters first(1);
  Counters second(1);
  for (int round = 0; round < 4; ++round) {
    BindingCounterCell::increment(first.local().cells[0].calls);
    if (round % 2 == 0) BindingCounterCell::increment(second.local().cells[0].calls);
  }
  EXPECT_EQ(first.sum(0).calls, 4u);
  EXPECT_EQ(second.sum(0).calls, 2u);
}

}  // namespace
}  // namespace opmux
