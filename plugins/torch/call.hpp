// SPDX-License-Identifier: Apache-2.0
//
// What a call of any module needs on both sides of the provider's function: the caller's device and
// stream, the caller's tensors as at::Tensors, and results in the caller's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/torch/device.hpp"
#include "plugins/torch/tensor.hpp"

namespace opmux::torch_shared {

// "cuda:0", "cpu".
std::string device_text(OpmuxDevice device);

// Makes the call's device and stream current in `scope`. `name` is the provider's function, for
// messages.
OpmuxStatus enter_cuda(const std::string& name, const OpmuxCall& call,
                       std::optional<CurrentStream>& scope) noexcept;

// Runs `body`, which returns an OpmuxStatus and throws nothing, on the call's device and stream; on
// the cpu there is nothing to enter. Tensors are made inside, so that what torch allocates belongs
// to that stream.
template <class Body>
OpmuxStatus run_on_device(const std::string& name, const OpmuxCall& call, Body&& body) {
  if (call.device.type != OPMUX_DEVICE_CUDA) {
    return body();
  }
  std::optional<CurrentStream> scope;
  const OpmuxStatus status = enter_cuda(name, call, scope);
  return status == OPMUX_OK ? body() : status;
}

// OPMUX_OK when the call has `arguments` values on a device of this type.
OpmuxStatus require_form(const std::string& name, std::int32_t device_type, std::size_t arguments,
                         const OpmuxCall& call) noexcept;

// The tensors of one call. Refusals name the provider's function and the operator's argument.
class CallTensors {
 public:
  // `arguments` are the names of the operator's arguments. All three must outlive this.
  CallTensors(const std::string& name, const std::vector<std::string>& arguments,
              const OpmuxCall& call)
      : name_(name),
        arguments_(arguments),
        call_(call),
        owned_((call.flags & OPMUX_CALL_OWNED_TENSORS) != 0) {}

  // The at::Tensor that the caller holds, or `slot` aimed at the caller's memory; null for a None
  // that is allowed by `optional`. It may be an undefined tensor only where `optional`.
  OpmuxStatus take(std::int32_t argument, bool optional, TensorSlot& slot,
                   const at::Tensor*& result) const {
    const OpmuxValue& value = call_.values[argument];
    if (value.tag == OPMUX_VALUE_TENSOR && value.payload.tensor != nullptr) {
      OpmuxStatus status = OPMUX_OK;
      result = take_view(argument, slot, status);
      if (result == nullptr) {
        return status;
      }
      if (result->defined() || optional) {
        return OPMUX_OK;
      }
    } else if (value.tag == OPMUX_VALUE_NONE && optional) {
      result = nullptr;
      return OPMUX_OK;
    }
    return refuse_value(argument, optional);
  }

  // Appends new tensors over the elements of a Tensor[] argument to `result`.
  OpmuxStatus take_list(std::int32_t argument, const OpmuxTensorList& list,
                        std::vector<at::Tensor>& result) const;

  // False when the callee gave a tensor that take() aimed other memory or another shape. A caller
  // that holds an at::Tensor sees what became of it; a caller of views would not.
  bool kept_its_memory(std::int32_t argument, const TensorSlot& slot) const {
    const OpmuxValue& value = call_.values[argument];
    return value.tag != OPMUX_VALUE_TENSOR || held(*value.payload.tensor) != nullptr ||
           slot.still_aimed(*value.payload.tensor);
  }

  // The error when kept_its_memory() is false.
  OpmuxStatus refuse_other_memory(std::int32_t argument) const;

  // After the provider's function: copies its result number `index` into the caller's tensor,
  // unless it already is that tensor or the argument is None. With `negative_infinity` +inf becomes
  // -inf on the way, by one kernel.
  OpmuxStatus copy_result(std::size_t index, const at::Tensor& result, std::int32_t argument,
                          TensorSlot& slot, bool negative_infinity) const;

  // The error when the provider's list of `size` items has none of this index for the argument.
  OpmuxStatus refuse_short_list(std::size_t size, std::size_t index, std::int32_t argument) const;

  // Whether the caller wants a result in this argument.
  bool wants(std::int32_t argument) const { return call_.values[argument].tag != OPMUX_VALUE_NONE; }

  // "fake::scale: argument 1 `factor`".
  std::string argument_text(std::int32_t argument) const;

 private:
  // The at::Tensor that the caller holds, or null.
  const at::Tensor* held(const OpmuxTensor& tensor) const {
    if (!owned_) {
      return nullptr;
    }
    const auto& owned = reinterpret_cast<const OpmuxOwnedTensor&>(tensor);
    return owned.owner_kind == OPMUX_OWNER_AT_TENSOR ? static_cast<const at::Tensor*>(owned.owner)
                                                     : nullptr;
  }

  bool on_call_device(OpmuxDevice device) const {
    return device.type == call_.device.type &&
           (device.type == OPMUX_DEVICE_CPU || device.index == call_.device.index);
  }

  bool on_call_device(const c10::Device& device) const {
    return call_.device.type == OPMUX_DEVICE_CPU
               ? device.is_cpu()
               : device.is_cuda() && device.index() == call_.device.index;
  }

  // Null with the error in `status` when torch cannot express the tensor or it lies elsewhere.
  const at::Tensor* take_view(std::int32_t argument, TensorSlot& slot, OpmuxStatus& status) const {
    const OpmuxTensor& view = *call_.values[argument].payload.tensor;
    if (const at::Tensor* tensor = held(view)) {
      if (tensor->defined() && !on_call_device(tensor->device())) {
        status = refuse_device(argument, tensor->device().str());
        return nullptr;
      }
      return tensor;
    }
    if (!on_call_device(view.device)) {
      status = refuse_device(argument, device_text(view.device));
      return nullptr;
    }
    const at::Tensor* tensor = slot.aim(view);
    if (tensor == nullptr) {
      status = refuse_view(argument);
    }
    return tensor;
  }

  OpmuxStatus refuse_value(std::int32_t argument, bool optional) const;
  OpmuxStatus refuse_device(std::int32_t argument, const std::string& found) const;
  OpmuxStatus refuse_view(std::int32_t argument) const;

  const std::string& name_;
  const std::vector<std::string>& arguments_;
  const OpmuxCall& call_;
  const bool owned_;
};

}  // namespace opmux::torch_shared
