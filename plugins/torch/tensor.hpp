// SPDX-License-Identifier: Apache-2.0
//
// at::Tensors over memory that the caller owns.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "opmux/plugin.h"

namespace opmux::torch_shared {

std::optional<at::ScalarType> scalar_type(OpmuxDataType dtype) noexcept;

// cpu has no index in torch, while DLPack writes 0.
c10::Device torch_device(OpmuxDevice device) noexcept;

// Why torch cannot express this tensor; empty when it can.
std::string tensor_fault(const OpmuxTensor& tensor);

// A tensor over `tensor`'s memory that frees nothing. Precondition: tensor_fault() is empty.
at::Tensor make_tensor(const OpmuxTensor& tensor);

// One at::Tensor that is pointed at other memory from call to call: making a TensorImpl costs about
// ten times as much as re-aiming it. It is re-aimed only while nobody else holds it, its storage or
// a view of it, and while it still is what was made here; otherwise a new one takes its place and
// the old one stays with whoever kept it. Not thread-safe: each thread has its own.
class TensorSlot {
 public:
  // The tensor, valid until the next call of aim(), or null when tensor_fault() is not empty.
  const at::Tensor* aim(const OpmuxTensor& tensor);
  // False when a callee gave the tensor other memory or another shape since aim().
  bool still_aimed(const OpmuxTensor& tensor) const;

 private:
  bool reusable(const OpmuxTensor& tensor) const noexcept;

  at::Tensor tensor_;
  c10::StorageImpl* storage_ = nullptr;  // tensor_'s, as made
  c10::DispatchKeySet keys_;             // tensor_'s, as made
  OpmuxDevice device_{};
  OpmuxDataType dtype_{};
  std::size_t item_size_ = 0;
};

}  // namespace opmux::torch_shared
