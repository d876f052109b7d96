// SPDX-License-Identifier: Apache-2.0
#include "plugins/native/cpu/arguments.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace opmux::native {
namespace {

// Text of a bounded length, cut at the end.
class Text {
 public:
  __attribute__((format(printf, 2, 3))) Text& add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_list(format, arguments);
    va_end(arguments);
    return *this;
  }

  Text& add_list(const char* format, va_list arguments) {
    const int written = vsnprintf(text_ + size_, sizeof text_ - size_, format, arguments);
    if (written > 0) size_ += static_cast<size_t>(written);
    if (size_ >= sizeof text_) size_ = sizeof text_ - 1;
    return *this;
  }

  Text& add_numbers(const int64_t* numbers, int count) {
    add("[");
    for (int i = 0; i < count; ++i) add("%s%" PRId64, i == 0 ? "" : ", ", numbers[i]);
    return add("]");
  }

  Text& add_dtype(OpmuxDataType dtype) {
    const char* kind = "unknown";
    if (dtype.code == OPMUX_DTYPE_INT) kind = "int";
    if (dtype.code == OPMUX_DTYPE_UINT) kind = "uint";
    if (dtype.code == OPMUX_DTYPE_FLOAT) kind = "float";
    if (dtype.code == OPMUX_DTYPE_BFLOAT) kind = "bfloat";
    if (dtype.code == OPMUX_DTYPE_BOOL) return add("bool");
    if (dtype.code == OPMUX_DTYPE_FLOAT8_E4M3FN) return add("float8_e4m3fn");
    if (dtype.code == OPMUX_DTYPE_FLOAT8_E4M3FNUZ) return add("float8_e4m3fnuz");
    if (dtype.code == OPMUX_DTYPE_FLOAT8_E5M2) return add("float8_e5m2");
    add("%s%d", kind, dtype.bits);
    return dtype.lanes == 1 ? *this : add("x%d", dtype.lanes);
  }

  const char* text() const { return text_; }

 private:
  char text_[512] = {};
  size_t size_ = 0;
};

const char* tag_name(int32_t tag) {
  switch (tag) {
    case OPMUX_VALUE_NONE:
      return "None";
    case OPMUX_VALUE_INT:
      return "an integer";
    case OPMUX_VALUE_BOOL:
      return "a bool";
    case OPMUX_VALUE_FLOAT:
      return "a float";
    case OPMUX_VALUE_POINTER:
      return "a pointer";
    case OPMUX_VALUE_DTYPE:
      return "a dtype";
    case OPMUX_VALUE_DEVICE:
      return "a device";
    case OPMUX_VALUE_TENSOR:
      return "a tensor";
    case OPMUX_VALUE_STRING:
      return "a string";
    case OPMUX_VALUE_INT_LIST:
      return "a list of integers";
    case OPMUX_VALUE_FLOAT_LIST:
      return "a list of floats";
    case OPMUX_VALUE_TENSOR_LIST:
      return "a list of tensors";
    default:
      return "a value of an unknown kind";
  }
}

const char* device_name(int32_t type) {
  switch (type) {
    case OPMUX_DEVICE_CPU:
      return "cpu";
    case OPMUX_DEVICE_CUDA:
      return "cuda";
    default:
      return "another device";
  }
}

}  // namespace

bool same_dtype(OpmuxDataType left, OpmuxDataType right) {
  return left.code == right.code && left.bits == right.bits && left.lanes == right.lanes;
}

Arguments::Arguments(const OpmuxCall* call, uint32_t count) : call_(call) {
  if (call_->struct_size < sizeof(OpmuxCall) || call_->host == nullptr) {
    status_ = OPMUX_INVALID_ARGUMENT;  // nobody to tell: the host itself may be beyond the end
    return;
  }
  require(call_->device.type == OPMUX_DEVICE_CPU, "call: expected device cpu, found %s",
          device_name(call_->device.type));
  require(call_->value_count == count, "call: expected %" PRIu32 " arguments, found %" PRIu32,
          count, call_->value_count);
}

void Arguments::fail(OpmuxStatus status, const char* text) {
  status_ = status;
  call_->host->set_error(text);
}

void Arguments::require(bool condition, const char* format, ...) {
  if (condition || !valid()) return;
  Text text;
  va_list arguments;
  va_start(arguments, format);
  text.add_list(format, arguments);
  va_end(arguments);
  fail(OPMUX_INVALID_ARGUMENT, text.text());
}

