// SPDX-License-Identifier: Apache-2.0
//
// A function of a library runs on the caller's stream. Skipped on a machine without a CUDA device.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>

#include "tests/direct_symbol/example_functions.hpp"

namespace opmux::testing {
namespace {

using ::testing::Each;

constexpr OpmuxDevice kCuda{OPMUX_DEVICE_CUDA, 0};

TEST(DirectCudaCall, RunsOnTheCallersStream) {
  const OpmuxDeviceServices& services = *direct_symbol_module().device_services;
  load(OPMUX_TORCH_FOLDER "/lib/libtorch.so");
  std::array<float, 4> out{};
  void* data = nullptr;
  if (services.allocate(kCuda, sizeof(out), &data) != OPMUX_OK) {
    GTEST_SKIP() << take_error();
  }
  void* stream = nullptr;
  ASSERT_EQ(services.new_stream(kCuda, &stream), OPMUX_OK) << take_error();
  const Bound bound("f(Tensor(a!) x) -> ()", "example::record_stream", {from(0)},
                    {.device_type = OPMUX_DEVICE_CUDA});
  const TensorView x(data, DType::kFloat32, {4}, Device::cuda());
  ASSERT_EQ(call_bound(bound.bound(), {value(x)}, OPMUX_CALL_OWNED_TENSORS, kCuda,
                       OPMUX_STREAM_HANDLE, stream),
            OPMUX_OK)
      << take_error();
  // Torch numbers a foreign stream by its handle.
  EXPECT_EQ(symbol<std::int64_t (*)()>(example_functions(), "example_stream")(),
            reinterpret_cast<std::int64_t>(stream));
  ASSERT_EQ(services.synchronize(kCuda, stream), OPMUX_OK) << take_error();
  ASSERT_EQ(services.copy_out(kCuda, out.data(), data, sizeof(out)), OPMUX_OK) << take_error();
  EXPECT_THAT(out, Each(8));
  services.release(kCuda, data);
}

}  // namespace
}  // namespace opmux::testing
