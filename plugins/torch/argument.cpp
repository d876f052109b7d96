// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/argument.hpp"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <string_view>
#include <utility>
#include <vector>

#include "plugins/torch/tensor.hpp"

namespace opmux::torch_shared {
namespace {

std::optional<ArgumentKind> scalar_kind(c10::TypeKind kind) {
  switch (kind) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgumentKind::kInt;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return ArgumentKind::kFloat;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return ArgumentKind::kBool;
    case c10::TypeKind::NumberType:
      return ArgumentKind::kNumber;
    case c10::TypeKind::StringType:
      return ArgumentKind::kString;
    case c10::TypeKind::ScalarTypeType:
      return ArgumentKind::kScalarType;
    case c10::TypeKind::DeviceObjType:
      return ArgumentKind::kDevice;
    default:
      return std::nullopt;
  }
}

std::optional<ArgumentKind> list_kind(const c10::Type& element) {
  switch (element.kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensorList;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgumentKind::kIntList;
    case c10::TypeKind::FloatType:
      return ArgumentKind::kFloatList;
    default:
      return std::nullopt;
  }
}

std::optional<ArgumentType> plain_type(const c10::Type& type) {
  if (const auto* list = type.castRaw<c10::ListType>()) {
    if (const auto kind = list_kind(*list->getElementType())) {
      return ArgumentType{*kind, false, 0};
    }
    return std::nullopt;
  }
  if (const auto* tuple = type.castRaw<c10::TupleType>()) {
    for (const c10::TypePtr& element : tuple->elements()) {
      if (scalar_kind(element->kind()) != ArgumentKind::kInt) {
        return std::nullopt;
      }
    }
    return ArgumentType{ArgumentKind::kIntTuple, false, tuple->elements().size()};
  }
  if (const auto kind = scalar_kind(type.kind())) {
    return ArgumentType{*kind, false, 0};
  }
  return std::nullopt;
}

const char* kind_name(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return "Tensor";
    case ArgumentKind::kTensorList:
      return "Tensor[]";
    case ArgumentKind::kInt:
      return "int";
    case ArgumentKind::kFloat:
      return "float";
    case ArgumentKind::kBool:
      return "bool";
    case ArgumentKind::kNumber:
      return "Scalar";
    case ArgumentKind::kString:
      return "str";
    case ArgumentKind::kIntList:
      return "int[]";
    case ArgumentKind::kFloatList:
      return "float[]";
    case ArgumentKind::kIntTuple:
      return "a tuple of int";
    case ArgumentKind::kScalarType:
      return "ScalarType";
    case ArgumentKind::kDevice:
      return "Device";
    case ArgumentKind::kNone:
      return "None";
  }
  return "";
}

// Whether `held` is a list of exactly these elements that only this frame refers to.
template <class Element, class Read>
bool holds_list(const c10::IValue& held, const Element* data, std::size_t size, Read&& read) {
  if (!held.isList() || held.use_count() != 1) {
    return false;
  }
  const c10::ArrayRef<c10::IValue> elements = held.toListRef();
  if (elements.size() != size) {
    return false;
  }
  for (std::size_t at = 0; at < size; ++at) {
    if (!read(elements[at], data[at])) {
      return false;
    }
  }
  return true;
}

template <class Element>
c10::IValue make_list(const Element* data, std::size_t size) {
  c10::List<Element> list;
  list.reserve(size);
  for (std::size_t at = 0; at < size; ++at) {
    list.push_back(data[at]);
  }
  return list;
}

void convert_int_list(const OpmuxIntList& list, c10::IValue& result) {
  const auto equal = [](const c10::IValue& held, std::int64_t wanted) {
    return held.isInt() && held.toInt() == wanted;
  };
  if (!(result.isIntList() && holds_list(result, list.data, list.size, equal))) {
    result = make_list(list.data, list.size);
  }
}

void convert_float_list(const OpmuxFloatList& list, c10::IValue& result) {
  const auto equal = [](const c10::IValue& held, double wanted) {
    return held.isDouble() && held.toDouble() == wanted;
  };
  if (!(result.isDoubleList() && holds_list(result, list.data, list.size, equal))) {
    result = make_list(list.data, list.size);
  }
}

// For a provider that takes float[] where the operator has int[].
void widen_int_list(const OpmuxIntList& list, c10::IValue& result) {
  std::vector<double> widened(list.data, list.data + list.size);
  convert_float_list({widened.data(), widened.size()}, result);
}

void convert_tuple(const OpmuxIntList& list, c10::IValue& result) {
  std::vector<c10::IValue> elements;
  elements.reserve(list.size);
  for (std::size_t at = 0; at < list.size; ++at) {
    elements.emplace_back(list.data[at]);
  }
  result = c10::ivalue::Tuple::create(std::move(elements));
}

void convert_string(const char* text, c10::IValue& result) {
  const std::string_view wanted(text);
  if (!(result.isString() && result.toStringView() == wanted)) {
    result = c10::IValue(std::string(wanted));
  }
}

