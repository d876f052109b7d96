// SPDX-License-Identifier: Apache-2.0
//
// The torch route beside torch's own typed and boxed calls of the same operators, with the same
// guard: a boxed call for inference leaves autograd's keys out, as opmux's does.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "bench/allocations.hpp"
#include "bench/measurements.hpp"
#include "opmux/opmux.hpp"
#include "opmux/torch.hpp"

namespace opmux::bench {
namespace {

using Operator2 = Operator<void(Tensor, Tensor)>;
using Operator12 = Operator<void(Tensor, Tensor, Tensor, Tensor, std::int64_t, std::int64_t,
                                 std::int64_t, std::int64_t, double, double, bool, bool)>;
using Typed12 = void(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::Tensor&,
                     std::int64_t, std::int64_t, std::int64_t, std::int64_t, double, double, bool,
                     bool);

Runtime& runtime() {
  static Runtime opened = [] {
    Options options;
    options.environments = {std::filesystem::path(OPMUX_TORCH_FOLDER).parent_path()};
    options.manifests = {OPMUX_BENCH_MANIFESTS};
    options.routes = {{"*", {"native"}}, {"bench_*", {"bench"}}};
    StatusOr<Runtime> runtime = Runtime::open(options);
    if (!runtime.ok()) {
      std::fprintf(stderr, "opmux-bench: %s\n", runtime.status().message().c_str());
      std::exit(2);
    }
    return std::move(*runtime);
  }();
  return opened;
}

at::Tensor tensor() {
  static at::Tensor made = at::zeros({1, 16});
  return made;
}

Operator2 op_2() { return *runtime().op<void(Tensor, Tensor)>("bench_2"); }
Operator12 op_12() {
  return *runtime()
              .op<void(Tensor, Tensor, Tensor, Tensor, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, double, double, bool, bool)>("bench_12");
}

c10::OperatorHandle schema(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

void push_2(torch::jit::Stack& stack, const at::Tensor& a) {
  stack.emplace_back(a);
  stack.emplace_back(a);
}

void push_12(torch::jit::Stack& stack, const at::Tensor& a) {
  for (int index = 0; index < 4; ++index) stack.emplace_back(a);
  for (std::int64_t index = 1; index < 5; ++index) stack.emplace_back(index);
  stack.emplace_back(5.0);
  stack.emplace_back(6.0);
  stack.emplace_back(true);
  stack.emplace_back(false);
}

void typed_2_bench(benchmark::State& state) {
  const auto typed = schema("opmux_bench::noop_2").typed<void(const at::Tensor&, at::Tensor&)>();
  at::Tensor a = tensor();
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (auto _ : state) typed.call(a, a);
}

template <void (*Push)(torch::jit::Stack&, const at::Tensor&)>
void boxed_bench(benchmark::State& state, const char* name) {
  const c10::OperatorHandle op = schema(name);
  const at::Tensor a = tensor();
  torch::jit::Stack stack;
  for (auto _ : state) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    Push(stack, a);
    op.callBoxed(stack);
    stack.clear();
  }
}

void typed_12_bench(benchmark::State& state) {
  const auto typed = schema("opmux_bench::noop_12").typed<Typed12>();
  at::Tensor a = tensor();
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (auto _ : state) typed.call(a, a, a, a, 1, 2, 3, 4, 5.0, 6.0, true, false);
}

void call_2(benchmark::State& state, const TensorView& view) {
  const Operator2 op = op_2();
  for (auto _ : state) {
    if (!op(view, view).ok()) state.SkipWithError("call failed");
  }
}

void call_12(benchmark::State& state, const TensorView& view) {
  const Operator12 op = op_12();
  for (auto _ : state) {
    if (!op(view, view, view, view, 1, 2, 3, 4, 5.0, 6.0, true, false).ok())
      state.SkipWithError("call failed");
  }
}

TensorView plain_view() { return TensorView(tensor().data_ptr(), DType::kFloat32, {1, 16}); }

}  // namespace

void register_dispatcher(Measurements& measurements) {
  static at::Tensor held = tensor();
  static const TensorView owned = view_of(held);
  static const TensorView plain = plain_view();
  if (!op_2()(owned, owned).ok() || !op_2()(plain, plain).ok()) {
    std::fprintf(stderr, "opmux-bench: %s\n", op_2()(owned, owned).message().c_str());
    std::exit(2);
  }
  benchmark::RegisterBenchmark("torch_typed_2_ns", typed_2_bench);
  benchmark::RegisterBenchmark("torch_typed_12_ns", typed_12_bench);
  benchmark::RegisterBenchmark(
      "torch_boxed_2_ns", [](auto& state) { boxed_bench<push_2>(state, "opmux_bench::noop_2"); });
  benchmark::RegisterBenchmark("torch_boxed_12_ns", [](auto& state) {
    boxed_bench<push_12>(state, "opmux_bench::noop_12");
  });
  benchmark::RegisterBenchmark("opmux_torch_tensors_2_ns",
                               [](auto& state) { call_2(state, owned); });
  benchmark::RegisterBenchmark("opmux_torch_tensors_12_ns",
                               [](auto& state) { call_12(state, owned); });
  benchmark::RegisterBenchmark("opmux_torch_views_2_ns", [](auto& state) { call_2(state, plain); });
  benchmark::RegisterBenchmark("opmux_torch_views_12_ns",
                               [](auto& state) { call_12(state, plain); });

  const Operator2 op = op_2();
  for (const auto& [name, view] : {std::pair<const char*, const TensorView*>{
                                       "opmux_torch_tensors_allocations_per_call", &owned},
                                   {"opmux_torch_views_allocations_per_call", &plain}}) {
    const std::uint64_t before = allocation_count();
    for (int call = 0; call < 1000; ++call) (void)op(*view, *view);
    measurements.add(name, static_cast<double>(allocation_count() - before) / 1000.0);
  }
}

}  // namespace opmux::bench
