// SPDX-License-Identifier: Apache-2.0
//
// FlashAttention through opmux beside the same C++ function called directly, in one run on a GPU:
// opmux-bench-flash-attn ENVIRONMENT... Each ENVIRONMENT is searched for torch and flash-attn.
// Small calls show what the host pays, large ones that nothing is lost on the device.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "opmux/opmux.hpp"
#include "opmux/torch.hpp"
#include "plugins/flash_attn/functions.hpp"

namespace opmux::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 15;

[[noreturn]] void give_up(const std::string& text) {
  std::fprintf(stderr, "opmux-bench-flash-attn: %s\n", text.c_str());
  std::exit(2);
}

// One token per sequence on a contiguous cache, as an engine decodes.
struct Decode {
  at::Tensor q, k_cache, v_cache, cache_seqlens, out;
  std::int64_t calls;
};

Decode make_decode(std::int64_t batch, std::int64_t context, std::int64_t kv_heads,
                   std::int64_t calls) {
  const auto half = at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA, 0);
  Decode decode;
  decode.q = at::randn({batch, 1, 32, 128}, half);
  decode.k_cache = at::randn({batch, context, kv_heads, 128}, half);
  decode.v_cache = at::randn({batch, context, kv_heads, 128}, half);
  decode.cache_seqlens = at::full({batch}, context, half.dtype(at::kInt));
  decode.out = at::empty_like(decode.q);
  decode.calls = calls;
  return decode;
}

flash_attn::KvcacheForward* find_function(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) give_up("the runtime has not mapped " + library);
  void* const address = ::dlsym(
      handle,
      "_ZN5flash15mha_fwd_kvcacheERN2at6TensorERKS1_S4_RSt8optionalIS3_ES7_S7_S7_S7_S7_S7_RS5_IS1_"
      "ES9_S9_fbiifbi");
  if (address == nullptr) give_up("no mha_fwd_kvcache in " + library);
  return reinterpret_cast<flash_attn::KvcacheForward*>(address);
}

// What a program that links FlashAttention does: with fewer heads in the cache than in q it takes
// the returned tensor, else `out` is written.
void call_directly(flash_attn::KvcacheForward* function, const Decode& decode, bool copies) {
  using Optional = std::optional<const at::Tensor>;
  at::Tensor q = decode.q;
  Optional none_k, none_v, cos, sin, index, pad;
  Optional lengths(std::in_place, decode.cache_seqlens);
  std::optional<at::Tensor> table, slopes, out;
  if (!copies) out = decode.out;
  const auto results =
      function(q, decode.k_cache, decode.v_cache, none_k, none_v, lengths, cos, sin, index, pad,
               table, slopes, out, 1.0f / std::sqrt(128.0f), true, -1, -1, 0.0f, true, 0);
  if (copies) decode.out.copy_(results[0]);
}

double microseconds(const Decode& decode, const std::function<void()>& call) {
  call();
  decode.out.flatten()[0].item();  // waits for the stream
  const Clock::time_point start = Clock::now();
  for (std::int64_t i = 0; i < decode.calls; ++i) call();
  decode.out.flatten()[0].item();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
         static_cast<double>(decode.calls);
}

struct Figure {
  double median;
  double least;
};

Figure figure_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples.front()};
}

int run(int argc, char** argv) {
  if (argc < 2) give_up("usage: opmux-bench-flash-attn ENVIRONMENT...");
  Options options;
  for (int i = 1; i < argc; ++i) options.environments.emplace_back(argv[i]);
  options.routes.push_back({"flash_attn_*", {"flash_attn"}});
  options.strict = true;
  StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) give_up(runtime.status().message());
  using Signature = void(Tensor, Tensor, Tensor, OptionalTensor, OptionalTensor, OptionalTensor,
                         OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor,
                         OptionalTensor, OptionalTensor, std::optional<double>, bool, IntList,
                         double, bool, std::int64_t, bool, Tensor, OptionalTensor);
  auto attention = runtime->op<Signature>("flash_attn_with_kvcache");
  if (!attention.ok()) give_up(attention.status().message());
  std::string library;
  const Report report = runtime->report();
  for (const BindingReport& binding : report.find("flash_attn_with_kvcache")->bindings) {
    if (binding.provider != "flash_attn") continue;
    if (!binding.callable)
      give_up(binding.rejection ? to_string(*binding.rejection) : "no binding");
    library = binding.library.value_or("");
  }
  flash_attn::KvcacheForward* const function = find_function(library);

  const std::vector<std::int64_t> window{-1, -1};
  std::printf("%-34s %10s %10s %10s %10s %8s %8s\n", "bf16, 32 heads of 128, 1 token", "direct us",
              "tensors us", "views us", "direct min", "tensors", "views");
  struct Shape {
    std::int64_t batch, context, kv_heads, calls;
  };
  for (const Shape& shape : {Shape{1, 64, 32, 2000}, Shape{1, 64, 8, 2000}, Shape{1, 8192, 8, 500},
                             Shape{8, 8192, 8, 200}, Shape{64, 8192, 8, 40}}) {
    const c10::InferenceMode inference;
    const Decode decode = make_decode(shape.batch, shape.context, shape.kv_heads, shape.calls);
    const bool copies = shape.kv_heads < 32;
    const auto with = [&](auto view) {
      const Status status = attention->on(
          Stream::legacy_default(), view(decode.q), view(decode.k_cache), view(decode.v_cache),
          std::nullopt, std::nullopt, std::nullopt, std::nullopt, view(decode.cache_seqlens),
          std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt, true,
          IntList(window), 0.0, true, 0, false, view(decode.out), std::nullopt);
      if (!status.ok()) give_up(status.message());
    };
    const auto tensors = [&] { with([](const at::Tensor& tensor) { return view_of(tensor); }); };
    const auto views = [&] {
      with([](const at::Tensor& tensor) {
        const TensorView owned = view_of(tensor);
        return TensorView::borrow(owned.abi().tensor, nullptr, OPMUX_OWNER_NONE);
      });
    };
    const auto direct = [&] { call_directly(function, decode, copies); };
    std::vector<double> a, b, c;
    for (int round = 0; round < kRounds; ++round) {
      a.push_back(microseconds(decode, direct));
      b.push_back(microseconds(decode, tensors));
      c.push_back(microseconds(decode, views));
    }
    const Figure d = figure_of(a), t = figure_of(b), v = figure_of(c);
    char name[64];
    std::snprintf(name, sizeof name, "batch %lld, context %lld, %lld kv heads",
                  static_cast<long long>(shape.batch), static_cast<long long>(shape.context),
                  static_cast<long long>(shape.kv_heads));
    std::printf("%-34s %10.2f %10.2f %10.2f %10.2f %7.3fx %7.3fx\n", name, d.median, t.median,
                v.median, d.least, t.median / d.median, v.median / d.median);
  }
  return 0;
}

}  // namespace
}  // namespace opmux::bench

int main(int argc, char** argv) { return opmux::bench::run(argc, argv); }
