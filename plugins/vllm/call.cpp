// SPDX-License-Identifier: Apache-2.0
//
// The call. What a thread needs for it is kept per binding and thread, so that a call from views
// allocates nothing: the stack, the tensors to re-aim, the lists and strings of the last call.
#include "plugins/torch/call.hpp"

#include <ATen/core/stack.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plugins/torch/frame.hpp"
#include "plugins/torch/host.hpp"
#include "plugins/torch/inference.hpp"
#include "plugins/torch/source.hpp"
#include "plugins/torch/tensor.hpp"
#include "plugins/vllm/binding.hpp"

namespace opmux::vllm {
namespace {

using torch_shared::ArgumentKind;
using torch_shared::CallTensors;
using torch_shared::current_exception_text;
using torch_shared::refuse;
using torch_shared::TensorSlot;

struct Frame {
  explicit Frame(const Binding& binding)
      : tensors(binding.tensor_slots), kept(binding.kept_values) {
    stack.reserve(std::max(binding.sources.size(), binding.targets.size()));
  }
  void clear() { stack.clear(); }

  torch::jit::Stack stack;
  std::vector<TensorSlot> tensors;
  std::vector<c10::IValue> kept;
};

// One call; what is used from argument conversion to the copies of the results.
class Call {
 public:
  Call(const Binding& binding, const OpmuxCall& call, Frame& frame)
      : binding_(binding),
        call_(call),
        frame_(frame),
        tensors_(binding.name, binding.operator_arguments, call) {}

  // Checks devices and pushes all arguments. Nothing is launched.
  OpmuxStatus push_arguments() {
    for (const Source& source : binding_.sources) {
      if (const OpmuxStatus status = push(source); status != OPMUX_OK) {
        return status;
      }
    }
    return OPMUX_OK;
  }

  // After the kernel: its results are on the stack, and it may have changed its arguments.
  OpmuxStatus take_results() {
    const std::size_t expected = binding_.returns_list ? 1 : binding_.targets.size();
    if (frame_.stack.size() != expected) {
      return refuse(OPMUX_ERROR_AFTER_LAUNCH, binding_.name + ": expected " +
                                                  std::to_string(expected) + " results, found " +
                                                  std::to_string(frame_.stack.size()));
    }
    for (const Source& source : binding_.sources) {
      if (source.written && source.slot >= 0 &&
          !tensors_.kept_its_memory(source.from.argument, tensor_slot(source.slot))) {
        return tensors_.refuse_other_memory(source.from.argument);
      }
    }
    return binding_.returns_list ? take_items() : copy_results(frame_.stack);
  }

 private:
  TensorSlot& tensor_slot(std::int32_t slot) {
    return frame_.tensors[static_cast<std::size_t>(slot)];
  }

  OpmuxStatus push(const Source& source) {
    OpmuxValue drawn;
    const OpmuxValue* value = &drawn;
    switch (source.from.kind) {
      case OPMUX_SOURCE_ARGUMENT:
        if (source.type.kind == ArgumentKind::kTensor) {
          return push_tensor(source);
        }
        value = &call_.values[source.from.argument];
        break;
      case OPMUX_SOURCE_CONSTANT:
        frame_.stack.push_back(source.constant);
        return OPMUX_OK;
      default:
        if (const OpmuxStatus status = draw(source, drawn); status != OPMUX_OK) {
          return status;
        }
    }
    return push_value(source, *value);
  }

  OpmuxStatus draw(const Source& source, OpmuxValue& value) {
    std::string why;
    if (torch_shared::draw_value(source.from, call_, binding_.operator_arguments, value, why)) {
      return OPMUX_OK;
    }
    return refuse(OPMUX_INVALID_ARGUMENT, binding_.name + ": " + why);
  }

  OpmuxStatus push_tensor(const Source& source) {
    const at::Tensor* tensor = nullptr;
    const OpmuxStatus status =
        tensors_.take(source.from.argument, source.type.optional, tensor_slot(source.slot), tensor);
    if (status != OPMUX_OK) {
      return status;
    }
    if (tensor == nullptr) {
      frame_.stack.emplace_back();
    } else {
      frame_.stack.emplace_back(*tensor);
    }
    return OPMUX_OK;
  }

  OpmuxStatus push_tensor_list(const Source& source, const OpmuxTensorList& list) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(list.size);
    const OpmuxStatus status = tensors_.take_list(source.from.argument, list, tensors);
    if (status == OPMUX_OK) {
      frame_.stack.emplace_back(c10::List<at::Tensor>(c10::ArrayRef<at::Tensor>(tensors)));
    }
    return status;
  }

  OpmuxStatus push_value(const Source& source, const OpmuxValue& value) {
    if (source.type.kind == ArgumentKind::kTensorList && value.tag == OPMUX_VALUE_TENSOR_LIST &&
        value.payload.tensor_list != nullptr) {
      return push_tensor_list(source, *value.payload.tensor_list);
    }
    std::string why;
    if (source.slot < 0) {
      frame_.stack.emplace_back();
      if (torch_shared::convert(value, source.type, frame_.stack.back(), why)) {
        return OPMUX_OK;
      }
    } else {
      c10::IValue& kept = frame_.kept[static_cast<std::size_t>(source.slot)];
      if (torch_shared::convert(value, source.type, kept, why)) {
        frame_.stack.push_back(kept);
        return OPMUX_OK;
      }
    }
    return refuse(OPMUX_INVALID_ARGUMENT,
                  tensors_.argument_text(source.from.argument) + ": " + why);
  }

  OpmuxStatus take_items() {
    if (!frame_.stack[0].isTensorList()) {
      return refuse(OPMUX_ERROR_AFTER_LAUNCH, binding_.name + ": the result is no Tensor[]");
    }
    return copy_results(frame_.stack[0].toListRef());
  }

  OpmuxStatus copy_results(c10::ArrayRef<c10::IValue> results) {
    for (std::size_t at = 0; at < binding_.targets.size(); ++at) {
      const Target& target = binding_.targets[at];
      if (target.argument < 0 || !tensors_.wants(target.argument)) {
        continue;
      }
      if (at >= results.size()) {
        return tensors_.refuse_short_list(results.size(), at, target.argument);
      }
      const OpmuxStatus status =
          tensors_.copy_result(at, results[at].isTensor() ? results[at].toTensor() : no_tensor(),
                               target.argument, tensor_slot(target.slot), target.negative_infinity);
      if (status != OPMUX_OK) {
        return status;
      }
    }
    return OPMUX_OK;
  }

  static const at::Tensor& no_tensor() {
    static const at::Tensor undefined;
    return undefined;
  }

  const Binding& binding_;
  const OpmuxCall& call_;
  Frame& frame_;
  const CallTensors tensors_;
};

// An exception of the kernel may come from before or after its first launch; the caller cannot
// know, so it counts as after.
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

}  // namespace

OpmuxStatus call_binding(void* opaque, const OpmuxCall* call) noexcept {
  const Binding& binding = *static_cast<const Binding*>(opaque);
  try {
    const OpmuxStatus form = torch_shared::require_form(binding.name, binding.device_type,
                                                        binding.operator_arguments.size(), *call);
    if (form != OPMUX_OK) {
      return form;
    }
    const torch_shared::FrameLease<Frame, Binding> lease(binding);
    const torch_shared::InferenceScope inference;
    return torch_shared::run_on_device(binding.name, *call,
                                       [&] { return run(binding, *call, *lease); });
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, current_exception_text());  // out of memory
  }
}

}  // namespace opmux::vllm
