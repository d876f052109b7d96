// SPDX-License-Identifier: Apache-2.0
//
// Walking over the rows of tensors of any strides, on the host's threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "opmux/plugin.h"
#include "plugins/native/cpu/arguments.hpp"

namespace opmux::native {

// Where the n-th row of a tensor lies, a row being what its leading dimensions count. Dimensions
// that lie one after the other in memory are merged, so that nearly always one is left.
class Rows {
 public:
  Rows(const Tensor& tensor, int leading) : data_(tensor.data) {
    for (int i = 0; i < leading; ++i) {
      count_ *= tensor.shape[i];
      if (tensor.shape[i] == 1) continue;
      const int64_t pitch = tensor.stride[i] * tensor.element_bytes();
      if (used_ > 0 && pitch_[used_ - 1] == pitch * tensor.shape[i]) {
        size_[used_ - 1] *= tensor.shape[i];
        pitch_[used_ - 1] = pitch;
      } else {
        size_[used_] = tensor.shape[i];
        pitch_[used_] = pitch;
        ++used_;
      }
    }
  }

  int64_t count() const { return count_; }

  char* at(int64_t row) const {
    int64_t offset = 0;
    for (int i = used_ - 1; i > 0; --i) {
      offset += row % size_[i] * pitch_[i];
      row /= size_[i];
    }
    if (used_ > 0) offset += row * pitch_[0];
    return data_ + offset;
  }

 private:
  char* data_;
  int64_t count_ = 1;
  int used_ = 0;
  int64_t size_[kMaxRank] = {};
  int64_t pitch_[kMaxRank] = {};  // bytes
};

// Elements that are worth handing to another thread: some ten microseconds of work.
inline constexpr int64_t kGrainElements = 32768;

inline int64_t grain_for(int64_t elements_each) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, elements_each));
}

// body(begin, end) over [0, size); on this thread alone when there is at most one grain.
template <class Body>
void parallel_for(const OpmuxHost& host, int64_t size, int64_t grain, const Body& body) {
  if (size <= grain) {
    if (size > 0) body(int64_t{0}, size);
    return;
  }
  host.parallel_for(
      size, grain,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace opmux::native
