// SPDX-License-Identifier: Apache-2.0
#include "plugins/direct_symbol/value.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace opmux::direct_symbol {
namespace {

using torch_shared::ArgumentKind;
using torch_shared::ArgumentType;
using torch_shared::value_name;

static_assert(std::is_same_v<std::int64_t, long>, "an int[] of the ABI is an array of long");

template <class Value>
void put(Object& object, Value value) {
  std::memcpy(std::get<Scalar>(object).bytes.data(), &value, sizeof(value));
}

bool refuse(std::string& why, const char* expected, const OpmuxValue& found) {
  why = std::string("expected ") + expected + ", found " + value_name(found);
  return false;
}

bool to_bool(const OpmuxValue& value, bool& result, std::string& why) {
  if (value.tag != OPMUX_VALUE_BOOL) return refuse(why, "bool", value);
  result = value.payload.integer != 0;
  return true;
}

bool to_double(const OpmuxValue& value, double& result, std::string& why) {
  if (value.tag == OPMUX_VALUE_FLOAT) {
    result = value.payload.real;
  } else if (value.tag == OPMUX_VALUE_INT) {
    result = static_cast<double>(value.payload.integer);
  } else {
    return refuse(why, "float", value);
  }
  return true;
}

template <class Integer>
bool to_integer(const OpmuxValue& value, Integer& result, std::string& why) {
  if (value.tag != OPMUX_VALUE_INT) return refuse(why, "int", value);
  if (!std::in_range<Integer>(value.payload.integer)) {
    why = "expected an int from " + std::to_string(std::numeric_limits<Integer>::min()) + " to " +
          std::to_string(std::numeric_limits<Integer>::max()) + ", found " +
          std::to_string(value.payload.integer);
    return false;
  }
  result = static_cast<Integer>(value.payload.integer);
  return true;
}

template <class Integer>
bool put_integer(const OpmuxValue& value, Object& object, std::string& why) {
  Integer result{};
  if (!to_integer(value, result, why)) return false;
  put(object, result);
  return true;
}

// in_range knows no character types.
bool put_char(const OpmuxValue& value, Object& object, std::string& why) {
  return std::is_signed_v<char> ? put_integer<signed char>(value, object, why)
                                : put_integer<unsigned char>(value, object, why);
}

bool put_float(const OpmuxValue& value, Object& object, std::string& why) {
  double result = 0;
  if (!to_double(value, result, why)) return false;
  put(object, static_cast<float>(result));
  return true;
}

bool put_double(const OpmuxValue& value, Object& object, std::string& why) {
  double result = 0;
  if (!to_double(value, result, why)) return false;
  put(object, result);
  return true;
}

bool put_bool(const OpmuxValue& value, Object& object, std::string& why) {
  bool result = false;
  if (!to_bool(value, result, why)) return false;
  put(object, result);
  return true;
}

template <class Value, class Convert>
bool put_optional(const OpmuxValue& value, Object& object, std::string& why, Convert&& to) {
  auto& result = std::get<std::optional<Value>>(object);
  if (value.tag == OPMUX_VALUE_NONE) {
    result.reset();
    return true;
  }
  Value converted{};
  if (!to(value, converted, why)) {
    why.insert(why.find(", found"), " or None");
    return false;
  }
  result = converted;
  return true;
}

bool is_list(const OpmuxValue& value) {
  return value.tag == OPMUX_VALUE_INT_LIST && value.payload.int_list != nullptr;
}

}  // namespace

Object make_object(ValueKind kind) {
  switch (kind) {
    case ValueKind::kTensor:
      return at::Tensor();
    case ValueKind::kOptionalTensor:
      return Object(std::in_place_type<std::optional<at::Tensor>>);
    case ValueKind::kOptionalConstTensor:
      return Object(std::in_place_type<std::optional<const at::Tensor>>);
    case ValueKind::kOptionalBool:
      return Object(std::in_place_type<std::optional<bool>>);
    case ValueKind::kOptionalInt:
      return Object(std::in_place_type<std::optional<int>>);
    case ValueKind::kOptionalLong:
      return Object(std::in_place_type<std::optional<long>>);
    case ValueKind::kOptionalDouble:
      return Object(std::in_place_type<std::optional<double>>);
    case ValueKind::kLongArray:
      return Object(std::in_place_type<c10::ArrayRef<long>>);
    case ValueKind::kLongVector:
      return Object(std::in_place_type<std::vector<long>>);
    case ValueKind::kString:
      return Object(std::in_place_type<std::string>);
    case ValueKind::kOptionalGenerator:
      return Object(std::in_place_type<std::optional<at::Generator>>);
    default:
      return Scalar{};
  }
}

void* address_of(Object& object) {
  return std::visit([](auto& held) -> void* { return &held; }, object);
}

bool is_tensor(ValueKind kind) {
  return kind == ValueKind::kTensor || kind == ValueKind::kOptionalTensor ||
         kind == ValueKind::kOptionalConstTensor;
}

