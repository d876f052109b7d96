// SPDX-License-Identifier: Apache-2.0
//
// For callers that hold at::Tensors: a view that a torch provider uses as the very tensor, and
// every other provider as pointer, shape and strides. Header-only; needs torch's headers, which the
// rest of opmux does not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "opmux/tensor_view.hpp"

namespace opmux {

// DLPack's name of a torch dtype; throws std::invalid_argument for those it has no name for.
inline OpmuxDataType dtype_of(const at::Tensor& tensor) {
  const auto bits = static_cast<std::uint8_t>(8 * tensor.element_size());
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kHalf:
    case at::kDouble:
      return {OPMUX_DTYPE_FLOAT, bits, 1};
    case at::kBFloat16:
      return {OPMUX_DTYPE_BFLOAT, bits, 1};
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
      return {OPMUX_DTYPE_INT, bits, 1};
    case at::kByte:
    case at::kUInt16:
    case at::kUInt32:
    case at::kUInt64:
      return {OPMUX_DTYPE_UINT, bits, 1};
    case at::kBool:
      return {OPMUX_DTYPE_BOOL, bits, 1};
    case at::kFloat8_e4m3fn:
      return {OPMUX_DTYPE_FLOAT8_E4M3FN, bits, 1};
    case at::kFloat8_e4m3fnuz:
      return {OPMUX_DTYPE_FLOAT8_E4M3FNUZ, bits, 1};
    case at::kFloat8_e5m2:
      return {OPMUX_DTYPE_FLOAT8_E5M2, bits, 1};
    default:
      throw std::invalid_argument(std::string("opmux has no dtype for torch's ") +
                                  c10::toString(tensor.scalar_type()));
  }
}

// `tensor` must outlive the view and keep its shape meanwhile: nothing is copied, and no reference
// is taken. Throws std::invalid_argument for what no view can express: an undefined tensor, a
// layout without strides, a device that is neither cpu nor cuda, a pending conjugation or negation.
inline TensorView view_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_conj() || tensor.is_neg() ||
      !(tensor.is_cpu() || tensor.is_cuda())) {
    throw std::invalid_argument("opmux takes defined, strided tensors on cpu or cuda");
  }
  OpmuxTensor abi{};
  abi.data = tensor.data_ptr();
  abi.device = tensor.is_cuda() ? OpmuxDevice{OPMUX_DEVICE_CUDA, tensor.device().index()}
                                : OpmuxDevice{OPMUX_DEVICE_CPU, 0};
  abi.rank = static_cast<std::int32_t>(tensor.dim());
  abi.dtype = dtype_of(tensor);
  abi.shape = const_cast<std::int64_t*>(tensor.sizes().data());
  abi.strides = const_cast<std::int64_t*>(tensor.strides().data());
  // The plugin only reads it; whether it writes the elements is the operator's schema.
  return TensorView::borrow(abi, const_cast<at::Tensor*>(&tensor), OPMUX_OWNER_AT_TENSOR);
}

// A view of a temporary would dangle at once.
TensorView view_of(const at::Tensor&& tensor) = delete;

}  // namespace opmux
