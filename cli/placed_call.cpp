// SPDX-License-Identifier: Apache-2.0
#include "cli/placed_call.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "core/base/rules.hpp"

namespace opmux::cli {
namespace {

constexpr std::size_t kAlignment = 64;

OpmuxDevice to_abi(Device device) { return {device.type, device.index}; }

Status device_failed(const std::string& what) {
  return {StatusCode::kFailed, "the device module cannot " + what};
}

Status no_device(const std::string& what) {
  return Status{reject(rules::kContractNoDevice, "cuda:0",
                       "a device with room for the tensors of this call",
                       "the device module cannot " + what,
                       "See `opmux doctor` for driver and devices, or use --device cpu.")};
}

}  // namespace

PlacedCall::PlacedCall(ExampleCall call, Device device, const OpmuxDeviceServices* services)
    : call_(std::move(call)), device_(device), services_(services) {}

PlacedCall::~PlacedCall() {
  for (const Buffer& buffer : buffers_) {
    if (services_ != nullptr)
      services_->release(to_abi(device_), buffer.data);
    else
      std::free(buffer.data);
  }
}

StatusOr<std::unique_ptr<PlacedCall>> PlacedCall::place(const ExampleCall& call, Device device,
                                                        const OpmuxDeviceServices* services) {
  std::unique_ptr<PlacedCall> placed(new PlacedCall(call, device, services));
  Status built = placed->build();
  if (!built.ok()) return built;
  return StatusOr<std::unique_ptr<PlacedCall>>(std::move(placed));
}

Status PlacedCall::place_tensor(HostTensor& tensor, std::size_t index) {
  // One byte at least, so that the pointer of an empty tensor is a good one too.
  const std::size_t bytes = tensor.bytes.size() + 1;
  void* data = nullptr;
  if (services_ != nullptr) {
    if (services_->allocate(to_abi(device_), bytes, &data) != OPMUX_OK)
      return no_device("allocate " + std::to_string(bytes) + " bytes");
  } else {
    data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (data == nullptr) return {StatusCode::kFailed, "out of memory"};
  }
  buffers_.push_back({index, data, tensor.bytes.size()});
  if (tensor.bytes.empty()) {
    // Nothing to copy, and nowhere to copy it from.
  } else if (services_ == nullptr) {
    std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  } else if (services_->copy_in(to_abi(device_), data, tensor.bytes.data(), tensor.bytes.size()) !=
             OPMUX_OK) {
    return device_failed("copy inputs to the device");
  }

  OpmuxTensor& view = tensors_[index];
  view.data = data;
  view.device = to_abi(device_);
  view.rank = static_cast<std::int32_t>(tensor.shape.size());
  view.dtype = opmux::to_abi(tensor.dtype);
  view.shape = tensor.shape.data();
  view.strides = nullptr;
  view.byte_offset = 0;
  values_[index].tag = OPMUX_VALUE_TENSOR;
  values_[index].payload.tensor = &view;
  return {};
}

Status PlacedCall::build() {
  if (services_ != nullptr) {
    void* stream = nullptr;
    if (services_->new_stream(to_abi(device_), &stream) != OPMUX_OK)
      return no_device("make a stream");
    stream_ = Stream::of(stream);
  }
  const std::size_t count = call_.arguments.size();
  tensors_.resize(count);
  lists_.resize(count);
  values_.assign(count, detail::none_value());
  for (std::size_t i = 0; i < count; ++i) {
    ExampleArgument& argument = call_.arguments[i];
    if (auto* tensor = std::get_if<HostTensor>(&argument)) {
      Status placed = place_tensor(*tensor, i);
      if (!placed.ok()) return placed;
    } else if (const auto* flag = std::get_if<bool>(&argument)) {
      values_[i] = detail::ArgumentTraits<bool>::pack(*flag);
    } else if (const auto* integer = std::get_if<std::int64_t>(&argument)) {
      values_[i] = detail::int_value(*integer);
    } else if (const auto* real = std::get_if<double>(&argument)) {
      values_[i] = detail::float_value(*real);
    } else if (const auto* text = std::get_if<std::string>(&argument)) {
      values_[i] = detail::ArgumentTraits<const char*>::pack(text->c_str());
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&argument)) {
      lists_[i] = {list->data(), list->size()};
      values_[i].tag = OPMUX_VALUE_INT_LIST;
      values_[i].payload.int_list = &lists_[i];
    }
  }
  return {};
}

Status PlacedCall::synchronize() const {
  if (services_ == nullptr) return {};
  if (services_->synchronize(to_abi(device_), stream_.handle) != OPMUX_OK)
    return device_failed("finish the work on its stream");
  return {};
}

StatusOr<ExampleCall> PlacedCall::fetch() const {
  Status finished = synchronize();
  if (!finished.ok()) return finished;
  ExampleCall call = call_;
  for (const Buffer& buffer : buffers_) {
    if (buffer.bytes == 0) continue;
    auto& bytes = std::get<HostTensor>(call.arguments[buffer.argument]).bytes;
    if (services_ == nullptr)
      std::memcpy(bytes.data(), buffer.data, buffer.bytes);
    else if (services_->copy_out(to_abi(device_), bytes.data(), buffer.data, buffer.bytes) !=
             OPMUX_OK)
      return device_failed("copy outputs from the device");
  }
  return call;
}

}  // namespace opmux::cli
