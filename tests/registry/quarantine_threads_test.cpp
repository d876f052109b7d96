// SPDX-License-Identifier: Apache-2.0
//
// Quarantine while many threads call and routes are swapped.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

// A binding that is told when to fail, and counts who is inside.
struct Flaky {
  std::atomic<bool> fails{false};
  std::atomic<int> calls{0};

  static OpmuxStatus run(void* self, const OpmuxCall*) {
    auto* flaky = static_cast<Flaky*>(self);
    flaky->calls.fetch_add(1, std::memory_order_relaxed);
    return flaky->fails ? OPMUX_ERROR_BEFORE_LAUNCH : OPMUX_OK;
  }
};

std::atomic<std::int64_t> clock_milliseconds{0};
MonotonicTime test_clock() {
  return MonotonicTime(std::chrono::milliseconds(clock_milliseconds.load()));
}

struct Fixture {
  Registry& registry = Registry::create();
  const detail::OperatorState* state =
      test::declared(registry, "silu_and_mul(Tensor input, Tensor(a!) out) -> ()");
  Flaky first, second;
  RouteSet routes;

  Fixture() {
    clock_milliseconds = 0;
    registry.set_clock(&test_clock);
    DeviceRoute& route = routes.routes[state][0];
    for (Flaky* flaky : {&first, &second}) {
      BoundCall binding;
      binding.call = &Flaky::run;
      binding.binding = flaky;
      binding.provider = flaky == &first ? "acme" : "native";
      binding.counter = registry.counter_of("silu_and_mul", binding.provider, "cpu");
      route.entries.push_back(&registry.add_binding(binding.provider, binding));
    }
    route.on_error = OnError::kNext;
    route.quarantine = {3, std::chrono::milliseconds(10)};
    registry.publish(routes);
  }

  // Calls `times` times on each of `threads` threads; every call must be served.
  void call(int threads, int times) {
    std::vector<std::thread> callers;
    std::atomic<int> lost{0};
    for (int at = 0; at < threads; ++at) {
      callers.emplace_back([&] {
        std::array<float, 8> data{};
        const TensorView input(data.data(), DType::kFloat32, {2, 4});
        const TensorView out(data.data(), DType::kFloat32, {2, 2});
        const Operator<void(Tensor, Tensor)> silu(state);
        for (int call = 0; call < times; ++call) {
          if (!silu(input, out).ok()) ++lost;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(lost, 0);
  }

  bool is_fast() const {
    return registry.current().routes[state->index]->first[0].call.load() != nullptr;
  }
};

TEST(QuarantineThreads, OneCallerTriesABindingWhoseTimeIsOver) {
  Fixture fixture;
  fixture.first.fails = true;
  fixture.call(1, 3);
  ASSERT_EQ(fixture.first.calls, 3);
  clock_milliseconds = 10;
  fixture.call(8, 200);
  EXPECT_EQ(fixture.first.calls, 4);  // the clock stands: one failed try, and its time began anew
  clock_milliseconds = 20;
  fixture.first.fails = false;
  fixture.call(8, 200);
  EXPECT_TRUE(fixture.is_fast());
  EXPECT_GT(fixture.first.calls, 5);
}

TEST(QuarantineThreads, NoCallIsLostWhileABindingComesAndGoes) {
  Fixture fixture;
  std::atomic<bool> stop{false};
  std::thread saboteur([&] {
    while (!stop) {
      fixture.first.fails = !fixture.first.fails;
      clock_milliseconds += 5;
      std::this_thread::yield();
    }
  });
  std::thread writer([&] {
    RouteSet other = fixture.routes;
    std::reverse(other.routes[fixture.state][0].entries.begin(),
                 other.routes[fixture.state][0].entries.end());
    while (!stop) {
      fixture.registry.publish(other);
      fixture.registry.publish(fixture.routes);
      std::this_thread::yield();
    }
  });
  fixture.call(6, 3000);
  stop = true;
  saboteur.join();
  writer.join();
  const BindingCounts first =
      fixture.registry.counters().sum(fixture.registry.counter_of("silu_and_mul", "acme", "cpu"));
  const BindingCounts second =
      fixture.registry.counters().sum(fixture.registry.counter_of("silu_and_mul", "native", "cpu"));
  EXPECT_EQ(first.calls + second.calls, 18000U);
  // Whatever happened in between, a healthy binding ends on the fast path.
  fixture.registry.publish(fixture.routes);
  fixture.first.fails = false;
  clock_milliseconds += 100;
  fixture.call(1, 2);
  EXPECT_TRUE(fixture.is_fast());
}

}  // namespace
}  // namespace opmux
