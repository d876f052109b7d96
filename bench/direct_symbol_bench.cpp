// SPDX-License-Identifier: Apache-2.0
//
// A C++ function through the direct_symbol module beside the same function called directly, both in
// inference mode: silu_and_mul on 16 floats, and a function that does nothing.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/allocations.hpp"
#include "bench/measurements.hpp"
#include "opmux/plugin.h"
#include "opmux/torch.hpp"

namespace opmux::bench {
namespace {

constexpr const char* kSilu = "silu_and_mul(at::Tensor&, at::Tensor&)";
constexpr const char* kSiluSymbol = "_Z12silu_and_mulRN2at6TensorES1_";
constexpr const char* kNothing = "example::do_nothing(at::Tensor&, at::Tensor&)";
constexpr const char* kNothingSymbol = "_ZN7example10do_nothingERN2at6TensorES2_";

[[noreturn]] void give_up(const std::string& text) {
  std::fprintf(stderr, "opmux-bench: %s\n", text.c_str());
  std::exit(2);
}

void* load(const char* path) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(::dlerror());
  return library;
}

void* function(const char* symbol) {
  static void* const library = load(OPMUX_BENCH_FUNCTIONS);
  void* address = ::dlsym(library, symbol);
  if (address == nullptr) give_up(::dlerror());
  return address;
}

const OpmuxModule& module() {
  static const OpmuxModule* const opened = [] {
    static OpmuxHost host{};
    host.struct_size = sizeof(host);
    host.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
    host.set_error = [](const char* text) { std::fprintf(stderr, "opmux-bench: %s\n", text); };
    const auto open = reinterpret_cast<OpmuxPluginOpen>(
        ::dlsym(load(OPMUX_BENCH_DIRECT_SYMBOL_MODULE), OPMUX_PLUGIN_ENTRY));
    const OpmuxModule* module = nullptr;
    if (open == nullptr || open(&host, &module) != OPMUX_OK) give_up("no direct_symbol module");
    return module;
  }();
  return *opened;
}

OpmuxBound bind(const char* symbol_name, void* address,
                const std::vector<std::int32_t>& arguments) {
  std::vector<OpmuxCallSource> sources;
  for (const std::int32_t argument : arguments) {
    sources.push_back({OPMUX_SOURCE_ARGUMENT, argument, {}, -1, 0});
  }
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DIRECT_SYMBOL;
  request.device_type = OPMUX_DEVICE_CPU;
  request.source_count = static_cast<std::uint32_t>(sources.size());
  request.sources = sources.data();
  request.symbol_count = 1;
  request.symbol_names = &symbol_name;
  request.symbols = &address;
  request.operator_schema = "f(Tensor input, Tensor(a!) out) -> ()";
  request.returns = "void";
  OpmuxBound bound{};
  bound.struct_size = sizeof(bound);
  if (module().bind(&request, &bound) != OPMUX_OK) std::exit(2);
  return bound;
}

// A call of two tensors, as the core makes it.
class PackedCall {
 public:
  PackedCall(const TensorView& input, const TensorView& out) {
    for (std::size_t at = 0; at < values_.size(); ++at) {
      values_[at].tag = OPMUX_VALUE_TENSOR;
      values_[at].payload.tensor = &(at == 0 ? input : out).abi().tensor;
    }
    call_.struct_size = sizeof(call_);
    call_.flags = OPMUX_CALL_OWNED_TENSORS;
    call_.device = {OPMUX_DEVICE_CPU, 0};
    call_.value_count = 2;
    call_.values = values_.data();
  }
  OpmuxStatus operator()(const OpmuxBound& bound) const {
    return bound.call(bound.binding, &call_);
  }

 private:
  std::array<OpmuxValue, 2> values_{};
  OpmuxCall call_{};
};

void bound_bench(benchmark::State& state, const OpmuxBound& bound, const PackedCall& call) {
  const c10::InferenceMode inference;
  for (auto _ : state) {
    if (call(bound) != OPMUX_OK) state.SkipWithError("call failed");
  }
}

void register_pair(const std::string& name, const OpmuxBound& bound, const PackedCall& owned,
                   const PackedCall& plain) {
  benchmark::RegisterBenchmark(("opmux_direct_symbol_" + name + "_tensors_ns").c_str(),
                               [=](auto& state) { bound_bench(state, bound, owned); });
  benchmark::RegisterBenchmark(("opmux_direct_symbol_" + name + "_views_ns").c_str(),
                               [=](auto& state) { bound_bench(state, bound, plain); });
}

}  // namespace

void register_direct_symbol(Measurements& measurements) {
  static at::Tensor input = at::ones({1, 16});
  static at::Tensor out = at::zeros({1, 8});
  static const TensorView owned_input = view_of(input);
  static const TensorView owned_out = view_of(out);
  static const TensorView plain_input(input.data_ptr(), DType::kFloat32, {1, 16});
  static const TensorView plain_out(out.data_ptr(), DType::kFloat32, {1, 8});
  static const PackedCall owned(owned_input, owned_out);
  static const PackedCall plain(plain_input, plain_out);

  benchmark::RegisterBenchmark("direct_silu_and_mul_ns", [](auto& state) {
    const c10::InferenceMode inference;
    auto* silu = reinterpret_cast<void (*)(at::Tensor&, at::Tensor&)>(function(kSiluSymbol));
    for (auto _ : state) silu(out, input);
  });
  register_pair("silu_and_mul", bind(kSilu, function(kSiluSymbol), {1, 0}), owned, plain);

  benchmark::RegisterBenchmark("direct_nothing_2_ns", [](auto& state) {
    auto* nothing = reinterpret_cast<void (*)(at::Tensor&, at::Tensor&)>(function(kNothingSymbol));
    for (auto _ : state) nothing(out, input);
  });
  const OpmuxBound nothing = bind(kNothing, function(kNothingSymbol), {1, 0});
  register_pair("nothing_2", nothing, owned, plain);

  (void)plain(nothing);  // makes this thread's frame
  const std::uint64_t before = allocation_count();
  for (int call = 0; call < 1000; ++call) (void)plain(nothing);
  measurements.add("opmux_direct_symbol_views_allocations_per_call",
                   static_cast<double>(allocation_count() - before) / 1000.0);
}

}  // namespace opmux::bench
