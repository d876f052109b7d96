// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/call.hpp"

#include <ATen/ops/nan_to_num.h>

#include <limits>

#include "plugins/torch/argument.hpp"
#include "plugins/torch/host.hpp"

namespace opmux::torch_shared {
namespace {

std::string text(const at::Tensor& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.sizes()) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  }
  return std::string(c10::toString(tensor.scalar_type())) + "[" + shape + "]";
}

}  // namespace

std::string device_text(OpmuxDevice device) {
  return device.type == OPMUX_DEVICE_CUDA  ? "cuda:" + std::to_string(device.index)
         : device.type == OPMUX_DEVICE_CPU ? std::string("cpu")
                                           : "device type " + std::to_string(device.type);
}

OpmuxStatus enter_cuda(const std::string& name, const OpmuxCall& call,
                       std::optional<CurrentStream>& scope) noexcept {
  try {
    const auto stream = stream_id(call.stream_kind, call.stream);
    if (!stream) {
      return refuse(
          OPMUX_INVALID_ARGUMENT,
          name + ": expected a CUDA stream, found " +
              (call.stream_kind == OPMUX_STREAM_NONE
                   ? std::string("none; the default stream must be asked for by name")
                   : "kind " + std::to_string(call.stream_kind) + " with no such handle"));
    }
    const auto* guards = cuda_guards();
    if (guards == nullptr) {
      return refuse(OPMUX_UNSUPPORTED, name + ": no CUDA part of torch is mapped in this process");
    }
    const c10::Device device = torch_device(call.device);
    if (const std::string& fault = stream_numbering_fault(*guards, device); !fault.empty()) {
      return refuse(OPMUX_UNSUPPORTED, name + ": " + fault);
    }
    scope.emplace(*guards, device, *stream);
    return OPMUX_OK;
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, name + ": " + current_exception_text());
  }
}

OpmuxStatus require_form(const std::string& name, std::int32_t device_type, std::size_t arguments,
                         const OpmuxCall& call) noexcept {
  if (call.struct_size >= sizeof(OpmuxCall) && call.device.type == device_type &&
      call.value_count == arguments) {
    return OPMUX_OK;
  }
  return refuse(OPMUX_INVALID_ARGUMENT,
                name + ": expected " + std::to_string(arguments) + " values on " +
                    (device_type == OPMUX_DEVICE_CUDA ? "cuda" : "cpu") + ", found " +
                    std::to_string(call.value_count) + " on " + device_text(call.device));
}

OpmuxStatus CallTensors::take_list(std::int32_t argument, const OpmuxTensorList& list,
                                   std::vector<at::Tensor>& result) const {
  const auto refuse_element = [&](std::uint64_t at, const std::string& fault) {
    return refuse(OPMUX_INVALID_ARGUMENT,
                  argument_text(argument) + " element " + std::to_string(at) + ": " + fault);
  };
  for (std::uint64_t at = 0; at < list.size; ++at) {
    const OpmuxTensor* view = list.data[at];
    if (view == nullptr) {
      return refuse_element(at, "the tensor is missing");
    }
    if (!on_call_device(view->device)) {
      return refuse_element(
          at, "expected " + device_text(call_.device) + ", found " + device_text(view->device));
    }
    if (const std::string fault = tensor_fault(*view); !fault.empty()) {
      return refuse_element(at, fault);
    }
    result.push_back(make_tensor(*view));
  }
  return OPMUX_OK;
}

OpmuxStatus CallTensors::refuse_other_memory(std::int32_t argument) const {
  return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                argument_text(argument) +
                    ": the provider gave it other memory or another shape, so the "
                    "result is not in the caller's memory");
}

OpmuxStatus CallTensors::refuse_short_list(std::size_t size, std::size_t index,
                                           std::int32_t argument) const {
  return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                argument_text(argument) + ": expected at least " + std::to_string(index + 1) +
                    " items in the provider's list, found " + std::to_string(size));
}

OpmuxStatus CallTensors::copy_result(std::size_t index, const at::Tensor& result,
                                     std::int32_t argument, TensorSlot& slot,
                                     bool negative_infinity) const {
  const OpmuxValue& value = call_.values[argument];
  if (value.tag == OPMUX_VALUE_NONE) {
    return OPMUX_OK;  // an optional output that the caller does not want
  }
  if (value.tag != OPMUX_VALUE_TENSOR || value.payload.tensor == nullptr) {
    return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                  argument_text(argument) + ": expected a Tensor, found " + value_name(value));
  }
  OpmuxStatus status = OPMUX_OK;
  const at::Tensor* to = take_view(argument, slot, status);
  if (to == nullptr) {
    return OPMUX_ERROR_AFTER_LAUNCH;
  }
  if (!result.defined() || !to->defined()) {
    return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                  name_ + ": result " + std::to_string(index) + " is no tensor");
  }
  if (result.sizes() != to->sizes() || result.scalar_type() != to->scalar_type()) {
    return refuse(OPMUX_ERROR_AFTER_LAUNCH, argument_text(argument) + ": result " +
                                                std::to_string(index) + ": expected " + text(*to) +
                                                ", found " + text(result));
  }
  const bool same = result.is_same(*to) ||
                    (result.strides() == to->strides() && result.data_ptr() == to->data_ptr());
  if (result.numel() == 0) {
    return OPMUX_OK;
  }
  if (negative_infinity) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    at::Tensor target = *to;
    at::nan_to_num_out(target, result, std::numeric_limits<double>::quiet_NaN(), -kInfinity,
                       -kInfinity);
  } else if (!same) {
    to->copy_(result);
  }
  return OPMUX_OK;
}

std::string CallTensors::argument_text(std::int32_t argument) const {
  return name_ + ": argument " + std::to_string(argument) + " `" +
         arguments_[static_cast<std::size_t>(argument)] + "`";
}

OpmuxStatus CallTensors::refuse_value(std::int32_t argument, bool optional) const {
  const OpmuxValue& value = call_.values[argument];
  return refuse(OPMUX_INVALID_ARGUMENT,
                argument_text(argument) + ": expected a Tensor" + (optional ? " or None" : "") +
                    ", found " +
                    (value.tag == OPMUX_VALUE_TENSOR ? "an undefined tensor" : value_name(value)));
}

OpmuxStatus CallTensors::refuse_device(std::int32_t argument, const std::string& found) const {
  return refuse(OPMUX_INVALID_ARGUMENT, argument_text(argument) + ": expected " +
                                            device_text(call_.device) + ", found " + found);
}

OpmuxStatus CallTensors::refuse_view(std::int32_t argument) const {
  return refuse(OPMUX_INVALID_ARGUMENT, argument_text(argument) + ": " +
                                            tensor_fault(*call_.values[argument].payload.tensor));
}

}  // namespace opmux::torch_shared
