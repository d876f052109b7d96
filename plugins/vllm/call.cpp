// SPDX-License-Identifier: Apache-2.0
//
// The call. What a thread needs for it is kept per binding and thread, so that a call from views
// allocates nothing: the stack, the tensors to re-aim, the lists and strings of the last call.
#include <ATen/core/stack.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/vllm/binding.hpp"
#include "plugins/vllm/device.hpp"
#include "plugins/vllm/host.hpp"
#include "plugins/vllm/tensor.hpp"

namespace opmux::vllm {
namespace {

// c10::InferenceMode in all its effects: no autograd kernels, no recording, and tensors that a
// provider makes carry no version counter. AutoDispatchBelowADInplaceOrView is no substitute: it
// skips the version bump when a provider writes in place to a tensor that the caller's autograd
// graph saved, which torch then cannot notice. c10::InferenceMode itself finds each of torch's two
// thread-local records several times (28 ns beside a boxed call of 23); finding them once costs 4,
// and a caller that already is in inference mode pays one look.
class InferenceScope {
 public:
  InferenceScope() : state_(c10::AutogradState::get_tls_state()) {
    if (state_.get_inference_mode()) {
      return;
    }
    entered_ = true;
    grad_ = state_.get_grad_mode();
    fw_grad_ = state_.get_fw_grad_mode();
    multithreading_ = state_.get_multithreading_enabled();
    set(false, true, false, false);
    keys_ = &c10::impl::raw_local_dispatch_key_set;
    keys_before_ = *keys_;
    keys_->set_included(keys_before_.included().remove(c10::DispatchKey::ADInplaceOrView));
    keys_->set_excluded(keys_before_.excluded() | c10::autograd_dispatch_keyset);
  }
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;
  ~InferenceScope() {
    if (entered_) {
      set(grad_, false, fw_grad_, multithreading_);
      *keys_ = keys_before_;
    }
  }

 private:
  void set(bool grad, bool inference, bool fw_grad, bool multithreading) {
    state_.set_grad_mode(grad);
    state_.set_inference_mode(inference);
    state_.set_fw_grad_mode(fw_grad);
    state_.set_multithreading_enabled(multithreading);
  }

  c10::AutogradState& state_;
  c10::impl::PODLocalDispatchKeySet* keys_ = nullptr;
  c10::impl::PODLocalDispatchKeySet keys_before_{};
  bool entered_ = false;
  bool grad_ = false;
  bool fw_grad_ = false;
  bool multithreading_ = false;
};

struct Frame {
  explicit Frame(const Binding& binding)
      : tensors(binding.tensor_slots), kept(binding.kept_values) {
    stack.reserve(std::max(binding.sources.size(), binding.targets.size()));
  }

  torch::jit::Stack stack;
  std::vector<TensorSlot> tensors;
  std::vector<c10::IValue> kept;
  bool busy = false;
};

// By Binding::index. Destroyed when the thread ends, while torch is still mapped.
thread_local std::vector<std::unique_ptr<Frame>> t_frames;

// This thread's frame for a binding, or one of its own while an outer call of the same binding runs
// on this thread. On return the stack is empty whatever happened, so that no reference to a
// caller's tensor stays behind.
class FrameLease {
 public:
  explicit FrameLease(const Binding& binding) {
    if (binding.index >= t_frames.size()) {
      t_frames.resize(binding.index + 1);
    }
    std::unique_ptr<Frame>& frame = t_frames[binding.index];
    if (frame == nullptr) {
      frame = std::make_unique<Frame>(binding);
    }
    if (frame->busy) {
      nested_ = std::make_unique<Frame>(binding);
      frame_ = nested_.get();
    } else {
      frame_ = frame.get();
    }
    frame_->busy = true;
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  ~FrameLease() {
    frame_->stack.clear();
    frame_->busy = false;
  }

  Frame& operator*() const { return *frame_; }

 private:
  std::unique_ptr<Frame> nested_;
  Frame* frame_ = nullptr;
};

std::string argument_text(const Binding& binding, std::int32_t argument) {
  return binding.name + ": argument " + std::to_string(argument) + " `" +
         binding.operator_arguments[static_cast<std::size_t>(argument)] + "`";
}

std::string device_text(OpmuxDevice device) {
  return device.type == OPMUX_DEVICE_CUDA  ? "cuda:" + std::to_string(device.index)
         : device.type == OPMUX_DEVICE_CPU ? std::string("cpu")
                                           : "device type " + std::to_string(device.type);
}

// One call; what is used from argument conversion to the copies of the results.
class Call {
 public:
  Call(const Binding& binding, const OpmuxCall& call, Frame& frame)
      : binding_(binding),
        call_(call),
        frame_(frame),
        owned_(call.flags & OPMUX_CALL_OWNED_TENSORS) {}

