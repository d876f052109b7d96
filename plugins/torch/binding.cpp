// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/binding.hpp"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "plugins/torch/argument.hpp"

namespace opmux::torch_shared {

c10::FunctionSchema parse_schema(const char* what, const char* text) {
  if (text == nullptr) {
    throw Refusal(std::string(what) + " is missing");
  }
  try {
    return torch::jit::parseSchema(text, /*allow_typevars=*/false);
  } catch (const std::exception&) {
    throw Refusal(std::string(what) + " `" + text + "`: " + current_exception_text());
  }
}

void require_known_device(const OpmuxBindRequest& request) {
  if (request.device_type != OPMUX_DEVICE_CPU && request.device_type != OPMUX_DEVICE_CUDA) {
    throw Refusal("device type " + std::to_string(request.device_type) +
                  " is neither cpu nor cuda");
  }
}

std::string argument_text(std::size_t index, const std::string& name) {
  return "argument " + std::to_string(index) + " `" + name + "`";
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

void require_target(const c10::FunctionSchema& operator_schema, std::size_t result,
                    const std::string& result_type, bool result_is_tensor, std::int32_t argument) {
  const auto& arguments = operator_schema.arguments();
  const auto to = static_cast<std::size_t>(argument);
  const auto to_type = to < arguments.size() ? argument_type(arguments[to]) : std::nullopt;
  if (!result_is_tensor || !to_type || to_type->kind != ArgumentKind::kTensor) {
    throw Refusal("result " + std::to_string(result) + ": expected a Tensor and a Tensor argument" +
                  " to copy it to, found " + result_type + " and argument " + std::to_string(to));
  }
  if (!is_written(arguments[to])) {
    throw Refusal("result " + std::to_string(result) + ": " +
                  argument_text(to, arguments[to].name()) +
                  " of the operator is not marked as written");
  }
}

}  // namespace opmux::torch_shared
