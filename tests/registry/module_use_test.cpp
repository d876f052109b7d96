// SPDX-License-Identifier: Apache-2.0
#include "core/registry/module_use.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

TEST(ModuleUseTest, CountsWhoIsInside) {
  ModuleUse use;
  std::optional<ModuleHold> one{use};
  const ModuleHold two{use};
  EXPECT_TRUE(*one);
  EXPECT_EQ(use.inside(), 2);
  one.reset();
  EXPECT_EQ(use.inside(), 1);
}

TEST(ModuleUseTest, LetsNobodyInOnceItCloses) {
  ModuleUse use;
  const ModuleHold inside{use};
  use.close();
  EXPECT_FALSE(ModuleHold{use});
  EXPECT_EQ(use.inside(), 1) << "those inside go on";
}

// The module's "code" is a value that its closer overwrites: a call that reads it afterwards was
// inside a closed module.
TEST(ModuleUseTest, NobodyIsInsideAfterItDrained) {
  constexpr int kRounds = 300;
  constexpr int kCallers = 4;
  struct Module {
    ModuleUse use;
    std::atomic<int> code{1};
  };
  std::vector<Module> modules(kRounds);
  std::atomic<Module*> current{&modules[0]};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      while (!stop) {
        Module& module = *current.load();
        const ModuleHold hold(module.use);
        if (hold && module.code.load(std::memory_order_relaxed) != 1) ++wrong;
      }
    });
  }
  for (int round = 1; round < kRounds; ++round) {
    Module& old = *current.exchange(&modules[static_cast<std::size_t>(round)]);
    old.use.close();
    while (old.use.inside() != 0) std::this_thread::yield();
    old.code.store(0, std::memory_order_relaxed);
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ClosingModuleTest, ACallStartsAgainOnTheNextGeneration) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  test::Script& old_script = op.add("acme");
  ModuleUse use;
  RouteSet routes = op.routes();
  BoundCall counted = *routes.routes.begin()->second[0].entries[0];
  counted.module = &use;
  BoundCall& bound = op.registry().add_binding("counted", counted);
  routes.routes.begin()->second[0].entries = {&bound};
  op.registry().publish(routes);

  float x = 0;
  const Operator<void(Tensor)> call(op.op().state());
  EXPECT_TRUE(call(TensorView(&x, DType::kFloat32, {1})).ok());
  EXPECT_EQ(old_script.calls, 1);
  EXPECT_EQ(use.inside(), 0) << "left again";

  // As a call sees it that has loaded the old generation when the module closes: its own override
  // keeps the old route, and its hold keeps the module.
  const std::optional<OverrideScope> scope =
      OverrideScope::make(op.registry(), op.registry().current());
  ASSERT_TRUE(scope.has_value());
  EXPECT_EQ(use.inside(), 1);
  op.publish();
  use.close();
  EXPECT_TRUE(call(TensorView(&x, DType::kFloat32, {1})).ok());
  EXPECT_EQ(old_script.calls, 2);
  std::thread([&] { EXPECT_TRUE(call(TensorView(&x, DType::kFloat32, {1})).ok()); }).join();
  EXPECT_FALSE(OverrideScope::make(op.registry(), op.registry().prepare(routes)).has_value());
}

// The address sanitizer tells when the call looks at an override that is gone.
TEST(ClosingModuleTest, ACallOnTheWayToItsNextBindingMayLookAtAnOverrideThatEnded) {
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  test::Script& first = op.add("first");
  test::Script& second = op.add("second");
  std::array<ModuleUse, 2> uses;
  RouteSet routes = op.routes();
  std::vector<const BoundCall*>& entries = routes.routes.begin()->second[0].entries;
  for (std::size_t index = 0; index < uses.size(); ++index) {
    BoundCall counted = *op.binding(index);
    counted.module = &uses[index];
    entries[index] = &op.registry().add_binding("counted " + counted.provider, counted);
  }
  std::optional<OverrideScope> scope;
  if (auto made = OverrideScope::make(op.registry(), op.registry().publish(std::move(routes))))
    scope.emplace(std::move(*made));
  op.publish();
  for (ModuleUse& use : uses) use.close();

  first.answer = OPMUX_UNSUPPORTED;
  first.work = [&](const OpmuxCall&) {
    std::thread([&] { scope.reset(); }).join();
    // A scope that is made takes ended ones out of the list.
    const auto nested = OverrideScope::make(op.registry(), op.registry().current());
    EXPECT_TRUE(nested.has_value());
  };
  float x = 0;
  const Operator<void(Tensor)> call(op.op().state());
  EXPECT_TRUE(call(TensorView(&x, DType::kFloat32, {1})).ok());
  EXPECT_EQ(first.calls, 2) << "once held, once on the generation that took over";
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(uses[0].inside() + uses[1].inside(), 0);
}

// A scope that ends on another thread, while its own one is inside the closing module that it held:
// the module waits for that call, too. Its "code" is a value that its closer overwrites.
TEST(ClosingModuleTest, WaitsForCallsOfAnOverrideThatEndsElsewhere) {
  constexpr int kRounds = 400;
  struct Module {
    ModuleUse use;
    std::atomic<int> code{1};
    std::atomic<int> calls{0};
    static OpmuxStatus run(void* self, const OpmuxCall*) {
      auto* const module = static_cast<Module*>(self);
      ++module->calls;
      const bool is_mapped = module->code.load(std::memory_order_relaxed) == 1;
      std::this_thread::yield();
      return is_mapped && module->code.load(std::memory_order_relaxed) == 1
                 ? OPMUX_OK
                 : OPMUX_ERROR_AFTER_LAUNCH;
    }
  };
  test::OneOperator op("op(Tensor(a!) x) -> ()");
  op.add("next");
  std::vector<Module> modules(kRounds);
  std::atomic<int> wrong{0};
  for (int round = 0; round < kRounds; ++round) {
    Module& module = modules[static_cast<std::size_t>(round)];
    RouteSet routes = op.routes();
    BoundCall counted = *op.binding(0);
    counted.call = &Module::run;
    counted.binding = &module;
    counted.module = &module.use;
    routes.routes.begin()->second[0].entries = {
        &op.registry().add_binding("counted " + std::to_string(round), counted)};
    const Generation& held = op.registry().publish(std::move(routes));

    std::optional<OverrideScope> scope;
    std::atomic<bool> is_made{false}, stop{false};
    std::thread caller([&] {
      if (auto made = OverrideScope::make(op.registry(), held)) scope.emplace(std::move(*made));
      is_made = true;
      const Operator<void(Tensor)> call(op.op().state());
      float x = 0;
      while (!stop) {
        if (!call(TensorView(&x, DType::kFloat32, {1})).ok()) ++wrong;
      }
    });
    while (!is_made) std::this_thread::yield();
    op.publish();
    module.use.close();
    const int before = module.calls;
    while (module.calls < before + 2) std::this_thread::yield();
    scope.reset();
    while (module.use.inside() != 0) std::this_thread::yield();
    module.code.store(0, std::memory_order_relaxed);
    stop = true;
    caller.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace opmux