  // Checks devices and pushes all arguments. Nothing is launched.
  OpmuxStatus push_arguments() {
    for (const Source& source : binding_.sources) {
      if (source.argument < 0) {
        frame_.stack.push_back(source.constant);
        continue;
      }
      const OpmuxValue& value = call_.values[source.argument];
      if (source.slot >= 0 && source.type.kind == ArgumentKind::kTensor) {
        if (value.tag == OPMUX_VALUE_TENSOR && value.payload.tensor != nullptr) {
          const at::Tensor* tensor = nullptr;
          if (const OpmuxStatus status = take_tensor(source.argument, source.slot, tensor);
              status != OPMUX_OK) {
            return status;
          }
          if (tensor->defined() || source.type.optional) {
            frame_.stack.emplace_back(*tensor);
            continue;
          }
        } else if (value.tag == OPMUX_VALUE_NONE && source.type.optional) {
          frame_.stack.emplace_back();
          continue;
        }
        return refuse(
            OPMUX_INVALID_ARGUMENT,
            argument_text(binding_, source.argument) + ": expected a Tensor" +
                (source.type.optional ? " or None" : "") + ", found " +
                (value.tag == OPMUX_VALUE_TENSOR ? "an undefined tensor" : value_name(value)));
      }
      if (const OpmuxStatus status = push_value(source, value); status != OPMUX_OK) {
        return status;
      }
    }
    return OPMUX_OK;
  }

  // After the kernel: its results are on the stack, and it may have changed its arguments.
  OpmuxStatus take_results() {
    if (frame_.stack.size() != binding_.targets.size()) {
      return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                    binding_.name + ": expected " + std::to_string(binding_.targets.size()) +
                        " results, found " + std::to_string(frame_.stack.size()));
    }
    for (const Source& source : binding_.sources) {
      if (source.written && source.argument >= 0 && !kept_its_memory(source)) {
        return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                      argument_text(binding_, source.argument) +
                          ": the provider gave it other memory or another shape, so the result is "
                          "not in the caller's memory");
      }
    }
    for (std::size_t at = 0; at < binding_.targets.size(); ++at) {
      if (binding_.targets[at].argument >= 0) {
        if (const OpmuxStatus status = copy_result(at); status != OPMUX_OK) {
          return status;
        }
      }
    }
    return OPMUX_OK;
  }

