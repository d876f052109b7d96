// SPDX-License-Identifier: Apache-2.0
#include "plugins/direct_symbol/foreign_function.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "plugins/torch/binding.hpp"

namespace opmux::direct_symbol {
namespace {

static_assert(!std::is_trivially_copyable_v<at::Tensor> &&
              !std::is_trivially_copyable_v<std::optional<at::Tensor>> &&
              !std::is_trivially_copyable_v<std::optional<at::Generator>> &&
              !std::is_trivially_copyable_v<std::vector<long>> &&
              !std::is_trivially_copyable_v<std::string>);
static_assert(std::is_trivially_copyable_v<std::optional<bool>> &&
              std::is_trivially_copyable_v<std::optional<int>> &&
              std::is_trivially_copyable_v<std::optional<long>> &&
              std::is_trivially_copyable_v<std::optional<double>> &&
              std::is_trivially_copyable_v<c10::ArrayRef<long>>);

// Two members, as the platform passes a struct of them. Size and alignment are given, so libffi
// computes, and writes, nothing.
template <class Whole>
ffi_type* pair_of(ffi_type* first, ffi_type* second) {
  static ffi_type* members[] = {first, second, nullptr};
  static ffi_type type = {sizeof(Whole), alignof(Whole), FFI_TYPE_STRUCT, members};
  return &type;
}

// The value first, then whether there is one.
template <class Value>
ffi_type* optional_of(ffi_type* value) {
  using Optional = std::optional<Value>;
  static_assert(sizeof(Optional) == 2 * sizeof(Value) && alignof(Optional) == alignof(Value));
  return pair_of<Optional>(value, &ffi_type_uint8);
}

template <class Integer>
ffi_type* integer_type() {
  constexpr bool kSigned = std::is_signed_v<Integer>;
  switch (sizeof(Integer)) {
    case 1:
      return kSigned ? &ffi_type_sint8 : &ffi_type_uint8;
    case 2:
      return kSigned ? &ffi_type_sint16 : &ffi_type_uint16;
    case 4:
      return kSigned ? &ffi_type_sint32 : &ffi_type_uint32;
    default:
      static_assert(sizeof(Integer) <= 8);
      return kSigned ? &ffi_type_sint64 : &ffi_type_uint64;
  }
}

ffi_type* value_type(ValueKind kind) {
  switch (kind) {
    case ValueKind::kBool:
      return &ffi_type_uint8;
    case ValueKind::kChar:
      return integer_type<char>();
    case ValueKind::kSignedChar:
      return integer_type<signed char>();
    case ValueKind::kUnsignedChar:
      return integer_type<unsigned char>();
    case ValueKind::kShort:
      return integer_type<short>();
    case ValueKind::kUnsignedShort:
      return integer_type<unsigned short>();
    case ValueKind::kInt:
      return integer_type<int>();
    case ValueKind::kUnsignedInt:
      return integer_type<unsigned int>();
    case ValueKind::kLong:
      return integer_type<long>();
    case ValueKind::kUnsignedLong:
      return integer_type<unsigned long>();
    case ValueKind::kLongLong:
      return integer_type<long long>();
    case ValueKind::kUnsignedLongLong:
      return integer_type<unsigned long long>();
    case ValueKind::kFloat:
      return &ffi_type_float;
    case ValueKind::kDouble:
      return &ffi_type_double;
    case ValueKind::kOptionalBool:
      return optional_of<bool>(&ffi_type_uint8);
    case ValueKind::kOptionalInt:
      return optional_of<int>(integer_type<int>());
    case ValueKind::kOptionalLong:
      return optional_of<long>(integer_type<long>());
    case ValueKind::kOptionalDouble:
      return optional_of<double>(&ffi_type_double);
    case ValueKind::kLongArray:
      static_assert(sizeof(c10::ArrayRef<long>) == sizeof(void*) + sizeof(std::size_t));
      return pair_of<c10::ArrayRef<long>>(&ffi_type_pointer, integer_type<std::size_t>());
    case ValueKind::kTensor:
    case ValueKind::kOptionalTensor:
    case ValueKind::kOptionalConstTensor:
    case ValueKind::kLongVector:
    case ValueKind::kString:
    case ValueKind::kOptionalGenerator:
      return &ffi_type_pointer;
  }
  return &ffi_type_pointer;
}

// Stands for any class that is returned into the caller's memory: libffi passes that memory's
// address (in the first argument's register on x86-64, in x8 on AArch64) for structs of more than
// 16 bytes that are no homogeneous floating-point aggregate, and leaves the memory to the callee.
ffi_type* class_type() {
  struct Large {
    void* members[3];
  };
  static ffi_type* members[] = {&ffi_type_pointer, &ffi_type_pointer, &ffi_type_pointer, nullptr};
  static ffi_type type = {sizeof(Large), alignof(Large), FFI_TYPE_STRUCT, members};
  return &type;
}

ffi_type* result_type(const Return& returned) {
  switch (returned.kind) {
    case ReturnKind::kVoid:
      return &ffi_type_void;
    case ReturnKind::kScalar:
      return value_type(returned.scalar);
    default:
      return class_type();
  }
}

}  // namespace

bool goes_by_address(const Parameter& parameter) {
  return parameter.passing != Passing::kValue || value_type(parameter.kind) == &ffi_type_pointer;
}

ForeignFunction::ForeignFunction(void* address, const Signature& signature, const Return& returned)
    : address_(address) {
  for (const Parameter& parameter : signature.parameters) {
    types_.push_back(goes_by_address(parameter) ? &ffi_type_pointer : value_type(parameter.kind));
  }
  if (ffi_prep_cif(&interface_, FFI_DEFAULT_ABI, static_cast<unsigned int>(types_.size()),
                   result_type(returned), types_.data()) != FFI_OK) {
    throw torch_shared::Refusal(to_string(signature) + ": libffi cannot describe this function");
  }
}

}  // namespace opmux::direct_symbol
