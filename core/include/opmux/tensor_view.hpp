// SPDX-License-Identifier: Apache-2.0
//
// A tensor that somebody else owns: pointer, dtype, shape, strides, device. Layout of the ABI part:
// OpmuxOwnedTensor in opmux/plugin.h (DLPack's DLTensor and its owner). Thread safety: a value; the
// memory it points to is the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

#include "opmux/plugin.h"

namespace opmux {

enum class DType : std::uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kBool,
  kFloat8E4M3FN,
  kFloat8E5M2,
};

constexpr OpmuxDataType to_abi(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat32:
      return {OPMUX_DTYPE_FLOAT, 32, 1};
    case DType::kFloat16:
      return {OPMUX_DTYPE_FLOAT, 16, 1};
    case DType::kBFloat16:
      return {OPMUX_DTYPE_BFLOAT, 16, 1};
    case DType::kFloat64:
      return {OPMUX_DTYPE_FLOAT, 64, 1};
    case DType::kInt8:
      return {OPMUX_DTYPE_INT, 8, 1};
    case DType::kInt16:
      return {OPMUX_DTYPE_INT, 16, 1};
    case DType::kInt32:
      return {OPMUX_DTYPE_INT, 32, 1};
    case DType::kInt64:
      return {OPMUX_DTYPE_INT, 64, 1};
    case DType::kUInt8:
      return {OPMUX_DTYPE_UINT, 8, 1};
    case DType::kBool:
      return {OPMUX_DTYPE_BOOL, 8, 1};
    case DType::kFloat8E4M3FN:
      return {OPMUX_DTYPE_FLOAT8_E4M3FN, 8, 1};
    case DType::kFloat8E5M2:
      return {OPMUX_DTYPE_FLOAT8_E5M2, 8, 1};
  }
  return {0, 0, 0};
}

struct Device {
  std::int32_t type = OPMUX_DEVICE_CPU;
  std::int32_t index = 0;

  static constexpr Device cpu() noexcept { return {}; }
  static constexpr Device cuda(std::int32_t index = 0) noexcept {
    return {OPMUX_DEVICE_CUDA, index};
  }
};

// Up to kInlineRank dimensions are kept inside the view; `borrow` refers to shape and strides
// elsewhere.
class TensorView {
 public:
  static constexpr int kInlineRank = 8;

  // C-contiguous. `data` may be null when a dimension is 0.
  TensorView(void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device = {})
      : TensorView(data, dtype, shape.begin(), nullptr, static_cast<int>(shape.size()), device) {}

  // `strides` in elements, null for C-contiguous. At most kInlineRank dimensions, which are copied;
  // throws std::length_error beyond.
  TensorView(void* data, DType dtype, const std::int64_t* shape, const std::int64_t* strides,
             int rank, Device device = {}) {
    if (rank < 0 || rank > kInlineRank) {
      throw std::length_error("opmux::TensorView: more dimensions than a view keeps; use borrow");
    }
    OpmuxTensor& tensor = abi_.tensor;
    tensor.data = data;
    tensor.device = {device.type, device.index};
    tensor.rank = rank;
    tensor.dtype = to_abi(dtype);
    tensor.shape = dims_.data();
    tensor.strides = dims_.data() + kInlineRank;
    tensor.byte_offset = 0;
    std::int64_t step = 1;
    for (int dim = rank - 1; dim >= 0; --dim) {
      const auto at = static_cast<std::size_t>(dim);
      dims_[at] = shape[dim];
      dims_[at + kInlineRank] = strides != nullptr ? strides[dim] : step;
      step *= shape[dim];
    }
    abi_.owner = nullptr;
    abi_.owner_kind = OPMUX_OWNER_NONE;
  }

  // Refers to `tensor`'s shape and strides, which must outlive the view. `owner`: see
  // OpmuxOwnedTensor.
  static TensorView borrow(const OpmuxTensor& tensor, void* owner = nullptr,
                           std::uint64_t owner_kind = OPMUX_OWNER_NONE) noexcept {
    TensorView view;
    view.abi_.tensor = tensor;
    view.abi_.owner = owner;
    view.abi_.owner_kind = owner_kind;
    return view;
  }

  TensorView(const TensorView& other) noexcept : abi_(other.abi_), dims_(other.dims_) {
    rebind(other);
  }
  TensorView& operator=(const TensorView& other) noexcept {
    abi_ = other.abi_;
    dims_ = other.dims_;
    rebind(other);
    return *this;
  }
  ~TensorView() = default;

  const OpmuxOwnedTensor& abi() const noexcept { return abi_; }
  void* data() const noexcept {
    return static_cast<std::byte*>(abi_.tensor.data) + abi_.tensor.byte_offset;
  }
  int rank() const noexcept { return abi_.tensor.rank; }
  std::int64_t size(int dim) const noexcept { return abi_.tensor.shape[dim]; }
  Device device() const noexcept { return {abi_.tensor.device.type, abi_.tensor.device.index}; }

 private:
  TensorView() noexcept = default;

  void rebind(const TensorView& other) noexcept {
    if (other.abi_.tensor.shape == other.dims_.data()) {
      abi_.tensor.shape = dims_.data();
      abi_.tensor.strides = dims_.data() + kInlineRank;
    }
  }

  OpmuxOwnedTensor abi_{};
  std::array<std::int64_t, std::size_t{2} * kInlineRank> dims_{};
};

}  // namespace opmux