 private:
  // The at::Tensor that the caller holds, or null.
  const at::Tensor* caller_tensor(const OpmuxTensor& tensor) const {
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

  OpmuxStatus take_tensor(std::int32_t argument, std::int32_t slot, const at::Tensor*& result) {
    const OpmuxTensor& view = *call_.values[argument].payload.tensor;
    if (const at::Tensor* held = caller_tensor(view)) {
      if (held->defined() && !on_call_device(held->device())) {
        return refuse(OPMUX_INVALID_ARGUMENT, argument_text(binding_, argument) + ": expected " +
                                                  device_text(call_.device) + ", found " +
                                                  held->device().str());
      }
      result = held;
      return OPMUX_OK;
    }
    if (!on_call_device(view.device)) {
      return refuse(OPMUX_INVALID_ARGUMENT, argument_text(binding_, argument) + ": expected " +
                                                device_text(call_.device) + ", found " +
                                                device_text(view.device));
    }
    result = frame_.tensors[static_cast<std::size_t>(slot)].aim(view);
    if (result == nullptr) {
      return refuse(OPMUX_INVALID_ARGUMENT,
                    argument_text(binding_, argument) + ": " + tensor_fault(view));
    }
    return OPMUX_OK;
  }

  OpmuxStatus push_tensor_list(const Source& source, const OpmuxTensorList& list) {
    c10::List<at::Tensor> tensors;
    tensors.reserve(list.size);
    for (std::uint64_t at = 0; at < list.size; ++at) {
      const OpmuxTensor* view = list.data[at];
      std::string fault;
      if (view == nullptr) {
        fault = "the tensor is missing";
      } else if (!on_call_device(view->device)) {
        fault = "expected " + device_text(call_.device) + ", found " + device_text(view->device);
      } else {
        fault = tensor_fault(*view);
      }
      if (!fault.empty()) {
        return refuse(OPMUX_INVALID_ARGUMENT, argument_text(binding_, source.argument) +
                                                  " element " + std::to_string(at) + ": " + fault);
      }
      tensors.push_back(make_tensor(*view));
    }
    frame_.stack.emplace_back(std::move(tensors));
    return OPMUX_OK;
  }

  OpmuxStatus push_value(const Source& source, const OpmuxValue& value) {
    if (source.type.kind == ArgumentKind::kTensorList && value.tag == OPMUX_VALUE_TENSOR_LIST &&
        value.payload.tensor_list != nullptr) {
      return push_tensor_list(source, *value.payload.tensor_list);
    }
    std::string why;
    if (source.slot < 0) {
      frame_.stack.emplace_back();
      if (convert(value, source.type, frame_.stack.back(), why)) {
        return OPMUX_OK;
      }
    } else {
      c10::IValue& kept = frame_.kept[static_cast<std::size_t>(source.slot)];
      if (convert(value, source.type, kept, why)) {
        frame_.stack.push_back(kept);
        return OPMUX_OK;
      }
    }
    return refuse(OPMUX_INVALID_ARGUMENT, argument_text(binding_, source.argument) + ": " + why);
  }

  // A caller that holds an at::Tensor sees what became of it; a caller of views would not.
  bool kept_its_memory(const Source& source) const {
    const OpmuxValue& value = call_.values[source.argument];
    return value.tag != OPMUX_VALUE_TENSOR || caller_tensor(*value.payload.tensor) != nullptr ||
           frame_.tensors[static_cast<std::size_t>(source.slot)].still_aimed(*value.payload.tensor);
  }

  OpmuxStatus copy_result(std::size_t index) {
    const Target& target = binding_.targets[index];
    const OpmuxValue& value = call_.values[target.argument];
    if (value.tag == OPMUX_VALUE_NONE) {
      return OPMUX_OK;  // an optional output that the caller does not want
    }
    if (value.tag != OPMUX_VALUE_TENSOR || value.payload.tensor == nullptr) {
      return refuse(OPMUX_ERROR_AFTER_LAUNCH, argument_text(binding_, target.argument) +
                                                  ": expected a Tensor, found " +
                                                  value_name(value));
    }
    const at::Tensor* to = nullptr;
    if (take_tensor(target.argument, target.slot, to) != OPMUX_OK) {
      return OPMUX_ERROR_AFTER_LAUNCH;
    }
    const c10::IValue& result = frame_.stack[index];
    if (!result.isTensor() || !result.toTensor().defined() || !to->defined()) {
      return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                    binding_.name + ": result " + std::to_string(index) + " is no tensor");
    }
    const at::Tensor& from = result.toTensor();
    if (from.sizes() != to->sizes() || from.scalar_type() != to->scalar_type()) {
      return refuse(OPMUX_ERROR_AFTER_LAUNCH,
                    argument_text(binding_, target.argument) + ": result " + std::to_string(index) +
                        ": expected " + text(*to) + ", found " + text(from));
    }
    const bool same =
        from.is_same(*to) || (from.strides() == to->strides() && from.data_ptr() == to->data_ptr());
    if (!same && from.numel() > 0) {
      to->copy_(from);
    }
    return OPMUX_OK;
  }

