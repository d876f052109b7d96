// SPDX-License-Identifier: Apache-2.0
//
// opmux-bench [--environment DIR]... [Google Benchmark options]: runs everything in one process,
// prints one table, and exits 1 when a ratio misses the bound recorded in bench/bounds.json.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/measurements.hpp"

namespace opmux::bench {

// Keeps the smallest time of each benchmark's repetitions.
class MinimumReporter : public benchmark::ConsoleReporter {
 public:
  explicit MinimumReporter(Measurements& measurements)
      : ConsoleReporter(OO_Tabular), measurements_(measurements) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      measurements_.add(run.run_name.function_name, run.GetAdjustedRealTime());
    }
  }

 private:
  Measurements& measurements_;
};

}  // namespace opmux::bench

int main(int count, char** arguments) {
  std::vector<std::string> environments;
  std::vector<char*> rest{arguments[0]};
  for (int index = 1; index < count; ++index) {
    if (std::strcmp(arguments[index], "--environment") == 0 && index + 1 < count) {
      environments.emplace_back(arguments[++index]);
    } else {
      rest.push_back(arguments[index]);
    }
  }
  // Repetitions in random order, so that a slow spell of the machine hits all peers alike.
  std::string repetitions = "--benchmark_repetitions=12";
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  std::string duration = "--benchmark_min_time=0.05";
  rest.insert(rest.begin() + 1, {repetitions.data(), interleave.data(), duration.data()});
  int rest_count = static_cast<int>(rest.size());
  benchmark::Initialize(&rest_count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(rest_count, rest.data())) return 2;

  opmux::bench::Measurements measurements;
  opmux::bench::register_calls(measurements);
  opmux::bench::register_live(measurements);
#if defined(OPMUX_BENCH_TVM_FFI)
  opmux::bench::register_tvm_ffi();
#else
  std::printf("tvm_ffi: not measured, built without OPMUX_TVM_FFI_ROOT\n");
#endif
#if defined(OPMUX_BENCH_TORCH)
  opmux::bench::register_dispatcher(measurements);
#else
  std::printf("torch: not measured, built without OPMUX_TORCH_ENVIRONMENTS\n");
#endif
#if defined(OPMUX_BENCH_DIRECT_SYMBOL)
  opmux::bench::register_direct_symbol(measurements);
#else
  std::printf("direct_symbol: not measured, built without OPMUX_TORCH_ENVIRONMENTS or libffi\n");
#endif
  opmux::bench::MinimumReporter reporter(measurements);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  opmux::bench::measure_starts(measurements, environments);
  return measurements.print_and_check(OPMUX_BOUNDS_FILE) ? 0 : 1;
}
