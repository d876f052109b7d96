// SPDX-License-Identifier: Apache-2.0
#include "plugins/flash_attn/call.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "plugins/torch/argument.hpp"
#include "plugins/torch/host.hpp"
#include "plugins/torch/inference.hpp"

namespace opmux::flash_attn {
namespace {

// Of a build that FLASHATTENTION_DISABLE_... switches made smaller.
constexpr std::string_view kDisabled = "This flash attention build does not support";

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr std::int64_t kLoadBytes = 16;

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(size);
  }
  return text + "]";
}

const char* dtype_text(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

// Whether every row of the last dimension begins at a multiple of 16 bytes and has no gaps.
bool has_loadable_rows(const at::Tensor& tensor) {
  if (tensor.numel() == 0) {
    return true;
  }
  const std::int64_t last = tensor.dim() - 1;
  if (reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % kLoadBytes != 0 ||
      (tensor.size(last) > 1 && tensor.stride(last) != 1)) {
    return false;
  }
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  for (std::int64_t dim = 0; dim < last; ++dim) {
    if (tensor.size(dim) > 1 && tensor.stride(dim) * item % kLoadBytes != 0) {
      return false;
    }
  }
  return true;
}

// FlashAttention counts in int.
bool counts_in_int(const at::Tensor& tensor) {
  for (const std::int64_t size : tensor.sizes()) {
    if (size > std::numeric_limits<int>::max()) {
      return false;
    }
  }
  return true;
}

OpmuxStatus run_body(const Binding& binding, const OpmuxCall& call, Frame& frame, Body body) {
  bool launched = false;
  try {
    Call running(binding, call, frame);
    body(binding, running, launched);
    return OPMUX_OK;
  } catch (const Stop& stopped) {
    return stopped.status;
  } catch (...) {
    const std::string text = torch_shared::current_exception_text();
    const bool disabled = text.find(kDisabled) != std::string::npos;
    return torch_shared::refuse(disabled   ? OPMUX_UNSUPPORTED
                                : launched ? OPMUX_ERROR_AFTER_LAUNCH
                                           : OPMUX_ERROR_BEFORE_LAUNCH,
                                binding.name + ": " + text);
  }
}

}  // namespace

void stop(OpmuxStatus status, const std::string& text) {
  throw Stop{torch_shared::refuse(status, text)};
}

const at::Tensor* Call::take(std::int32_t argument, bool optional) {
  const at::Tensor* result = nullptr;
  const OpmuxStatus status =
      tensors_.take(argument, optional, frame_.slots[static_cast<std::size_t>(argument)], result);
  if (status != OPMUX_OK) {
    throw Stop{status};
  }
  return result;
}

at::Tensor Call::tensor(std::int32_t argument) { return *take(argument, /*optional=*/false); }

std::optional<at::Tensor> Call::optional_tensor(std::int32_t argument) {
  const at::Tensor* taken = take(argument, /*optional=*/true);
  return taken != nullptr && taken->defined() ? std::optional<at::Tensor>(*taken) : std::nullopt;
}

int Call::integer(std::int32_t argument) const {
  const OpmuxValue& value = call_.values[argument];
  if (value.tag != OPMUX_VALUE_INT) {
    refuse_value(argument, "int");
  }
  const std::int64_t number = value.payload.integer;
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
    refuse_argument(OPMUX_INVALID_ARGUMENT, argument, "an int of 32 bits", std::to_string(number));
  }
  return static_cast<int>(number);
}

float Call::real(std::int32_t argument) const {
  const OpmuxValue& value = call_.values[argument];
  switch (value.tag) {
    case OPMUX_VALUE_FLOAT:
      return static_cast<float>(value.payload.real);
    case OPMUX_VALUE_INT:
      return static_cast<float>(value.payload.integer);
    default:
      refuse_value(argument, "float");
  }
}

bool Call::boolean(std::int32_t argument) const {
  const OpmuxValue& value = call_.values[argument];
  if (value.tag != OPMUX_VALUE_BOOL) {
    refuse_value(argument, "bool");
  }
  return value.payload.integer != 0;
}

