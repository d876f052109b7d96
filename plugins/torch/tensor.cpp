// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/tensor.hpp"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace opmux::torch_shared {
namespace {

void* first_byte(const OpmuxTensor& tensor) noexcept {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

c10::IntArrayRef shape_of(const OpmuxTensor& tensor) noexcept {
  return {tensor.shape, static_cast<std::size_t>(tensor.rank)};
}

bool has_shape_of(const c10::TensorImpl& impl, const OpmuxTensor& tensor) {
  if (tensor.shape == nullptr) {
    return tensor.rank == 0 && impl.dim() == 0;
  }
  if (impl.sizes() != shape_of(tensor)) {
    return false;
  }
  return tensor.strides == nullptr
             ? impl.is_contiguous()
             : impl.strides() ==
                   c10::IntArrayRef(tensor.strides, static_cast<std::size_t>(tensor.rank));
}

// Number of elements between the first and the end of the last one.
std::int64_t extent(const OpmuxTensor& tensor) noexcept {
  std::int64_t end = 1;
  std::int64_t count = 1;
  for (std::int32_t dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.shape[dim] == 0) {
      return 0;
    }
    count *= tensor.shape[dim];
    if (tensor.strides != nullptr) {
      end += (tensor.shape[dim] - 1) * tensor.strides[dim];
    }
  }
  return tensor.strides != nullptr ? end : count;
}

void set_shape(c10::TensorImpl& impl, c10::StorageImpl& storage, const OpmuxTensor& tensor,
               std::size_t item_size) {
  if (tensor.strides == nullptr) {
    impl.set_sizes_contiguous(shape_of(tensor));
  } else {
    impl.set_sizes_and_strides(
        shape_of(tensor), c10::IntArrayRef(tensor.strides, static_cast<std::size_t>(tensor.rank)));
  }
  storage.unsafe_set_nbytes(static_cast<std::size_t>(extent(tensor)) * item_size);
}

bool same(OpmuxDataType left, OpmuxDataType right) noexcept {
  return left.code == right.code && left.bits == right.bits && left.lanes == right.lanes;
}

}  // namespace

std::optional<at::ScalarType> scalar_type(OpmuxDataType dtype) noexcept {
  if (dtype.lanes != 1) {
    return std::nullopt;
  }
  switch (dtype.code << 8 | dtype.bits) {
    case OPMUX_DTYPE_FLOAT << 8 | 16:
      return at::kHalf;
    case OPMUX_DTYPE_FLOAT << 8 | 32:
      return at::kFloat;
    case OPMUX_DTYPE_FLOAT << 8 | 64:
      return at::kDouble;
    case OPMUX_DTYPE_BFLOAT << 8 | 16:
      return at::kBFloat16;
    case OPMUX_DTYPE_INT << 8 | 8:
      return at::kChar;
    case OPMUX_DTYPE_INT << 8 | 16:
      return at::kShort;
    case OPMUX_DTYPE_INT << 8 | 32:
      return at::kInt;
    case OPMUX_DTYPE_INT << 8 | 64:
      return at::kLong;
    case OPMUX_DTYPE_UINT << 8 | 8:
      return at::kByte;
    case OPMUX_DTYPE_UINT << 8 | 16:
      return at::kUInt16;
    case OPMUX_DTYPE_UINT << 8 | 32:
      return at::kUInt32;
    case OPMUX_DTYPE_UINT << 8 | 64:
      return at::kUInt64;
    case OPMUX_DTYPE_BOOL << 8 | 8:
      return at::kBool;
    case OPMUX_DTYPE_FLOAT8_E4M3FN << 8 | 8:
      return at::kFloat8_e4m3fn;
    case OPMUX_DTYPE_FLOAT8_E4M3FNUZ << 8 | 8:
      return at::kFloat8_e4m3fnuz;
    case OPMUX_DTYPE_FLOAT8_E5M2 << 8 | 8:
      return at::kFloat8_e5m2;
    default:
      return std::nullopt;
  }
}

c10::Device torch_device(OpmuxDevice device) noexcept {
  return device.type == OPMUX_DEVICE_CUDA
             ? c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index))
             : c10::Device(c10::DeviceType::CPU);
}

