// SPDX-License-Identifier: Apache-2.0
//
// TVM-FFI's C++ Function with the same kernels: type-erased like opmux's call, without routing.
#include <benchmark/benchmark.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "bench/measurements.hpp"
#include "bench/noop.hpp"

namespace opmux::bench {
namespace {

std::int64_t shape[] = {1, 16};
std::int64_t strides[] = {16, 1};

DLTensor make_tensor() {
  DLTensor tensor{};
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

void tvm_ffi_2_bench(benchmark::State& state) {
  const tvm::ffi::Function function = tvm::ffi::Function::FromTyped(
      [](DLTensor* input, DLTensor* out) { sink += input->ndim + out->ndim; });
  DLTensor tensor = make_tensor();
  for (auto _ : state) function(&tensor, &tensor);
}

void tvm_ffi_12_bench(benchmark::State& state) {
  const tvm::ffi::Function function = tvm::ffi::Function::FromTyped(
      [](DLTensor* a, DLTensor* b, DLTensor* c, DLTensor* d, std::int64_t e, std::int64_t f,
         std::int64_t g, std::int64_t h, double i, double j, bool k, bool l) {
        sink += a->ndim + b->ndim + c->ndim + d->ndim + e + f + g + h +
                static_cast<std::int64_t>(i + j) + k + l;
      });
  DLTensor tensor = make_tensor();
  for (auto _ : state) {
    function(&tensor, &tensor, &tensor, &tensor, std::int64_t{1}, std::int64_t{2}, std::int64_t{3},
             std::int64_t{4}, 5.0, 6.0, true, false);
  }
}

}  // namespace

void register_tvm_ffi() {
  benchmark::RegisterBenchmark("tvm_ffi_2_ns", tvm_ffi_2_bench);
  benchmark::RegisterBenchmark("tvm_ffi_12_ns", tvm_ffi_12_bench);
}

}  // namespace opmux::bench
