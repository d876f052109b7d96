// SPDX-License-Identifier: Apache-2.0
//
// What changing while calls run costs: calls with files watched or not, inside a scope, into a
// module that is counted; publishing; and many callers while a thread swaps providers.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "bench/measurements.hpp"
#include "opmux/opmux.hpp"

namespace opmux::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

const Routes kOne{{"live_*", {"one", "two"}}};
const Routes kTwo{{"live_*", {"two", "one"}}};
const Routes kCounted{{"live_*", {"counted"}}};

// Three drop-in folders with one plugin module each, and runtimes that serve from them.
class LiveBench {
 public:
  LiveBench() {
    std::string name = (fs::temp_directory_path() / "opmux-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    std::string declarations = "manifest: 1\ndeclare:\n";
    for (int number = 0; number < 8; ++number) {
      const std::string op = "live_" + std::to_string(number);
      declarations += "  " + op + ": {schema: \"" + op + "(Tensor(a!) x, Tensor(b!) y) -> ()\"}\n";
    }
    fs::create_directories(folder_ / "providers");
    write(folder_ / "providers/live.yaml", declarations);
    drop_in("one", OPMUX_BENCH_LIVE_ONE);
    drop_in("two", OPMUX_BENCH_LIVE_TWO);
    drop_in("counted", OPMUX_BENCH_LIVE_COUNTED);
    write(folder_ / "opmux.yaml", "config: 1\nlog: error\n");
  }
  LiveBench(const LiveBench&) = delete;
  LiveBench& operator=(const LiveBench&) = delete;
  void remove() const {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  Runtime open(bool watch, const Routes& routes) const {
    Options options;
    options.config_file = folder_ / "opmux.yaml";
    options.environments = {folder_};
    options.manifests = {folder_ / "providers"};
    options.use_cache = false;
    options.watch = watch;
    options.routes = routes;
    StatusOr<Runtime> runtime = Runtime::open(options);
    if (!runtime.ok()) {
      std::printf("%s\n", runtime.status().message().c_str());
      std::abort();
    }
    return std::move(*runtime);
  }

 private:
  static void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }
  void drop_in(const std::string& provider, const char* module) const {
    const fs::path place = folder_ / "providers" / provider;
    fs::create_directories(place);
    fs::copy_file(module, place / ("opmux_" + provider + ".so"));
    std::string text = "manifest: 1\nprovider: " + provider + "\nplugin: " + provider +
                       "\npriority: 60\noperators:\n";
    for (int number = 0; number < 8; ++number) {
      const std::string op = "live_" + std::to_string(number);
      text += "  " + op + ": {module: " + op + ", when: {device: cpu}}\n";
    }
    write(place / (provider + ".yaml"), text);
  }

  fs::path folder_;
};

struct Runtimes {
  LiveBench bench;
  Runtime quiet = bench.open(false, kOne);
  Runtime watched = bench.open(true, kOne);
  Runtime counted = bench.open(false, kCounted);
};

// One caller with tensors of its own.
class Caller {
 public:
  explicit Caller(const Runtime& runtime) : op_(*runtime.op<void(Tensor, Tensor)>("live_0")) {}
  bool call() { return op_(x_view_, y_view_).ok(); }

 private:
  Operator<void(Tensor, Tensor)> op_;
  alignas(64) std::array<std::int64_t, 8> x_{};
  alignas(64) std::array<std::int64_t, 8> y_{};
  TensorView x_view_{x_.data(), DType::kInt64, {2}};
  TensorView y_view_{y_.data(), DType::kInt64, {2}};
};

void call_bench(benchmark::State& state, const Runtime& runtime) {
  Caller caller(runtime);
  for (auto _ : state) {
    if (!caller.call()) state.SkipWithError("call failed");
  }
}

// Of all callers together, while a thread swaps the providers every millisecond, or not.
double nanoseconds_per_call(Runtime& runtime, int callers, bool swap) {
  constexpr auto kDuration = std::chrono::milliseconds(150);
  std::atomic<bool> stop{false};
  std::atomic<int> ready{0};
  std::atomic<std::uint64_t> calls{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < callers; ++number) {
    threads.emplace_back([&] {
      Caller caller(runtime);
      ++ready;
      while (ready < callers) std::this_thread::yield();
      std::uint64_t mine = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        for (int call = 0; call < 64; ++call, ++mine) {
          if (!caller.call()) std::abort();
        }
      }
      calls += mine;
    });
  }
  while (ready < callers) std::this_thread::yield();
  const Clock::time_point start = Clock::now();
  for (bool two = true; Clock::now() - start < kDuration; two = !two) {
    if (swap && !runtime.set_routes(two ? kTwo : kOne).ok()) std::abort();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  return elapsed.count() / static_cast<double>(calls.load());
}

}  // namespace

void register_live(Measurements& measurements) {
  // Never destroyed: handles are used to the end.
  static Runtimes& runtimes = *std::make_unique<Runtimes>().release();
  std::atexit([] { runtimes.bench.remove(); });
  benchmark::RegisterBenchmark("live_ns",
                               [](benchmark::State& state) { call_bench(state, runtimes.quiet); });
  benchmark::RegisterBenchmark(
      "live_watched_ns", [](benchmark::State& state) { call_bench(state, runtimes.watched); });
  benchmark::RegisterBenchmark(
      "live_counted_ns", [](benchmark::State& state) { call_bench(state, runtimes.counted); });
  benchmark::RegisterBenchmark("live_in_scope_ns", [](benchmark::State& state) {
    const StatusOr<RouteScope> scope = runtimes.quiet.with_route(kTwo);
    if (!scope.ok()) return state.SkipWithError("no scope");
    call_bench(state, runtimes.quiet);
  });
  benchmark::RegisterBenchmark("scope_ns", [](benchmark::State& state) {
    for (auto _ : state) {
      const StatusOr<RouteScope> scope = runtimes.quiet.with_route(kTwo);
      if (!scope.ok()) return state.SkipWithError("no scope");
    }
  });

  for (int round = 0; round < 5; ++round) {
    for (const int callers : {1, 2, 4, 8, 16}) {
      const std::string name = "live_callers_" + std::to_string(callers);
      measurements.add(name + "_ns", nanoseconds_per_call(runtimes.quiet, callers, false));
      measurements.add(name + "_while_swapping_ns",
                       nanoseconds_per_call(runtimes.quiet, callers, true));
    }
  }
  for (int swap = 0; swap < 200; ++swap) {
    const Clock::time_point start = Clock::now();
    if (!runtimes.quiet.set_routes(swap % 2 == 0 ? kTwo : kOne).ok()) std::abort();
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
    measurements.add("set_routes_us", elapsed.count());
    measurements.add("publish_us", runtimes.quiet.report().history.back().publish_seconds * 1e6);
  }
  if (!runtimes.quiet.set_routes(kOne).ok()) std::abort();
}

}  // namespace opmux::bench
