// SPDX-License-Identifier: Apache-2.0
//
// Reads and checks the arguments of one call. The first thing found wrong is kept, told to the host
// through set_error, and makes every later check a no-op; so an operator reads and checks
// everything, asks once, and only then writes. Nothing is allocated.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "opmux/plugin.h"
#include "plugins/native/cpu/kernels/kernels.hpp"

namespace opmux::native {

inline constexpr int kMaxRank = 8;

// A tensor argument with its strides filled in. `data` includes the byte offset.
struct Tensor {
  const char* name = "";
  bool present = false;
  char* data = nullptr;
  OpmuxDataType dtype = {};
  int rank = 0;
  int64_t shape[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};  // elements
  int64_t elements = 0;

  // Negative dimensions count from the last one. The dimension must exist.
  int64_t size(int dimension) const { return shape[dimension < 0 ? rank + dimension : dimension]; }
  int64_t step(int dimension) const { return stride[dimension < 0 ? rank + dimension : dimension]; }
  int64_t element_bytes() const { return dtype.bits / 8; }
};

inline constexpr OpmuxDataType kFloat32Type = {OPMUX_DTYPE_FLOAT, 32, 1};
inline constexpr OpmuxDataType kInt32Type = {OPMUX_DTYPE_INT, 32, 1};
inline constexpr OpmuxDataType kInt64Type = {OPMUX_DTYPE_INT, 64, 1};
inline constexpr OpmuxDataType kUint32Type = {OPMUX_DTYPE_UINT, 32, 1};
inline constexpr OpmuxDataType kBoolType = {OPMUX_DTYPE_BOOL, 8, 1};

bool same_dtype(OpmuxDataType left, OpmuxDataType right);

class Arguments {
 public:
  Arguments(const OpmuxCall* call, uint32_t count);

  bool valid() const { return status_ == OPMUX_OK; }
  OpmuxStatus status() const { return status_; }
  const OpmuxHost& host() const { return *call_->host; }

  // The argument at this index of the schema. After a failure: an empty tensor, 0, false.
  Tensor tensor(uint32_t index, const char* name);
  Tensor optional_tensor(uint32_t index, const char* name);
  int64_t integer(uint32_t index, const char* name);
  bool boolean(uint32_t index, const char* name);
  double real(uint32_t index, const char* name);
  // `otherwise` for None.
  double optional_real(uint32_t index, const char* name, double otherwise);
  // A list of exactly `count` integers; zeros after a failure.
  void integers(uint32_t index, const char* name, int64_t* values, uint64_t count);

  void require_rank(const Tensor& tensor, int least, int most);
  void require_shape(const Tensor& tensor, std::initializer_list<int64_t> shape);
  void require_shape(const Tensor& tensor, const int64_t* shape, int rank);
  void require_dtype(const Tensor& tensor, std::initializer_list<OpmuxDataType> dtypes);
  void require_contiguous(const Tensor& tensor);
  // One of the elements that the kernels compute with.
  Element element(const Tensor& tensor);

  // Fails unless the condition holds; the text is printf's and begins with the argument's name.
  void require(bool condition, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // The same for what the schema allows and these kernels do not do.
  void support(bool condition, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // Fails with ERROR_BEFORE_LAUNCH when the host has no memory. Valid until the call returns.
  void* workspace(int64_t bytes);

 private:
  const OpmuxValue* value(uint32_t index, const char* name, bool optional);
  Tensor read(const OpmuxTensor& source, const char* name);
  void fail(OpmuxStatus status, const char* text);

  const OpmuxCall* call_;
  OpmuxStatus status_ = OPMUX_OK;
};

}  // namespace opmux::native