void Arguments::support(bool condition, const char* format, ...) {
  if (condition || !valid()) return;
  Text text;
  va_list arguments;
  va_start(arguments, format);
  text.add_list(format, arguments);
  va_end(arguments);
  fail(OPMUX_UNSUPPORTED, text.text());
}

void* Arguments::workspace(int64_t bytes) {
  if (!valid()) return nullptr;
  void* memory = call_->host->workspace(static_cast<size_t>(bytes));
  if (memory == nullptr) {
    fail(OPMUX_ERROR_BEFORE_LAUNCH,
         Text().add("workspace: expected %" PRId64 " bytes, the host has none left", bytes).text());
  }
  return memory;
}

const OpmuxValue* Arguments::value(uint32_t index, const char* name, bool optional) {
  if (!valid()) return nullptr;
  const OpmuxValue* value = &call_->values[index];
  if (value->tag == OPMUX_VALUE_TENSOR) {
    require(value->payload.tensor != nullptr, "`%s`: expected a tensor, found a null pointer",
            name);
    return valid() ? value : nullptr;
  }
  if (optional && value->tag == OPMUX_VALUE_NONE) return nullptr;
  return value;
}

Tensor Arguments::tensor(uint32_t index, const char* name) {
  const OpmuxValue* found = value(index, name, false);
  if (found == nullptr) return {};
  require(found->tag == OPMUX_VALUE_TENSOR, "`%s`: expected a tensor, found %s", name,
          tag_name(found->tag));
  return valid() ? read(*found->payload.tensor, name) : Tensor{};
}

Tensor Arguments::optional_tensor(uint32_t index, const char* name) {
  const OpmuxValue* found = value(index, name, true);
  if (found == nullptr) return {};
  require(found->tag == OPMUX_VALUE_TENSOR, "`%s`: expected a tensor or None, found %s", name,
          tag_name(found->tag));
  return valid() ? read(*found->payload.tensor, name) : Tensor{};
}

Tensor Arguments::read(const OpmuxTensor& source, const char* name) {
  Tensor result;
  result.name = name;
  require(source.device.type == OPMUX_DEVICE_CPU, "`%s`: expected device cpu, found %s", name,
          device_name(source.device.type));
  require(source.rank >= 0, "`%s`: expected a rank of at least 0, found %" PRId32, name,
          source.rank);
  support(source.rank <= kMaxRank, "`%s`: expected a rank of at most %d, found %" PRId32, name,
          kMaxRank, source.rank);
  const bool has_shape = source.rank == 0 || source.shape != nullptr;
  require(has_shape, "`%s`: expected a shape, found none", name);
  if (!valid() || !has_shape) return {};
  result.present = true;
  result.dtype = source.dtype;
  result.rank = source.rank;
  result.elements = 1;
  for (int i = result.rank - 1; i >= 0; --i) {
    result.shape[i] = source.shape[i];
    require(source.shape[i] >= 0,
            "`%s`: expected sizes of at least 0, found %" PRId64 " in dimension %d", name,
            source.shape[i], i);
    result.stride[i] = source.strides != nullptr ? source.strides[i] : result.elements;
    const bool overflow =
        __builtin_mul_overflow(result.elements, source.shape[i], &result.elements);
    require(!overflow, "`%s`: expected fewer than 2^63 elements, found more", name);
    if (!valid()) return {};
  }
  require(source.data != nullptr || result.elements == 0,
          "`%s`: expected data, found a null pointer with %" PRId64 " elements", name,
          result.elements);
  if (source.data != nullptr) result.data = static_cast<char*>(source.data) + source.byte_offset;
  return result;
}

int64_t Arguments::integer(uint32_t index, const char* name) {
  const OpmuxValue* found = value(index, name, false);
  if (found == nullptr) return 0;
  require(found->tag == OPMUX_VALUE_INT, "`%s`: expected an integer, found %s", name,
          tag_name(found->tag));
  return valid() ? found->payload.integer : 0;
}

bool Arguments::boolean(uint32_t index, const char* name) {
  const OpmuxValue* found = value(index, name, false);
  if (found == nullptr) return false;
  require(found->tag == OPMUX_VALUE_BOOL, "`%s`: expected a bool, found %s", name,
          tag_name(found->tag));
  return valid() && found->payload.integer != 0;
}