bool holds_reference(ValueKind kind) {
  return is_tensor(kind) || kind == ValueKind::kOptionalGenerator;
}

void release(Object& object) {
  if (auto* tensor = std::get_if<at::Tensor>(&object)) {
    tensor->reset();
  } else if (auto* optional = std::get_if<std::optional<at::Tensor>>(&object)) {
    optional->reset();
  } else if (auto* constant = std::get_if<std::optional<const at::Tensor>>(&object)) {
    constant->reset();
  } else if (auto* generator = std::get_if<std::optional<at::Generator>>(&object)) {
    generator->reset();
  }
}

std::optional<ArgumentType> argument_type(ValueKind kind) {
  switch (kind) {
    case ValueKind::kTensor:
      return ArgumentType{ArgumentKind::kTensor, false, 0};
    case ValueKind::kOptionalTensor:
    case ValueKind::kOptionalConstTensor:
      return ArgumentType{ArgumentKind::kTensor, true, 0};
    case ValueKind::kBool:
      return ArgumentType{ArgumentKind::kBool, false, 0};
    case ValueKind::kOptionalBool:
      return ArgumentType{ArgumentKind::kBool, true, 0};
    case ValueKind::kFloat:
    case ValueKind::kDouble:
      return ArgumentType{ArgumentKind::kFloat, false, 0};
    case ValueKind::kOptionalDouble:
      return ArgumentType{ArgumentKind::kFloat, true, 0};
    case ValueKind::kOptionalInt:
    case ValueKind::kOptionalLong:
      return ArgumentType{ArgumentKind::kInt, true, 0};
    case ValueKind::kLongArray:
    case ValueKind::kLongVector:
      return ArgumentType{ArgumentKind::kIntList, false, 0};
    case ValueKind::kString:
      return ArgumentType{ArgumentKind::kString, false, 0};
    case ValueKind::kOptionalGenerator:
      return std::nullopt;
    default:
      return ArgumentType{ArgumentKind::kInt, false, 0};
  }
}

bool convert(const OpmuxValue& value, ValueKind kind, Object& object, std::string& why) {
  switch (kind) {
    case ValueKind::kBool:
      return put_bool(value, object, why);
    case ValueKind::kChar:
      return put_char(value, object, why);
    case ValueKind::kSignedChar:
      return put_integer<signed char>(value, object, why);
    case ValueKind::kUnsignedChar:
      return put_integer<unsigned char>(value, object, why);
    case ValueKind::kShort:
      return put_integer<short>(value, object, why);
    case ValueKind::kUnsignedShort:
      return put_integer<unsigned short>(value, object, why);
    case ValueKind::kInt:
      return put_integer<int>(value, object, why);
    case ValueKind::kUnsignedInt:
      return put_integer<unsigned int>(value, object, why);
    case ValueKind::kLong:
      return put_integer<long>(value, object, why);
    case ValueKind::kUnsignedLong:
      return put_integer<unsigned long>(value, object, why);
    case ValueKind::kLongLong:
      return put_integer<long long>(value, object, why);
    case ValueKind::kUnsignedLongLong:
      return put_integer<unsigned long long>(value, object, why);
    case ValueKind::kFloat:
      return put_float(value, object, why);
    case ValueKind::kDouble:
      return put_double(value, object, why);
    case ValueKind::kOptionalBool:
      return put_optional<bool>(value, object, why, to_bool);
    case ValueKind::kOptionalInt:
      return put_optional<int>(value, object, why, to_integer<int>);
    case ValueKind::kOptionalLong:
      return put_optional<long>(value, object, why, to_integer<long>);
    case ValueKind::kOptionalDouble:
      return put_optional<double>(value, object, why, to_double);
    case ValueKind::kLongArray:
      if (!is_list(value)) return refuse(why, "int[]", value);
      std::get<c10::ArrayRef<long>>(object) =
          c10::ArrayRef<long>(value.payload.int_list->data, value.payload.int_list->size);
      return true;
    case ValueKind::kLongVector:
      if (!is_list(value)) return refuse(why, "int[]", value);
      std::get<std::vector<long>>(object).assign(
          value.payload.int_list->data,
          value.payload.int_list->data + value.payload.int_list->size);
      return true;
    case ValueKind::kString:
      if (value.tag != OPMUX_VALUE_STRING || value.payload.string == nullptr) {
        return refuse(why, "str", value);
      }
      std::get<std::string>(object) = value.payload.string;
      return true;
    case ValueKind::kOptionalGenerator:
      return value.tag == OPMUX_VALUE_NONE || refuse(why, "None", value);
    case ValueKind::kTensor:
    case ValueKind::kOptionalTensor:
    case ValueKind::kOptionalConstTensor:
      // As a constant of a mapping, which is no tensor.
      return (kind != ValueKind::kTensor && value.tag == OPMUX_VALUE_NONE) ||
             refuse(why, kind == ValueKind::kTensor ? "a Tensor argument" : "a Tensor or None",
                    value);
  }
  return false;
}

}  // namespace opmux::direct_symbol