bool convert_plain(const OpmuxValue& value, const ArgumentType& type, c10::IValue& result) {
  const auto& payload = value.payload;
  switch (type.kind) {
    case ArgumentKind::kInt:
      if (value.tag == OPMUX_VALUE_INT || value.tag == OPMUX_VALUE_BOOL) {
        result = payload.integer;
        return true;
      }
      return false;
    case ArgumentKind::kFloat:
      if (value.tag == OPMUX_VALUE_FLOAT) {
        result = payload.real;
        return true;
      }
      if (value.tag == OPMUX_VALUE_INT) {
        result = static_cast<double>(payload.integer);
        return true;
      }
      return false;
    case ArgumentKind::kBool:
      if (value.tag == OPMUX_VALUE_BOOL) {
        result = payload.integer != 0;
        return true;
      }
      return false;
    case ArgumentKind::kNumber:
      if (value.tag == OPMUX_VALUE_BOOL) {
        result = payload.integer != 0;
      } else if (value.tag == OPMUX_VALUE_INT) {
        result = payload.integer;
      } else if (value.tag == OPMUX_VALUE_FLOAT) {
        result = payload.real;
      } else {
        return false;
      }
      return true;
    case ArgumentKind::kString:
      if (value.tag == OPMUX_VALUE_STRING && payload.string != nullptr) {
        convert_string(payload.string, result);
        return true;
      }
      return false;
    case ArgumentKind::kIntList:
      if (value.tag == OPMUX_VALUE_INT_LIST && payload.int_list != nullptr) {
        convert_int_list(*payload.int_list, result);
        return true;
      }
      return false;
    case ArgumentKind::kFloatList:
      if (value.tag == OPMUX_VALUE_FLOAT_LIST && payload.float_list != nullptr) {
        convert_float_list(*payload.float_list, result);
        return true;
      }
      if (value.tag == OPMUX_VALUE_INT_LIST && payload.int_list != nullptr) {
        widen_int_list(*payload.int_list, result);
        return true;
      }
      return false;
    case ArgumentKind::kIntTuple:
      if (value.tag == OPMUX_VALUE_INT_LIST && payload.int_list != nullptr &&
          payload.int_list->size == type.tuple_size) {
        convert_tuple(*payload.int_list, result);
        return true;
      }
      return false;
    case ArgumentKind::kScalarType:
      // An integer is torch's own number for the dtype.
      if (value.tag == OPMUX_VALUE_INT && payload.integer >= 0 &&
          payload.integer < static_cast<std::int64_t>(at::ScalarType::NumOptions)) {
        result = payload.integer;
        return true;
      }
      if (value.tag == OPMUX_VALUE_DTYPE) {
        if (const auto dtype = scalar_type(payload.dtype)) {
          result = static_cast<std::int64_t>(*dtype);
          return true;
        }
      }
      return false;
    case ArgumentKind::kDevice:
      if (value.tag == OPMUX_VALUE_DEVICE) {
        result = torch_device(payload.device);
        return true;
      }
      return false;
    case ArgumentKind::kTensor:
    case ArgumentKind::kTensorList:
    case ArgumentKind::kNone:
      return false;
  }
  return false;
}

}  // namespace

std::optional<ArgumentType> argument_type(const c10::Argument& argument) {
  const c10::Type* type = argument.real_type().get();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) {
    ArgumentType result = plain_type(*optional->getElementType())
                              .value_or(ArgumentType{ArgumentKind::kNone, true, 0});
    result.optional = true;
    return result;
  }
  return plain_type(*type);
}

bool convert(const OpmuxValue& value, const ArgumentType& type, c10::IValue& result,
             std::string& why) {
  if (value.tag == OPMUX_VALUE_NONE && type.optional) {
    result = c10::IValue();
    return true;
  }
  if (convert_plain(value, type, result)) {
    return true;
  }
  why = std::string("expected ") + kind_name(type.kind);
  if (type.kind == ArgumentKind::kIntTuple) {
    why = "expected " + std::to_string(type.tuple_size) + " ints";
  }
  if (type.optional && type.kind != ArgumentKind::kNone) {
    why += " or None";
  }
  why += ", found " + value_name(value);
  return false;
}

std::string value_name(const OpmuxValue& value) {
  switch (value.tag) {
    case OPMUX_VALUE_NONE:
      return "None";
    case OPMUX_VALUE_INT:
      return "int";
    case OPMUX_VALUE_BOOL:
      return "bool";
    case OPMUX_VALUE_FLOAT:
      return "float";
    case OPMUX_VALUE_POINTER:
      return "a pointer";
    case OPMUX_VALUE_DTYPE:
      return "ScalarType";
    case OPMUX_VALUE_DEVICE:
      return "Device";
    case OPMUX_VALUE_TENSOR:
      return "Tensor";
    case OPMUX_VALUE_STRING:
      return "str";
    case OPMUX_VALUE_INT_LIST:
      return value.payload.int_list == nullptr
                 ? "int[]"
                 : "int[] of " + std::to_string(value.payload.int_list->size);
    case OPMUX_VALUE_FLOAT_LIST:
      return "float[]";
    case OPMUX_VALUE_TENSOR_LIST:
      return "Tensor[]";
    default:
      return "a value with tag " + std::to_string(value.tag);
  }
}

}  // namespace opmux::torch_shared