float Call::scale(std::int32_t argument, std::int64_t head_size) const {
  return given(argument) ? real(argument)
                         : static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
}

Window Call::window(std::int32_t argument) const {
  const OpmuxValue& value = call_.values[argument];
  if (value.tag != OPMUX_VALUE_INT_LIST || value.payload.int_list == nullptr) {
    refuse_value(argument, "int[] of 2");
  }
  const OpmuxIntList& list = *value.payload.int_list;
  if (list.size != 2) {
    refuse_value(argument, "int[] of 2");
  }
  // Every negative number means no bound, and no sequence is longer than an int counts.
  const auto bound = [](std::int64_t number) {
    return number < 0
               ? -1
               : static_cast<int>(std::min<std::int64_t>(number, std::numeric_limits<int>::max()));
  };
  return {bound(list.data[0]), bound(list.data[1])};
}

void Call::refuse_argument(OpmuxStatus status, std::int32_t argument, const std::string& expected,
                           const std::string& found) const {
  stop(status, tensors_.argument_text(argument) + ": expected " + std::string(expected) +
                   ", found " + found);
}

void Call::refuse_value(std::int32_t argument, const char* expected) const {
  refuse_argument(OPMUX_INVALID_ARGUMENT, argument, expected,
                  torch_shared::value_name(call_.values[argument]));
}

void Call::refuse_shape(std::int32_t argument, const at::Tensor& tensor,
                        at::IntArrayRef shape) const {
  refuse_argument(OPMUX_INVALID_ARGUMENT, argument, "shape " + shape_text(shape),
                  shape_text(tensor.sizes()));
}

void Call::refuse_rank(std::int32_t argument, const at::Tensor& tensor, std::int64_t rank) const {
  refuse_argument(OPMUX_INVALID_ARGUMENT, argument, std::to_string(rank) + " dimensions",
                  shape_text(tensor.sizes()));
}

void Call::require_query(std::int32_t argument, const at::Tensor& q) const {
  const at::ScalarType dtype = q.scalar_type();
  require(dtype == at::kHalf || dtype == at::kBFloat16, OPMUX_UNSUPPORTED, argument,
          "float16 or bfloat16", dtype_text(q));
  const std::int64_t head_size = q.size(-1);
  require(head_size >= 8 && head_size <= 256 && head_size % 8 == 0, OPMUX_UNSUPPORTED, argument,
          "a head size up to 256 that is a multiple of 8", head_size);
  require_rows(argument, q, q);
}

void Call::require_rows(std::int32_t argument, const at::Tensor& tensor,
                        const at::Tensor& q) const {
  if (tensor.scalar_type() != q.scalar_type()) {
    refuse_argument(OPMUX_UNSUPPORTED, argument, std::string(dtype_text(q)) + " as q has",
                    dtype_text(tensor));
  }
  require(counts_in_int(tensor), OPMUX_UNSUPPORTED, argument, "sizes below 2^31", "a larger one");
  require(has_loadable_rows(tensor), OPMUX_UNSUPPORTED, argument,
          "rows without gaps that begin at multiples of 16 bytes", "others");
}

void Call::require_indices(std::int32_t argument, const at::Tensor& tensor,
                           std::initializer_list<std::int64_t> shape) const {
  require_shape(argument, tensor, shape);
  require(tensor.scalar_type() == at::kInt, OPMUX_UNSUPPORTED, argument, "int32",
          dtype_text(tensor));
  require(tensor.is_contiguous(), OPMUX_UNSUPPORTED, argument, "a contiguous tensor",
          "one with gaps");
}