double Arguments::real(uint32_t index, const char* name) {
  const OpmuxValue* found = value(index, name, false);
  if (found == nullptr) return 0.0;
  require(found->tag == OPMUX_VALUE_FLOAT || found->tag == OPMUX_VALUE_INT,
          "`%s`: expected a float, found %s", name, tag_name(found->tag));
  if (!valid()) return 0.0;
  return found->tag == OPMUX_VALUE_FLOAT ? found->payload.real
                                         : static_cast<double>(found->payload.integer);
}

double Arguments::optional_real(uint32_t index, const char* name, double otherwise) {
  if (!valid() || call_->values[index].tag == OPMUX_VALUE_NONE) return otherwise;
  return real(index, name);
}

void Arguments::integers(uint32_t index, const char* name, int64_t* values, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) values[i] = 0;
  const OpmuxValue* found = value(index, name, false);
  if (found == nullptr) return;
  const bool has_list = found->tag == OPMUX_VALUE_INT_LIST && found->payload.int_list != nullptr;
  require(has_list, "`%s`: expected a list of integers, found %s", name, tag_name(found->tag));
  if (!has_list) return;
  const OpmuxIntList& list = *found->payload.int_list;
  require(list.size == count, "`%s`: expected %" PRIu64 " integers, found %" PRIu64, name, count,
          list.size);
  for (uint64_t i = 0; valid() && i < count; ++i) values[i] = list.data[i];
}

void Arguments::require_rank(const Tensor& tensor, int least, int most) {
  if (least == most) {
    require(tensor.rank == least, "`%s`: expected rank %d, found %d", tensor.name, least,
            tensor.rank);
  } else if (most == kMaxRank) {
    require(tensor.rank >= least, "`%s`: expected a rank of at least %d, found %d", tensor.name,
            least, tensor.rank);
  } else {
    require(tensor.rank >= least && tensor.rank <= most,
            "`%s`: expected a rank from %d to %d, found %d", tensor.name, least, most, tensor.rank);
  }
}

void Arguments::require_shape(const Tensor& tensor, std::initializer_list<int64_t> shape) {
  require_shape(tensor, shape.begin(), static_cast<int>(shape.size()));
}

void Arguments::require_shape(const Tensor& tensor, const int64_t* shape, int rank) {
  if (!valid()) return;
  bool same = tensor.rank == rank;
  for (int i = 0; same && i < rank; ++i) same = tensor.shape[i] == shape[i];
  if (same) return;
  Text text;
  text.add("`%s`: expected shape ", tensor.name).add_numbers(shape, rank).add(", found ");
  fail(OPMUX_INVALID_ARGUMENT, text.add_numbers(tensor.shape, tensor.rank).text());
}

void Arguments::require_dtype(const Tensor& tensor, std::initializer_list<OpmuxDataType> dtypes) {
  if (!valid()) return;
  for (const OpmuxDataType dtype : dtypes) {
    if (same_dtype(dtype, tensor.dtype)) return;
  }
  Text text;
  text.add("`%s`: expected dtype ", tensor.name);
  size_t index = 0;
  for (const OpmuxDataType dtype : dtypes) {
    if (index > 0) text.add(index + 1 == dtypes.size() ? " or " : ", ");
    text.add_dtype(dtype);
    ++index;
  }
  fail(OPMUX_INVALID_ARGUMENT, text.add(", found ").add_dtype(tensor.dtype).text());
}

void Arguments::require_contiguous(const Tensor& tensor) {
  if (!valid() || tensor.elements == 0) return;
  int64_t expected = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.stride[i] != expected) {
      Text text;
      text.add("`%s`: expected a contiguous tensor of shape ", tensor.name);
      text.add_numbers(tensor.shape, tensor.rank).add(", found strides ");
      fail(OPMUX_INVALID_ARGUMENT, text.add_numbers(tensor.stride, tensor.rank).text());
      return;
    }
    expected *= tensor.shape[i];
  }
}

Element Arguments::element(const Tensor& tensor) {
  constexpr OpmuxDataType kFloat16Type = {OPMUX_DTYPE_FLOAT, 16, 1};
  constexpr OpmuxDataType kBFloat16Type = {OPMUX_DTYPE_BFLOAT, 16, 1};
  require_dtype(tensor, {kFloat32Type, kFloat16Type, kBFloat16Type});
  if (same_dtype(tensor.dtype, kFloat16Type)) return kFloat16;
  return same_dtype(tensor.dtype, kBFloat16Type) ? kBFloat16 : kFloat32;
}

}  // namespace opmux::native
