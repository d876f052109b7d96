// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "bench/allocations.hpp"
#include "bench/measurements.hpp"
#include "bench/noop.hpp"
#include "core/registry/registry.hpp"
#include "opmux/opmux.hpp"

namespace opmux::bench {
namespace {

using Operator2 = Operator<void(Tensor, Tensor)>;
using Operator12 = Operator<void(Tensor, Tensor, Tensor, Tensor, std::int64_t, std::int64_t,
                                 std::int64_t, std::int64_t, double, double, bool, bool)>;

// The registry as a Runtime builds it, with one native binding per operator, and the same routes
// with another binding of the same function: what a writer swaps between.
struct Bench {
  Registry& registry = Registry::create();
  std::array<RouteSet, 2> routes;
  // Of bench_2 with a quarantine that never comes, and with a shadow whose sample never comes.
  RouteSet guarded, shadowed;

  Bench() {
    std::vector<OperatorDeclaration> declarations;
    for (const char* text : {kSchema2, kSchema12}) {
      OperatorDeclaration declaration;
      declaration.schema = *schema::parse(text);
      declaration.schema_text = text;
      declaration.name = declaration.schema.name;
      declarations.push_back(std::move(declaration));
    }
    std::vector<Rejection> rejections;
    const OperatorList operators = registry.declare(declarations, rejections);
    if (!rejections.empty()) std::abort();
    for (std::size_t which = 0; which < routes.size(); ++which) {
      for (std::size_t at = 0; at < operators.size(); ++at) {
        BoundCall call;
        call.call = at == 0 ? &plugin_2 : &plugin_12;
        call.provider = which == 0 ? "native" : "other";
        call.counter = registry.counter_of(operators[at]->name, call.provider, "cpu");
        routes[which].routes[operators[at]][0].entries = {
            &registry.add_binding(operators[at]->name + call.provider, call)};
      }
    }
    guarded = shadowed = routes[0];
    DeviceRoute& route = guarded.routes[operators[0]][0];
    route.on_error = OnError::kNext;
    route.quarantine = {3, std::chrono::seconds(30)};
    shadowed.routes[operators[0]][0].shadow.sample = 1e-15;
    registry.publish(routes[0]);
  }
};

Bench& made() {
  static Bench& bench = *std::make_unique<Bench>().release();
  return bench;
}

Registry& registry() { return made().registry; }

std::array<float, 16> data;
const TensorView kView(data.data(), DType::kFloat32, {1, 16});

void direct_2_bench(benchmark::State& state) {
  const OpmuxTensor* tensor = &kView.abi().tensor;
  for (auto _ : state) {
    benchmark::DoNotOptimize(tensor);
    direct_2(tensor, tensor);
  }
}

void direct_12_bench(benchmark::State& state) {
  const OpmuxTensor* tensor = &kView.abi().tensor;
  for (auto _ : state) {
    benchmark::DoNotOptimize(tensor);
    direct_12(tensor, tensor, tensor, tensor, 1, 2, 3, 4, 5.0, 6.0, true, false);
  }
}

void opmux_2_bench(benchmark::State& state) {
  const Operator2 op(registry().find("bench_2"));
  for (auto _ : state) {
    if (!op(kView, kView).ok()) state.SkipWithError("call failed");
  }
}

void opmux_12_bench(benchmark::State& state) {
  const Operator12 op(registry().find("bench_12"));
  for (auto _ : state) {
    if (!op(kView, kView, kView, kView, 1, 2, 3, 4, 5.0, 6.0, true, false).ok())
      state.SkipWithError("call failed");
  }
}

// The same call on a route with settings beside its order.
void opmux_2_with(benchmark::State& state, const RouteSet& routes) {
  registry().publish(routes);
  opmux_2_bench(state);
  registry().publish(made().routes[0]);
}

// The same call while another thread publishes a generation every 100 microseconds.
void opmux_2_swapping_bench(benchmark::State& state) {
  const Operator2 op(registry().find("bench_2"));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::size_t which = 1; !stop; which ^= 1U) {
      registry().publish(made().routes[which]);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  for (auto _ : state) {
    if (!op(kView, kView).ok()) state.SkipWithError("call failed");
  }
  stop = true;
  writer.join();
}

}  // namespace

void register_calls(Measurements& measurements) {
  benchmark::RegisterBenchmark("direct_2_ns", direct_2_bench);
  benchmark::RegisterBenchmark("direct_12_ns", direct_12_bench);
  benchmark::RegisterBenchmark("opmux_2_ns", opmux_2_bench);
  benchmark::RegisterBenchmark("opmux_12_ns", opmux_12_bench);
  benchmark::RegisterBenchmark("opmux_2_while_swapping_ns", opmux_2_swapping_bench);
  benchmark::RegisterBenchmark("opmux_2_with_quarantine_ns", [](benchmark::State& state) {
    opmux_2_with(state, made().guarded);
  });
  benchmark::RegisterBenchmark("opmux_2_with_shadow_ns", [](benchmark::State& state) {
    opmux_2_with(state, made().shadowed);
  });

  const Operator2 two(registry().find("bench_2"));
  const Operator12 twelve(registry().find("bench_12"));
  (void)two(kView, kView);
  const std::uint64_t before = allocation_count();
  for (int call = 0; call < 1000; ++call) {
    if (!two(kView, kView).ok()) std::abort();
    if (!twelve(kView, kView, kView, kView, 1, 2, 3, 4, 5.0, 6.0, true, false).ok()) std::abort();
  }
  measurements.add("opmux_native_allocations_per_call",
                   static_cast<double>(allocation_count() - before) / 2000.0);
}

}  // namespace opmux::bench
