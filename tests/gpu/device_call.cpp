// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/device_call.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <variant>

namespace opmux::gpu {
namespace {

constexpr useconds_t kLateness = 100'000;  // microseconds, far beyond a launch

Status failed(cudaError_t error) { return Status(StatusCode::kFailed, cudaGetErrorString(error)); }

// Device memory and pinned host memory of one tensor.
class Buffer {
 public:
  explicit Buffer(const cli::HostTensor& tensor) : bytes_(tensor.bytes.size()) {
    error_ = cudaMalloc(&device_, bytes_ + 1);
    if (error_ == cudaSuccess) error_ = cudaMallocHost(&host_, bytes_ + 1);
    // What an operator sees that comes too early: zeros, which no index check trips over.
    if (error_ == cudaSuccess) error_ = cudaMemset(device_, 0, bytes_ + 1);
    if (error_ == cudaSuccess) std::memcpy(host_, tensor.bytes.data(), bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    cudaFree(device_);
    cudaFreeHost(host_);
  }

  cudaError_t error() const { return error_; }
  void* device() const { return device_; }
  cudaError_t send(cudaStream_t stream) const {
    return cudaMemcpyAsync(device_, host_, bytes_, cudaMemcpyHostToDevice, stream);
  }
  cudaError_t receive(cudaStream_t stream) const {
    return cudaMemcpyAsync(host_, device_, bytes_, cudaMemcpyDeviceToHost, stream);
  }
  void copy_to(cli::HostTensor& tensor) const { std::memcpy(tensor.bytes.data(), host_, bytes_); }

 private:
  std::size_t bytes_;
  void* device_ = nullptr;
  void* host_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

void sleep_on_host(void*) { ::usleep(kLateness); }

// A list is kept in `list`.
OpmuxValue plain_value(const cli::ExampleArgument& argument, OpmuxIntList& list) {
  if (const auto* flag = std::get_if<bool>(&argument))
    return detail::ArgumentTraits<bool>::pack(*flag);
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&argument)) {
    list = {integers->data(), integers->size()};
    OpmuxValue value{OPMUX_VALUE_INT_LIST, 0, {0}};
    value.payload.int_list = &list;
    return value;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&argument))
    return detail::int_value(*integer);
  if (const auto* real = std::get_if<double>(&argument)) return detail::float_value(*real);
  return detail::none_value();
}

}  // namespace

std::string missing_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(error);
  return count > 0 ? "" : "no CUDA device";
}

void* new_stream() {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess ? stream
                                                                                  : nullptr;
}

StatusOr<cli::ExampleCall> call_with_late_inputs(const BoxedOperator& target,
                                                 const std::string& provider,
                                                 const cli::ExampleCall& inputs, void* input_stream,
                                                 void* call_stream) {
  auto* const stream = static_cast<cudaStream_t>(input_stream);
  const std::size_t count = inputs.arguments.size();
  std::vector<std::unique_ptr<Buffer>> buffers(count);
  std::vector<OpmuxTensor> tensors(count);
  std::vector<OpmuxValue> values(count);
  std::vector<OpmuxIntList> lists(count);
  cli::ExampleCall outputs = inputs;
  for (std::size_t index = 0; index < count; ++index) {
    auto* tensor = std::get_if<cli::HostTensor>(&outputs.arguments[index]);
    if (tensor == nullptr) {
      values[index] = plain_value(inputs.arguments[index], lists[index]);
      continue;
    }
    buffers[index] = std::make_unique<Buffer>(*tensor);
    if (buffers[index]->error() != cudaSuccess) return failed(buffers[index]->error());
    tensors[index] = {buffers[index]->device(),
                      {OPMUX_DEVICE_CUDA, 0},
                      static_cast<std::int32_t>(tensor->shape.size()),
                      to_abi(tensor->dtype),
                      tensor->shape.data(),
                      nullptr,
                      0};
    values[index].tag = OPMUX_VALUE_TENSOR;
    values[index].reserved = 0;
    values[index].payload.tensor = &tensors[index];
  }
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return failed(error);
  if (const cudaError_t error = cudaLaunchHostFunc(stream, sleep_on_host, nullptr);
      error != cudaSuccess) {
    return failed(error);
  }
  for (const auto& buffer : buffers) {
    if (buffer == nullptr) continue;
    if (const cudaError_t error = buffer->send(stream); error != cudaSuccess) return failed(error);
  }
  const Stream on = Stream::of(call_stream);
  const Status status = provider.empty() ? target.call(values.data(), count, on)
                                         : target.call_provider(provider, values.data(), count, on);
  if (!status.ok()) return status;
  for (const auto& buffer : buffers) {
    if (buffer == nullptr) continue;
    if (const cudaError_t error = buffer->receive(stream); error != cudaSuccess)
      return failed(error);
  }
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return failed(error);
  for (std::size_t index = 0; index < count; ++index) {
    if (buffers[index] != nullptr)
      buffers[index]->copy_to(std::get<cli::HostTensor>(outputs.arguments[index]));
  }
  return outputs;
}

}  // namespace opmux::gpu
