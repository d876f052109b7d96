// SPDX-License-Identifier: Apache-2.0
//
// Tensors for kernels under test: any strides, any byte offset, and guarded memory, which shows
// what was written beside the elements.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "opmux/plugin.h"
#include "tests/native/numbers.hpp"

namespace opmux::test {

struct Layout {
  std::vector<int64_t> strides;  // empty: contiguous
  uint64_t byte_offset = 0;
};

class TestTensor {
 public:
  TestTensor(Type type, std::vector<int64_t> shape, const Layout& layout = {})
      : type_(type), shape_(std::move(shape)), strides_(layout.strides) {
    width_ = dtype_of(type).bits / 8;
    bool explicit_strides = !strides_.empty();
    if (!explicit_strides) {
      strides_.assign(shape_.size(), 1);
      for (size_t i = shape_.size(); i-- > 1;) strides_[i - 1] = strides_[i] * shape_[i];
    }
    int64_t last = 0;
    for (size_t i = 0; i < shape_.size(); ++i) {
      count_ *= shape_[i];
      last += std::max<int64_t>(0, shape_[i] - 1) * strides_[i];
    }
    const size_t elements = count_ == 0 ? 0 : static_cast<size_t>(last + 1);
    memory_.assign(layout.byte_offset + elements * width_ + kGuard, kFill);
    tensor_.data = memory_.data();
    tensor_.device = {OPMUX_DEVICE_CPU, 0};
    tensor_.rank = static_cast<int32_t>(shape_.size());
    tensor_.dtype = dtype_of(type);
    tensor_.shape = shape_.data();
    tensor_.strides = explicit_strides ? strides_.data() : nullptr;
    tensor_.byte_offset = layout.byte_offset;
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;

  // The C view points into this object, and may be changed to make a wrong call.
  OpmuxTensor* view() { return &tensor_; }
  Type type() const { return type_; }
  int64_t count() const { return count_; }

  double at(int64_t index) const {
    const unsigned char* place = memory_.data() + offset_of(index);
    switch (type_) {
      case Type::kFloat32:
        return static_cast<double>(copy_out<float>(place));
      case Type::kFloat16:
      case Type::kBFloat16:
        return decode16(type_, copy_out<uint16_t>(place));
      case Type::kInt64:
        return static_cast<double>(copy_out<int64_t>(place));
      case Type::kInt32:
        return static_cast<double>(copy_out<int32_t>(place));
      case Type::kUint32:
        return static_cast<double>(copy_out<uint32_t>(place));
      default:
        return static_cast<double>(*place);
    }
  }

  // Rounds to the tensor's type.
  void set(int64_t index, double value) {
    unsigned char* place = memory_.data() + offset_of(index);
    switch (type_) {
      case Type::kFloat32:
        return copy_in(place, static_cast<float>(value));
      case Type::kFloat16:
      case Type::kBFloat16:
        return copy_in(place, encode16(type_, round_to(type_, value)));
      case Type::kInt64:
        return copy_in(place, static_cast<int64_t>(value));
      case Type::kInt32:
        return copy_in(place, static_cast<int32_t>(value));
      case Type::kUint32:
        return copy_in(place, static_cast<uint32_t>(value));
      default:
        return copy_in(place, static_cast<uint8_t>(value));
    }
  }

  TestTensor& fill(const std::function<double(int64_t)>& value) {
    for (int64_t i = 0; i < count_; ++i) set(i, value(i));
    return *this;
  }

  std::vector<double> values() const {
    std::vector<double> result(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) result[static_cast<size_t>(i)] = at(i);
    return result;
  }

  const std::vector<unsigned char>& bytes() const { return memory_; }

  // All bytes of an element that a kernel has not written still hold this.
  bool untouched() const {
    return std::all_of(memory_.begin(), memory_.end(),
                       [](unsigned char byte) { return byte == kFill; });
  }

  // Whether the bytes that belong to no element are as they were.
  bool guards_hold() const {
    std::vector<bool> used(memory_.size(), false);
    for (int64_t i = 0; i < count_; ++i) {
      std::fill_n(used.begin() + static_cast<int64_t>(offset_of(i)), width_, true);
    }
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!used[i] && memory_[i] != kFill) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kFill = 0xa5;
  static constexpr size_t kGuard = 64;

  template <class T>
  static T copy_out(const unsigned char* place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    return value;
  }
  template <class T>
  static void copy_in(unsigned char* place, T value) {
    std::memcpy(place, &value, sizeof value);
  }

  size_t offset_of(int64_t index) const {
    int64_t offset = 0;
    for (size_t i = shape_.size(); i-- > 0;) {
      offset += index % shape_[i] * strides_[i];
      index /= shape_[i];
    }
    return tensor_.byte_offset + static_cast<size_t>(offset) * width_;
  }

  Type type_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  size_t width_ = 0;
  int64_t count_ = 1;
  std::vector<unsigned char> memory_;
  OpmuxTensor tensor_ = {};
};

}  // namespace opmux::test