void Call::require_block_table(std::int32_t argument, const at::Tensor& table, std::int64_t batch,
                               std::int64_t page_size) const {
  require_rank(argument, table, 2);
  require_shape(argument, table, {batch, table.size(1)});
  require(table.scalar_type() == at::kInt, OPMUX_UNSUPPORTED, argument, "int32", dtype_text(table));
  require(table.size(1) <= 1 || table.stride(1) == 1, OPMUX_UNSUPPORTED, argument,
          "rows without gaps", "rows with gaps");
  // FlashAttention counts the slots of a sequence in int.
  require(page_size == 0 || table.size(1) <= std::numeric_limits<int>::max() / page_size,
          OPMUX_UNSUPPORTED, argument, "columns of less than 2^31 slots in all", table.size(1));
}

void Call::require_slopes(std::int32_t argument, const at::Tensor& slopes, std::int64_t batch,
                          std::int64_t heads) const {
  if (slopes.dim() == 2) {
    require_shape(argument, slopes, {batch, heads});
  } else {
    require_shape(argument, slopes, {heads});
  }
  require(slopes.scalar_type() == at::kFloat, OPMUX_UNSUPPORTED, argument, "float32",
          dtype_text(slopes));
  require(slopes.size(-1) <= 1 || slopes.stride(-1) == 1, OPMUX_UNSUPPORTED, argument,
          "rows without gaps", "rows with gaps");
}

void Call::require_outputs(std::int32_t out_argument, const at::Tensor& out, const at::Tensor& q,
                           std::int32_t lse_argument, const std::optional<at::Tensor>& lse,
                           std::initializer_list<std::int64_t> lse_shape) const {
  if (out.sizes() != q.sizes()) {
    refuse_shape(out_argument, out, q.sizes());
  }
  if (out.scalar_type() != q.scalar_type()) {
    refuse_argument(OPMUX_UNSUPPORTED, out_argument, std::string(dtype_text(q)) + " as q has",
                    dtype_text(out));
  }
  if (lse) {
    require_shape(lse_argument, *lse, lse_shape);
    require(lse->scalar_type() == at::kFloat, OPMUX_UNSUPPORTED, lse_argument, "float32",
            dtype_text(*lse));
  }
}

void Call::take_results(const std::vector<at::Tensor>& results, std::int32_t out_argument,
                        std::int32_t lse_argument, bool lse) {
  if (results.size() < 2 || !results[0].defined() || !results[1].defined()) {
    stop(OPMUX_ERROR_AFTER_LAUNCH, binding_.name + ": expected out and softmax_lse, found " +
                                       std::to_string(results.size()) + " results");
  }
  copy_result(0, results[0], out_argument, false);
  // FlashAttention has +inf for a row without keys.
  if (lse) copy_result(1, results[1], lse_argument, true);
}

void Call::copy_result(std::size_t index, const at::Tensor& result, std::int32_t argument,
                       bool negative_infinity) {
  const OpmuxStatus status = tensors_.copy_result(
      index, result, argument, frame_.result_slots[static_cast<std::size_t>(argument)],
      negative_infinity);
  if (status != OPMUX_OK) {
    throw Stop{status};
  }
}

bool is_writable(const at::Tensor& out) { return has_loadable_rows(out); }

void write_no_keys(const at::Tensor& out, const std::optional<at::Tensor>& lse) {
  out.zero_();
  if (lse) {
    lse->fill_(-kInfinity);
  }
}

OpmuxStatus run_call(void* opaque, const OpmuxCall* call, Body body) noexcept {
  const Binding& binding = *static_cast<const Binding*>(opaque);
  if (const OpmuxStatus status = torch_shared::require_form(binding.name, binding.device_type,
                                                            binding.arguments.size(), *call);
      status != OPMUX_OK) {
    return status;
  }
  try {
    const torch_shared::FrameLease<Frame, Binding> lease(binding);
    const torch_shared::InferenceScope inference;
    return torch_shared::run_on_device(binding.name, *call,
                                       [&] { return run_body(binding, *call, *lease, body); });
  } catch (...) {
    return torch_shared::refuse(OPMUX_ERROR_BEFORE_LAUNCH,
                                torch_shared::current_exception_text());  // out of memory
  }
}

}  // namespace opmux::flash_attn
