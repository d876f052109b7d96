// SPDX-License-Identifier: Apache-2.0
//
// The call. What a thread needs for it is kept per binding and thread, so that nothing is allocated
// but what the function's own types demand.
#include "plugins/torch/call.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plugins/direct_symbol/binding.hpp"
#include "plugins/direct_symbol/value.hpp"
#include "plugins/torch/frame.hpp"
#include "plugins/torch/host.hpp"
#include "plugins/torch/inference.hpp"
#include "plugins/torch/source.hpp"
#include "plugins/torch/tensor.hpp"

namespace opmux::direct_symbol {
namespace {

using torch_shared::CallTensors;
using torch_shared::refuse;
using torch_shared::TensorSlot;

// The parameters' objects and what libffi reads them by.
class Frame {
 public:
  explicit Frame(const Binding& binding) : tensors(binding.tensor_slots) {
    const std::size_t count = binding.sources.size();
    objects.reserve(count);  // their addresses are taken
    addresses.resize(count);
    values.resize(count);
    given.resize(count);
    for (std::size_t at = 0; at < count; ++at) {
      const Parameter& parameter = binding.sources[at].parameter;
      objects.push_back(make_object(parameter.kind));
      addresses[at] = address_of(objects[at]);
      values[at] = goes_by_address(parameter) ? &addresses[at] : addresses[at];
      if (holds_reference(parameter.kind)) {
        referring_.push_back(at);
      }
    }
  }

  // No reference to a caller's tensor, nor to what a function put in its place, stays behind.
  void clear() {
    for (const std::size_t at : referring_) {
      release(objects[at]);
    }
  }

  std::vector<TensorSlot> tensors;
  std::vector<Object> objects;           // one per parameter
  std::vector<void*> addresses;          // of the objects, or of a tensor that is passed as it is
  std::vector<void*> values;             // ForeignFunction::call's
  std::vector<const at::Tensor*> given;  // what the caller gave; null for None and for no tensor

 private:
  std::vector<std::size_t> referring_;
};

// Memory for an object that a function constructs, and its destruction.
template <class Class>
class Returned {
 public:
  Returned(const Binding& binding, Frame& frame) {
    binding.function.call(frame.values.data(), bytes_);
  }
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;
  ~Returned() { std::destroy_at(&**this); }

  Class& operator*() { return *std::launder(reinterpret_cast<Class*>(bytes_)); }

 private:
  alignas(Class) std::byte bytes_[sizeof(Class)];
};

// One call, from argument conversion to the copies of the results.
class Call {
 public:
  Call(const Binding& binding, const OpmuxCall& call, Frame& frame)
      : binding_(binding),
        call_(call),
        frame_(frame),
        tensors_(binding.name, binding.operator_arguments, call) {}

  // Nothing is launched.
  OpmuxStatus convert_arguments() {
    for (std::size_t at = 0; at < binding_.sources.size(); ++at) {
      const Source& source = binding_.sources[at];
      const OpmuxStatus status =
          source.slot >= 0 ? take_tensor(source, at) : take_value(source, at);
      if (status != OPMUX_OK) {
        return status;
      }
    }
    return OPMUX_OK;
  }

  OpmuxStatus call_function() {
    switch (binding_.returned.kind) {
      case ReturnKind::kVoid:
      case ReturnKind::kScalar: {
        // libffi widens a scalar to an ffi_arg.
        alignas(16) std::byte ignored[16];
        binding_.function.call(frame_.values.data(), ignored);
        return check_arguments();
      }
      case ReturnKind::kTensor: {
        Returned<at::Tensor> result(binding_, frame_);
        return take_results(1, [&](std::size_t) -> const at::Tensor& { return *result; });
      }
      case ReturnKind::kTensorList: {
        Returned<std::vector<at::Tensor>> result(binding_, frame_);
        return take_results((*result).size(),
                            [&](std::size_t at) -> const at::Tensor& { return (*result)[at]; });
      }
      case ReturnKind::kTensorTuple:
        return binding_.returned.tensors == 2   ? take_tuple<0, 1>()
               : binding_.returned.tensors == 3 ? take_tuple<0, 1, 2>()
                                                : take_tuple<0, 1, 2, 3>();
    }
    return OPMUX_OK;
  }

 private:
  // A tensor that goes by const& is the caller's own or the slot's, as it would be in C++. Any
  // other is a handle of this call's, which the function may rebind.
  OpmuxStatus take_tensor(const Source& source, std::size_t at) {
    const bool optional = source.parameter.kind != ValueKind::kTensor;
    const at::Tensor* tensor = nullptr;
    const OpmuxStatus status =
        tensors_.take(source.from.argument, optional, slot(source.slot), tensor);
    if (status != OPMUX_OK) {
      return status;
    }
    frame_.given[at] = tensor != nullptr && tensor->defined() ? tensor : nullptr;
    if (!optional) {
      if (source.parameter.passing == Passing::kConstReference) {
        frame_.addresses[at] = const_cast<at::Tensor*>(tensor);
      } else {
        std::get<at::Tensor>(frame_.objects[at]) = *tensor;
      }
    } else if (tensor != nullptr && tensor->defined()) {
      if (source.parameter.kind == ValueKind::kOptionalTensor) {
        std::get<std::optional<at::Tensor>>(frame_.objects[at]).emplace(*tensor);
      } else {
        std::get<std::optional<const at::Tensor>>(frame_.objects[at]).emplace(*tensor);
      }
    }
    return OPMUX_OK;
  }

