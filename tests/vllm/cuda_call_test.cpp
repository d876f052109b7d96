// SPDX-License-Identifier: Apache-2.0
//
// Calls on a GPU with torch itself as the provider. That work went to the caller's stream is proved
// by capturing the stream into a graph: only what was launched on it becomes a node. Skipped on a
// machine without a CUDA device.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <array>

#include "tests/vllm/dispatcher_world.hpp"

namespace opmux::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr OpmuxDevice kCuda{OPMUX_DEVICE_CUDA, 0};
using Memory = std::array<float, 4>;

const OpmuxDeviceServices& services() { return *vllm_module().device_services; }

// A function of the CUDA runtime that torch mapped.
template <class... Arguments>
int cuda(const char* name, Arguments... arguments) {
  static void* const runtime = ::dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  return symbol<int (*)(Arguments...)>(runtime, name)(arguments...);
}

void* current_stream() {
  static void* const torch = ::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  void* stream = nullptr;
  EXPECT_EQ(symbol<int (*)(std::int32_t, void**)>(torch, "aoti_torch_get_current_cuda_stream")(
                0, &stream),
            0);
  return stream;
}

Bound multiply_in_place() {
  return Bound("f(Tensor x, Tensor y, Tensor(a!) out) -> ()",
               "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
               {from(0), from(1), from(2)},
               {.dispatch_key = "CUDA", .device_type = OPMUX_DEVICE_CUDA, .results = {2}});
}

Bound multiply_and_copy() {
  return Bound("f(Tensor x, Tensor y, Tensor(a!) out) -> ()",
               "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", {from(0), from(1)},
               {.dispatch_key = "CUDA", .device_type = OPMUX_DEVICE_CUDA, .results = {2}});
}

class CudaCall : public ::testing::Test {
 protected:
  void SetUp() override {
    vllm_module();
    load_libtorch();
    void* probe = nullptr;
    if (services().allocate(kCuda, 4, &probe) != OPMUX_OK) {
      GTEST_SKIP() << take_error();
    }
    services().release(kCuda, probe);
    for (void** data : {&x_, &y_, &out_}) {
      ASSERT_EQ(services().allocate(kCuda, sizeof(Memory), data), OPMUX_OK) << take_error();
    }
    const Memory x{1, 2, 3, 4};
    const Memory y{10, 10, 10, 10};
    ASSERT_EQ(services().copy_in(kCuda, x_, x.data(), sizeof(x)), OPMUX_OK) << take_error();
    ASSERT_EQ(services().copy_in(kCuda, y_, y.data(), sizeof(y)), OPMUX_OK) << take_error();
    clear_out();
    ASSERT_EQ(services().new_stream(kCuda, &stream_), OPMUX_OK) << take_error();
  }
  void TearDown() override {
    for (void* data : {x_, y_, out_}) {
      if (data != nullptr) {
        services().release(kCuda, data);
      }
    }
  }

  void clear_out() {
    const Memory zeros{};
    ASSERT_EQ(services().copy_in(kCuda, out_, zeros.data(), sizeof(zeros)), OPMUX_OK);
  }
  Memory out() {
    Memory result{};
    EXPECT_EQ(services().copy_out(kCuda, result.data(), out_, sizeof(result)), OPMUX_OK);
    return result;
  }
  TensorView view(void* data, std::int64_t size = 4) const {
    return TensorView(data, DType::kFloat32, {size}, Device::cuda());
  }
  OpmuxStatus call(const Bound& bound, std::uint32_t kind, void* stream = nullptr) const {
    return bound.call({value(view(x_)), value(view(y_)), value(view(out_))},
                      OPMUX_CALL_OWNED_TENSORS, kCuda, kind, stream);
  }

  void* x_ = nullptr;
  void* y_ = nullptr;
  void* out_ = nullptr;
  void* stream_ = nullptr;
};

TEST_F(CudaCall, LaunchesKernelAndCopyOnTheCallersStreamOnly) {
  constexpr int kRelaxed = 2;
  ASSERT_NE(stream_, nullptr);
  for (const auto& [bound, nodes] :
       {std::pair{multiply_in_place(), 1U}, std::pair{multiply_and_copy(), 2U}}) {
    ASSERT_EQ(call(bound, OPMUX_STREAM_HANDLE, stream_), OPMUX_OK) << take_error();  // warm
    ASSERT_EQ(services().synchronize(kCuda, stream_), OPMUX_OK);
    clear_out();
    ASSERT_EQ(cuda("cudaStreamBeginCapture", stream_, kRelaxed), 0);
    EXPECT_EQ(call(bound, OPMUX_STREAM_HANDLE, stream_), OPMUX_OK) << take_error();
    void* graph = nullptr;
    ASSERT_EQ(cuda("cudaStreamEndCapture", stream_, &graph), 0);
    std::size_t count = 0;
    ASSERT_EQ(cuda("cudaGraphGetNodes", graph, static_cast<void*>(nullptr), &count), 0);
    EXPECT_EQ(count, nodes);
    EXPECT_THAT(out(), Each(0));  // nothing ran yet
    void* executable = nullptr;
    ASSERT_EQ(cuda("cudaGraphInstantiate", &executable, graph, 0ULL), 0);
    ASSERT_EQ(cuda("cudaGraphLaunch", executable, stream_), 0);
    ASSERT_EQ(services().synchronize(kCuda, stream_), OPMUX_OK);
    EXPECT_THAT(out(), ElementsAre(10, 20, 30, 40));
  }
}

TEST_F(CudaCall, TakesTheDefaultStreamsByName) {
  for (const std::uint32_t kind : {OPMUX_STREAM_LEGACY_DEFAULT, OPMUX_STREAM_PER_THREAD_DEFAULT}) {
    clear_out();
    EXPECT_EQ(call(multiply_in_place(), kind), OPMUX_OK) << take_error();
    EXPECT_THAT(out(), ElementsAre(10, 20, 30, 40));
  }
  EXPECT_EQ(call(multiply_in_place(), OPMUX_STREAM_NONE), OPMUX_INVALID_ARGUMENT);
  EXPECT_THAT(take_error(), HasSubstr("must be asked for by name"));
}

TEST_F(CudaCall, RestoresTheThreadsStreamAlsoAfterAnError) {
  void* const before = current_stream();
  EXPECT_EQ(call(multiply_in_place(), OPMUX_STREAM_HANDLE, stream_), OPMUX_OK) << take_error();
  EXPECT_EQ(current_stream(), before);
  EXPECT_EQ(multiply_in_place().call({value(view(x_)), value(view(y_, 3)), value(view(out_))},
                                     OPMUX_CALL_OWNED_TENSORS, kCuda, OPMUX_STREAM_HANDLE, stream_),
            OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_THAT(take_error(), HasSubstr("must match"));
  EXPECT_EQ(current_stream(), before);
}

TEST_F(CudaCall, NamesTheArgumentThatLiesOnTheCpu) {
  Memory host{};
  EXPECT_EQ(multiply_in_place().call(
                {value(view(x_)), value(TensorView(host.data(), DType::kFloat32, {4})),
                 value(view(out_))},
                OPMUX_CALL_OWNED_TENSORS, kCuda, OPMUX_STREAM_HANDLE, stream_),
            OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "aten::mul.out: argument 1 `y`: expected cuda:0, found cpu");
}

}  // namespace
}  // namespace opmux::testing