std::string tensor_fault(const OpmuxTensor& tensor) {
  if (!scalar_type(tensor.dtype)) {
    return "dtype code " + std::to_string(tensor.dtype.code) + " with " +
           std::to_string(tensor.dtype.bits) + " bits and " + std::to_string(tensor.dtype.lanes) +
           " lanes is none of torch's";
  }
  if (tensor.device.type != OPMUX_DEVICE_CPU && tensor.device.type != OPMUX_DEVICE_CUDA) {
    return "device type " + std::to_string(tensor.device.type) + " is neither cpu nor cuda";
  }
  if (tensor.rank < 0 || (tensor.rank > 0 && tensor.shape == nullptr)) {
    return "rank " + std::to_string(tensor.rank) + " without a shape";
  }
  // The memory that a tensor spans must be countable in bytes, or sizes wrap around.
  constexpr std::int64_t kMaximum = std::int64_t{1} << 56;
  bool empty = false;
  std::int64_t count = 1;
  std::int64_t end = 0;
  for (std::int32_t dim = 0; dim < tensor.rank; ++dim) {
    const std::int64_t size = tensor.shape[dim];
    if (size < 0) {
      return "size " + std::to_string(size) + " of dimension " + std::to_string(dim) +
             " is negative";
    }
    empty = empty || size == 0;
    if (tensor.strides != nullptr) {
      const std::int64_t stride = tensor.strides[dim];
      if (stride < 0) {
        return "stride " + std::to_string(stride) + " of dimension " + std::to_string(dim) +
               " is negative, which torch cannot express";
      }
      std::int64_t step = 0;
      if (size > 0 && (__builtin_mul_overflow(size - 1, stride, &step) ||
                       __builtin_add_overflow(end, step, &end) || end > kMaximum)) {
        return "strides reach past 2^56 elements";
      }
    }
    if (size > 0 && (__builtin_mul_overflow(count, size, &count) || count > kMaximum)) {
      return "shape has more than 2^56 elements";
    }
  }
  if (!empty && tensor.data == nullptr) {
    return "data is null though the tensor has elements";
  }
  return {};
}

at::Tensor make_tensor(const OpmuxTensor& tensor) {
  const caffe2::TypeMeta dtype = c10::scalarTypeToTypeMeta(*scalar_type(tensor.dtype));
  const c10::Device device = torch_device(tensor.device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(0), at::DataPtr(first_byte(tensor), device),
      /*allocator=*/nullptr, /*resizable=*/false);
  c10::StorageImpl& storage_impl = *storage;
  const auto key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                       c10::DispatchKeySet(key), dtype);
  set_shape(*made.unsafeGetTensorImpl(), storage_impl, tensor, dtype.itemsize());
  return made;
}

bool TensorSlot::reusable(const OpmuxTensor& tensor) const noexcept {
  if (!tensor_.defined() || !same(dtype_, tensor.dtype) || device_.type != tensor.device.type ||
      device_.index != tensor.device.index) {
    return false;
  }
  const c10::TensorImpl* impl = tensor_.unsafeGetTensorImpl();
  // A kept view shares the storage but not the tensor, so both counts matter; set_() swaps the
  // storage; requires_grad_() and friends add autograd_meta; conj(), names and wrapper subclasses
  // show in the key set.
  if (tensor_.use_count() != 1 || tensor_.weak_use_count() != 1 ||
      impl->unsafe_storage().unsafeGetStorageImpl() != storage_ ||
      impl->unsafe_storage().use_count() != 1 || impl->key_set() != keys_ ||
      impl->autograd_meta() != nullptr || impl->storage_offset() != 0) {
    return false;
  }
  // Pairs with the release of the last other reference, which another thread may have dropped.
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

const at::Tensor* TensorSlot::aim(const OpmuxTensor& tensor) {
  if (reusable(tensor)) {
    c10::TensorImpl& impl = *tensor_.unsafeGetTensorImpl();
    const bool same_shape = has_shape_of(impl, tensor);
    if (!same_shape || tensor.data == nullptr) {
      if (!tensor_fault(tensor).empty()) {
        return nullptr;
      }
    }
    // False when somebody gave the storage a deleter of its own.
    if (storage_->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(first_byte(tensor))) {
      if (!same_shape) {
        set_shape(impl, *storage_, tensor, item_size_);
      }
      return &tensor_;
    }
  }
  if (!tensor_fault(tensor).empty()) {
    return nullptr;
  }
  tensor_ = make_tensor(tensor);
  const c10::TensorImpl* impl = tensor_.unsafeGetTensorImpl();
  storage_ = impl->unsafe_storage().unsafeGetStorageImpl();
  keys_ = impl->key_set();
  device_ = tensor.device;
  dtype_ = tensor.dtype;
  item_size_ = impl->itemsize();
  return &tensor_;
}

bool TensorSlot::still_aimed(const OpmuxTensor& tensor) const {
  const c10::TensorImpl& impl = *tensor_.unsafeGetTensorImpl();
  return impl.unsafe_storage().unsafeGetStorageImpl() == storage_ &&
         storage_->_mutable_data_ptr_no_checks().get() == first_byte(tensor) &&
         impl.storage_offset() == 0 && has_shape_of(impl, tensor);
}

}  // namespace opmux::torch_shared