  OpmuxStatus take_value(const Source& source, std::size_t at) {
    OpmuxValue drawn{};
    const OpmuxValue* value = &drawn;
    std::string why;
    if (source.constant != nullptr) {
      value = &source.constant->value;
    } else if (source.from.kind == OPMUX_SOURCE_ARGUMENT) {
      value = &call_.values[source.from.argument];
    } else if (!torch_shared::draw_value(source.from, call_, binding_.operator_arguments, drawn,
                                         why)) {
      return refuse(OPMUX_INVALID_ARGUMENT, binding_.name + ": " + why);
    }
    if (convert(*value, source.parameter.kind, frame_.objects[at], why)) {
      return OPMUX_OK;
    }
    return refuse(OPMUX_INVALID_ARGUMENT, tensors_.argument_text(source.from.argument) + ": " +
                                              why + " (for parameter " + std::to_string(at) + " `" +
                                              to_string(source.parameter) + "`)");
  }

  template <std::size_t... Indices>
  OpmuxStatus take_tuple() {
    using Tuple = decltype(std::tuple((static_cast<void>(Indices), at::Tensor())...));
    Returned<Tuple> result(binding_, frame_);
    const std::array<const at::Tensor*, sizeof...(Indices)> tensors = {
        &std::get<Indices>(*result)...};
    return take_results(tensors.size(),
                        [&](std::size_t at) -> const at::Tensor& { return *tensors[at]; });
  }

  template <class Result>
  OpmuxStatus take_results(std::size_t count, Result&& result) {
    if (const OpmuxStatus status = check_arguments(); status != OPMUX_OK) {
      return status;
    }
    for (std::size_t at = 0; at < binding_.targets.size(); ++at) {
      const Target& target = binding_.targets[at];
      if (target.argument < 0 || !tensors_.wants(target.argument)) {
        continue;
      }
      const OpmuxStatus status =
          at < count ? tensors_.copy_result(at, result(at), target.argument, slot(target.slot),
                                            target.negative_infinity)
                     : tensors_.refuse_short_list(count, at, target.argument);
      if (status != OPMUX_OK) {
        return status;
      }
    }
    return OPMUX_OK;
  }

  OpmuxStatus check_arguments() {
    for (std::size_t at = 0; at < binding_.sources.size(); ++at) {
      const Source& source = binding_.sources[at];
      if (source.written && !(tensors_.kept_its_memory(source.from.argument, slot(source.slot)) &&
                              kept_its_handle(source, at))) {
        return tensors_.refuse_other_memory(source.from.argument);
      }
    }
    return OPMUX_OK;
  }

  // False when the function left another tensor in its reference to one that the operator writes:
  // it wrote, or would have wanted to write, elsewhere. A view of the same memory is fine.
  bool kept_its_handle(const Source& source, std::size_t at) const {
    const at::Tensor* given = frame_.given[at];
    return source.parameter.passing != Passing::kReference || given == nullptr ||
           is_still(frame_.objects[at], *given);
  }

  static bool is_still(const Object& object, const at::Tensor& given) {
    const auto same = [&](const at::Tensor& tensor) {
      return tensor.defined() && (tensor.is_same(given) || tensor.is_alias_of(given));
    };
    if (const auto* tensor = std::get_if<at::Tensor>(&object)) {
      return same(*tensor);
    }
    if (const auto* optional = std::get_if<std::optional<at::Tensor>>(&object)) {
      return optional->has_value() && same(**optional);
    }
    const auto& optional = std::get<std::optional<const at::Tensor>>(object);
    return optional.has_value() && same(*optional);
  }

  TensorSlot& slot(std::int32_t index) { return frame_.tensors[static_cast<std::size_t>(index)]; }

  const Binding& binding_;
  const OpmuxCall& call_;
  Frame& frame_;
  const CallTensors tensors_;
};

// An exception of the function may come from before or after its first launch; the caller cannot
// know, so it counts as after.
OpmuxStatus run(const Binding& binding, const OpmuxCall& call, Frame& frame) {
  bool launched = false;
  try {
    Call running(binding, call, frame);
    if (const OpmuxStatus status = running.convert_arguments(); status != OPMUX_OK) {
      return status;
    }
    launched = true;
    return running.call_function();
  } catch (...) {
    return refuse(launched ? OPMUX_ERROR_AFTER_LAUNCH : OPMUX_ERROR_BEFORE_LAUNCH,
                  binding.name + ": " + torch_shared::current_exception_text());
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
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, torch_shared::current_exception_text());
  }
}

}  // namespace opmux::direct_symbol
