// SPDX-License-Identifier: Apache-2.0
//
// The native attention kernels beside torch's scaled_dot_product_attention, on the same tensors and
// with the same number of threads, in one run: opmux-bench-attention [Google Benchmark options].
// OPMUX_THREADS sets the threads of both.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opmux/opmux.hpp"
#include "opmux/torch.hpp"

namespace opmux::bench {
namespace {

using Varlen = void(Tensor, Tensor, Tensor, Tensor, Tensor, OptionalTensor, OptionalTensor,
                    std::int64_t, std::int64_t, double, std::optional<double>, bool, IntList,
                    double, bool, bool, Tensor, OptionalTensor, OptionalTensor);
using Cache = void(Tensor, Tensor, Tensor, OptionalTensor, OptionalTensor, OptionalTensor,
                   OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor,
                   OptionalTensor, std::optional<double>, bool, IntList, double, bool, std::int64_t,
                   bool, Tensor, OptionalTensor);

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "opmux-bench-attention: %s\n", message.c_str());
  std::exit(2);
}

Runtime& runtime() {
  static Runtime opened = [] {
    Options options;
    options.environments = {std::filesystem::path(OPMUX_TORCH_FOLDER).parent_path()};
    options.routes = {{"*", {"native"}}};
    StatusOr<Runtime> made = Runtime::open(options);
    if (!made.ok()) fail(made.status().message());
    return std::move(*made);
  }();
  return opened;
}

template <class Signature>
Operator<Signature> resolve(const char* name) {
  StatusOr<Operator<Signature>> op = runtime().op<Signature>(name);
  if (!op.ok()) fail(op.status().message());
  return *op;
}

const std::vector<std::int64_t>& no_window() {
  static const std::vector<std::int64_t> window = {-1, -1};
  return window;
}

void expect_close(const at::Tensor& found, const at::Tensor& exact) {
  // Both round results below 1 to the dtype; torch also rounds the weights.
  const double allowed = found.scalar_type() == at::kFloat ? 1e-5 : 2e-2;
  const double off = (found.to(at::kFloat) - exact.to(at::kFloat)).abs().max().item<double>();
  if (!(off <= allowed)) fail("results differ by " + std::to_string(off));
}

at::Tensor torch_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool causal) {
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          {}, 0.0, causal, std::nullopt, q.size(2) != k.size(2));
}

// One query of each of 8 sequences against 4096 cached keys; 32 query heads.
struct Decode {
  explicit Decode(at::ScalarType dtype, std::int64_t kv_heads)
      : q(at::randn({8, 1, 32, 128}).to(dtype)),
        k(at::randn({8, 4096, kv_heads, 128}).to(dtype)),
        v(at::randn({8, 4096, kv_heads, 128}).to(dtype)),
        out(at::empty_like(q)) {}

  void opmux() {
    static const Operator op = resolve<Cache>("flash_attn_with_kvcache");
    const Status status =
        op(view_of(q), view_of(k), view_of(v), std::nullopt, std::nullopt, std::nullopt,
           std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt,
           std::nullopt, true, no_window(), 0.0, true, 0, false, view_of(out), std::nullopt);
    if (!status.ok()) fail(status.message());
  }
  at::Tensor torch() const { return torch_attention(q, k, v, false); }

  at::Tensor q, k, v, out;
};

// One sequence of 512 tokens; 8 heads.
struct Prefill {
  Prefill(at::ScalarType dtype, bool is_causal)
      : causal(is_causal),
        q(at::randn({1, 512, 8, 128}).to(dtype)),
        k(at::randn({1, 512, 8, 128}).to(dtype)),
        v(at::randn({1, 512, 8, 128}).to(dtype)),
        out(at::empty_like(q)),
        offsets(at::tensor({0, 512}, at::kInt)) {}

  void opmux() {
    static const Operator op = resolve<Varlen>("flash_attn_varlen_func");
    const at::Tensor rows[] = {q[0], k[0], v[0], out[0]};
    const Status status =
        op(view_of(rows[0]), view_of(rows[1]), view_of(rows[2]), view_of(offsets), view_of(offsets),
           std::nullopt, std::nullopt, 512, 512, 0.0, std::nullopt, causal, no_window(), 0.0, false,
           false, view_of(rows[3]), std::nullopt, std::nullopt);
    if (!status.ok()) fail(status.message());
  }
  at::Tensor torch() const { return torch_attention(q, k, v, causal); }

  bool causal;
  at::Tensor q, k, v, out, offsets;
};

// Keeps the smallest time of each benchmark's repetitions and tells torch's over opmux's.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  RatioReporter() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      double& best = best_.try_emplace(run.run_name.function_name, 1e300).first->second;
      best = std::min(best, run.GetAdjustedRealTime());
    }
  }
  void Finalize() override {
    for (const auto& [name, time] : best_) {
      const auto peer = best_.find(name + "/torch");
      if (peer == best_.end()) continue;
      std::printf("%-28s opmux %8.3f ms   torch %8.3f ms   torch / opmux %6.2f\n", name.c_str(),
                  time, peer->second, peer->second / time);
    }
  }

 private:
  std::map<std::string, double> best_;
};

template <class Case, class... Arguments>
void add(const std::string& name, Arguments... arguments) {
  auto shared = std::make_shared<Case>(arguments...);
  shared->opmux();
  expect_close(shared->out, shared->torch().transpose(1, 2));
  benchmark::RegisterBenchmark(name.c_str(),
                               [shared](benchmark::State& state) {
                                 for (auto _ : state) shared->opmux();
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  benchmark::RegisterBenchmark((name + "/torch").c_str(),
                               [shared](benchmark::State& state) {
                                 const c10::InferenceMode inference;
                                 for (auto _ : state) benchmark::DoNotOptimize(shared->torch());
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

}  // namespace
}  // namespace opmux::bench

int main(int count, char** arguments) {
  std::vector<char*> rest(arguments, arguments + count);
  // Repetitions in random order, so that a slow spell of the machine hits both alike.
  std::string repetitions = "--benchmark_repetitions=8";
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  std::string duration = "--benchmark_min_time=0.05";
  rest.insert(rest.begin() + 1, {repetitions.data(), interleave.data(), duration.data()});
  int rest_count = static_cast<int>(rest.size());
  benchmark::Initialize(&rest_count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(rest_count, rest.data())) return 2;
  if (const char* threads = std::getenv("OPMUX_THREADS"); threads != nullptr) {
    at::set_num_threads(static_cast<int>(std::strtol(threads, nullptr, 10)));
  }
  using opmux::bench::add;
  using opmux::bench::Decode;
  using opmux::bench::Prefill;
  add<Decode>("decode_bf16_8_kv_heads", at::kBFloat16, 8);
  add<Decode>("decode_f32_8_kv_heads", at::kFloat, 8);
  add<Prefill>("prefill_f32", at::kFloat, false);
  add<Prefill>("prefill_f32_causal", at::kFloat, true);
  add<Prefill>("prefill_bf16_causal", at::kBFloat16, true);
  opmux::bench::RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return 0;
}
