// SPDX-License-Identifier: Apache-2.0
//
// What bind() of a module needs: schemas, refusals in words, and a place for what lives as long as
// the process.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "opmux/plugin.h"
#include "plugins/torch/host.hpp"

namespace opmux::torch_shared {

// Why a binding is refused; ends in the module's bind().
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `what` is named in the Refusal of a text that is no schema.
c10::FunctionSchema parse_schema(const char* what, const char* text);

// Throws a Refusal unless the request is for cpu or cuda.
void require_known_device(const OpmuxBindRequest& request);

// "argument 1 `out`".
std::string argument_text(std::size_t index, const std::string& name);

// Whether the schema marks the argument as written.
bool is_written(const c10::Argument& argument);

// Throws a Refusal unless result number `result`, of this type, is a Tensor and `argument` of the
// operator one that it may be copied to: a Tensor that the operator writes.
void require_target(const c10::FunctionSchema& operator_schema, std::size_t result,
                    const std::string& result_type, bool result_is_tensor, std::int32_t argument);

// Runs `bind_checked`, which throws, as a module's bind(): a request of the ABI's size and an
// exception's text as the reason.
template <class BindChecked>
OpmuxStatus run_bind(const OpmuxBindRequest* request, OpmuxBound* bound,
                     BindChecked&& bind_checked) noexcept {
  if (request == nullptr || bound == nullptr || request->struct_size < sizeof(OpmuxBindRequest) ||
      bound->struct_size < sizeof(OpmuxBound)) {
    return refuse(OPMUX_INCOMPATIBLE, "bind: a struct is smaller than ABI 2.0 has it");
  }
  try {
    bind_checked(*request, *bound);
    return OPMUX_OK;
  } catch (...) {
    return refuse(OPMUX_INCOMPATIBLE, current_exception_text());
  }
}

// Keeps a binding for the life of the process, since the host keeps a pointer to it, and numbers it
// in Binding::index.
template <class Binding>
Binding& keep(Binding binding) {
  static std::mutex mutex;
  static std::deque<Binding>& bindings = *std::make_unique<std::deque<Binding>>().release();
  const std::scoped_lock lock(mutex);
  binding.index = bindings.size();
  bindings.push_back(std::move(binding));
  return bindings.back();
}

}  // namespace opmux::torch_shared