  static std::string text(const at::Tensor& tensor) {
    std::string shape;
    for (const std::int64_t size : tensor.sizes()) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    return std::string(c10::toString(tensor.scalar_type())) + "[" + shape + "]";
  }

  const Binding& binding_;
  const OpmuxCall& call_;
  Frame& frame_;
  const bool owned_;
};

// Everything under inference mode and, for CUDA, on the caller's stream. An exception of the kernel
// may come from before or after its first launch; the caller cannot know, so it counts as after.
OpmuxStatus run(const Binding& binding, const OpmuxCall& call, Frame& frame) {
  bool launched = false;
  try {
    Call running(binding, call, frame);
    if (const OpmuxStatus status = running.push_arguments(); status != OPMUX_OK) {
      return status;
    }
    launched = true;
    c10::Dispatcher::singleton().callBoxed(binding.handle, &frame.stack);
    return running.take_results();
  } catch (...) {
    return refuse(launched ? OPMUX_ERROR_AFTER_LAUNCH : OPMUX_ERROR_BEFORE_LAUNCH,
                  binding.name + ": " + current_exception_text());
  }
}

OpmuxStatus run_on_cuda(const Binding& binding, const OpmuxCall& call, Frame& frame) {
  const auto stream = stream_id(call.stream_kind, call.stream);
  if (!stream) {
    return refuse(OPMUX_INVALID_ARGUMENT,
                  binding.name + ": expected a CUDA stream, found " +
                      (call.stream_kind == OPMUX_STREAM_NONE
                           ? std::string("none; the default stream must be asked for by name")
                           : "kind " + std::to_string(call.stream_kind) + " with no such handle"));
  }
  const auto* guards = cuda_guards();
  if (guards == nullptr) {
    return refuse(OPMUX_UNSUPPORTED,
                  binding.name + ": no CUDA part of torch is mapped in this process");
  }
  std::optional<CurrentStream> scope;
  try {
    const c10::Device device = torch_device(call.device);
    if (const std::string& fault = stream_numbering_fault(*guards, device); !fault.empty()) {
      return refuse(OPMUX_UNSUPPORTED, binding.name + ": " + fault);
    }
    // Before any tensor is made, so that what torch allocates belongs to this stream.
    scope.emplace(*guards, device, *stream);
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, binding.name + ": " + current_exception_text());
  }
  return run(binding, call, frame);
}

}  // namespace

OpmuxStatus call_binding(void* opaque, const OpmuxCall* call) noexcept {
  const Binding& binding = *static_cast<const Binding*>(opaque);
  if (call->struct_size < sizeof(OpmuxCall) || call->device.type != binding.device_type ||
      call->value_count != binding.operator_arguments.size()) {
    return refuse(OPMUX_INVALID_ARGUMENT,
                  binding.name + ": expected " + std::to_string(binding.operator_arguments.size()) +
                      " values on " + (binding.device_type == OPMUX_DEVICE_CUDA ? "cuda" : "cpu") +
                      ", found " + std::to_string(call->value_count) + " on " +
                      device_text(call->device));
  }
  try {
    const FrameLease lease(binding);
    const InferenceScope inference;
    return binding.device_type == OPMUX_DEVICE_CUDA ? run_on_cuda(binding, *call, *lease)
                                                    : run(binding, *call, *lease);
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, current_exception_text());  // out of memory
  }
}

}  // namespace opmux::vllm
