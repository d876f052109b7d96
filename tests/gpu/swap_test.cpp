// SPDX-License-Identifier: Apache-2.0
//
// Providers swapped while two streams work, and under a captured graph. The second provider is the
// library of C++ functions of examples/torch_functions, which runs on the device as well.
// TEST_OPMUX_GPU_ENVIRONMENTS names the environments that hold torch and vllm.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/text.hpp"
#include "opmux/opmux.hpp"
#include "tests/gpu/device_call.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kWidth = 512;

// silu_and_mul on memory of the device.
class DeviceSilu {
 public:
  DeviceSilu(const Runtime& runtime, float shift)
      : op_(*runtime.op<void(Tensor, Tensor)>("silu_and_mul")), stream_(gpu::new_stream()) {
    EXPECT_EQ(cudaMalloc(&input_, kRows * 2 * kWidth * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&out_, kRows * kWidth * sizeof(float)), cudaSuccess);
    fill(shift);
  }
  DeviceSilu(const DeviceSilu&) = delete;
  DeviceSilu& operator=(const DeviceSilu&) = delete;
  ~DeviceSilu() {
    cudaFree(input_);
    cudaFree(out_);
  }

  void fill(float shift) {
    host_.resize(kRows * 2 * kWidth);
    for (std::size_t index = 0; index < host_.size(); ++index)
      host_[index] = std::sin(0.37F * static_cast<float>(index) + shift);
    cudaMemcpyAsync(input_, host_.data(), host_.size() * sizeof(float), cudaMemcpyHostToDevice,
                    stream());
    cudaMemsetAsync(out_, 0xff, kRows * kWidth * sizeof(float), stream());
  }
  Status call() {
    return op_.on(Stream::of(stream_),
                  TensorView(input_, DType::kFloat32, {kRows, 2 * kWidth}, {OPMUX_DEVICE_CUDA, 0}),
                  TensorView(out_, DType::kFloat32, {kRows, kWidth}, {OPMUX_DEVICE_CUDA, 0}));
  }
  // After all work of the stream.
  bool is_right() {
    std::vector<float> out(kRows * kWidth);
    cudaMemcpyAsync(out.data(), out_, out.size() * sizeof(float), cudaMemcpyDeviceToHost, stream());
    if (cudaStreamSynchronize(stream()) != cudaSuccess) return false;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        const double gate = host_[static_cast<std::size_t>(row * 2 * kWidth + column)];
        const double value = host_[static_cast<std::size_t>(row * 2 * kWidth + kWidth + column)];
        const double expected = gate / (1.0 + std::exp(-gate)) * value;
        const double found = out[static_cast<std::size_t>(row * kWidth + column)];
        if (!(std::abs(found - expected) <= 1e-5 * (1.0 + std::abs(expected)))) return false;
      }
    }
    return true;
  }
  std::string provider() const { return op_.boxed().last_provider(); }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_); }

 private:
  Operator<void(Tensor, Tensor)> op_;
  void* stream_;
  void* input_ = nullptr;
  void* out_ = nullptr;
  std::vector<float> host_;
};

class GpuSwapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = gpu::missing_device();
    if (!missing.empty())
      GTEST_SKIP() << missing << "; run on a machine with a GPU, see docs/measurements.md";
    const char* environments = ::getenv("TEST_OPMUX_GPU_ENVIRONMENTS");
    ASSERT_NE(environments, nullptr)
        << "TEST_OPMUX_GPU_ENVIRONMENTS names no environment with torch and vllm";
    folder_.write("functions/functions.yaml",
                  "manifest: 1\nprovider: functions\nplugin: direct_symbol\npriority: 30\n"
                  "requires: {torch: \">=2.11\"}\n"
                  "libraries: {functions: {glob: libfunctions.so}}\n"
                  "operators:\n  silu_and_mul:\n    library: functions\n"
                  "    required_symbols: \"silu_and_mul(at::Tensor&, at::Tensor&)\"\n"
                  "    returns: void\n    call: [out, input]\n    when: {device: cuda}\n");
    std::filesystem::copy_file(OPMUX_FUNCTIONS, folder_ / "functions/libfunctions.so");
    write_routes("vllm, functions");
    Options options;
    for (const std::string& environment : split(environments, ':'))
      options.environments.emplace_back(environment);
    options.manifests = {folder_.path()};
    options.config_file = folder_ / "opmux.conf";
    options.watch = true;
    StatusOr<Runtime> opened = Runtime::open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    runtime_.emplace(std::move(*opened));
    for (const char* provider : {"vllm", "functions"}) {
      DeviceSilu silu(*runtime_, 0.0F);
      const StatusOr<RouteScope> scope = runtime_->with_route({{"silu_and_mul", {provider}}});
      ASSERT_TRUE(scope.ok()) << scope.status().message();
      const Status status = silu.call();
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(silu.is_right()) << provider;
      ASSERT_EQ(silu.provider(), provider);
    }
  }

  void write_routes(const std::string& providers) {
    folder_.write("new.conf", "config: 1\nroutes:\n  silu_and_mul: [" + providers + "]\n");
    std::filesystem::rename(folder_ / "new.conf", folder_ / "opmux.conf");
  }
  // By editing the file that the runtime follows.
  void swap_to(const std::string& provider, const std::string& other) {
    write_routes(provider + ", " + other);
    DeviceSilu silu(*runtime_, 0.0F);
    for (int waited = 0; waited < 1000; ++waited) {
      ASSERT_TRUE(silu.call().ok());
      if (silu.provider() == provider) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << provider << " does not serve after 10 s";
  }

  testing::TemporaryFolder folder_;
  std::optional<Runtime> runtime_;
};

TEST_F(GpuSwapTest, TwoStreamsWorkWhileTheFileIsEdited) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> by_vllm{0};
  std::atomic<int> by_functions{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      DeviceSilu silu(*runtime_, static_cast<float>(thread));
      for (int round = 0; !stop; ++round) {
        silu.fill(static_cast<float>(thread) + 0.01F * static_cast<float>(round));
        if (!silu.call().ok() || !silu.is_right()) ++wrong;
        ++(silu.provider() == "vllm" ? by_vllm : by_functions);
      }
    });
  }
  for (int swap = 0; swap < 4; ++swap) {
    swap_to("functions", "vllm");
    swap_to("vllm", "functions");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(by_vllm, 0);
  EXPECT_GT(by_functions, 0);
  RecordProperty("vllm", by_vllm);
  RecordProperty("functions", by_functions);
}

TEST_F(GpuSwapTest, ACapturedGraphKeepsItsCodeWhenItsProviderIsRoutedAway) {
  DeviceSilu silu(*runtime_, 0.0F);
  ASSERT_EQ(cudaStreamSynchronize(silu.stream()), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(silu.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const Status status = silu.call();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(silu.stream(), &graph), cudaSuccess);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(silu.provider(), "vllm");
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);

  // No route names vllm any more.
  write_routes("functions");
  const Status reloaded = runtime_->reload();
  ASSERT_TRUE(reloaded.ok()) << reloaded.message();
  ASSERT_TRUE(silu.call().ok());
  EXPECT_EQ(silu.provider(), "functions");
  for (int round = 1; round <= 3; ++round) {
    silu.fill(static_cast<float>(round));
    ASSERT_EQ(cudaGraphLaunch(ready, silu.stream()), cudaSuccess);
    EXPECT_TRUE(silu.is_right()) << round;
  }
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace opmux
