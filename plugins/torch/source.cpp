// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/source.hpp"

#include <cmath>

#include "plugins/torch/binding.hpp"

namespace opmux::torch_shared {
namespace {

std::string found_text(const OpmuxCallSource& source, const c10::Argument& argument) {
  const std::string type =
      argument.real_type()->str() + " (`" + argument.name() + "` of the operator)";
  return source.kind == OPMUX_SOURCE_LIST_ITEM      ? "an item of " + type
         : source.kind == OPMUX_SOURCE_INVERSE_SQRT ? "an inverse square root for " + type
                                                    : type;
}

const c10::Argument& operator_argument(const OpmuxCallSource& source, std::int32_t argument,
                                       const c10::FunctionSchema& operator_schema,
                                       const std::string& subject) {
  const auto& arguments = operator_schema.arguments();
  if (source.kind < OPMUX_SOURCE_ARGUMENT || source.kind > OPMUX_SOURCE_INVERSE_SQRT ||
      source.kind == OPMUX_SOURCE_CONSTANT || argument < 0 ||
      static_cast<std::size_t>(argument) >= arguments.size()) {
    throw Refusal(subject + ": source " + std::to_string(argument) + " of kind " +
                  std::to_string(source.kind) + " is no argument of " + operator_schema.name());
  }
  return arguments[static_cast<std::size_t>(argument)];
}

std::string named(const std::vector<std::string>& arguments, std::int32_t argument) {
  return argument_text(static_cast<std::size_t>(argument),
                       arguments[static_cast<std::size_t>(argument)]);
}

bool draw_item(const OpmuxCallSource& source, const OpmuxCall& call,
               const std::vector<std::string>& arguments, OpmuxValue& result, std::string& why) {
  const OpmuxValue& value = call.values[source.argument];
  const bool is_list = value.tag == OPMUX_VALUE_INT_LIST && value.payload.int_list != nullptr;
  const auto index = static_cast<std::uint64_t>(source.index);
  if (!is_list || index >= value.payload.int_list->size) {
    why = named(arguments, source.argument) + ": expected int[] of at least " +
          std::to_string(index + 1) + ", found " + value_name(value);
    return false;
  }
  result = {};
  result.tag = OPMUX_VALUE_INT;
  result.payload.integer = value.payload.int_list->data[index];
  return true;
}

// The scale that attention applies to q * k unless told otherwise: 1 / sqrt(head size).
bool draw_inverse_sqrt(const OpmuxCallSource& source, const OpmuxCall& call,
                       const std::vector<std::string>& arguments, OpmuxValue& result,
                       std::string& why) {
  const OpmuxValue& value = call.values[source.argument];
  if (value.tag != OPMUX_VALUE_NONE) {
    result = value;
    return true;
  }
  const OpmuxValue& tensor = call.values[source.tensor];
  if (tensor.tag != OPMUX_VALUE_TENSOR || tensor.payload.tensor == nullptr) {
    why = named(arguments, source.tensor) + ": expected a Tensor, as `" +
          arguments[static_cast<std::size_t>(source.argument)] + "` is None, found " +
          value_name(tensor);
    return false;
  }
  const OpmuxTensor& view = *tensor.payload.tensor;
  const std::int64_t dimension =
      source.index < 0 ? std::int64_t{source.index} + view.rank : source.index;
  if (dimension < 0 || dimension >= view.rank || view.shape == nullptr ||
      view.shape[dimension] < 1) {
    why = named(arguments, source.tensor) + ": expected at least one element in dimension " +
          std::to_string(source.index) + ", as `" +
          arguments[static_cast<std::size_t>(source.argument)] + "` is None, found " +
          (dimension < 0 || dimension >= view.rank || view.shape == nullptr
               ? "rank " + std::to_string(view.rank)
               : "size " + std::to_string(view.shape[dimension]));
    return false;
  }
  result = {};
  result.tag = OPMUX_VALUE_FLOAT;
  result.payload.real = 1.0 / std::sqrt(static_cast<double>(view.shape[dimension]));
  return true;
}

}  // namespace

bool suits(const ArgumentType& from, const ArgumentType& to) {
  if (from.kind == to.kind) {
    return true;
  }
  switch (to.kind) {
    case ArgumentKind::kInt:
      return from.kind == ArgumentKind::kBool;
    case ArgumentKind::kFloat:
      return from.kind == ArgumentKind::kInt;
    case ArgumentKind::kNumber:
      return from.kind == ArgumentKind::kInt || from.kind == ArgumentKind::kFloat ||
             from.kind == ArgumentKind::kBool;
    case ArgumentKind::kFloatList:
    case ArgumentKind::kIntTuple:
      return from.kind == ArgumentKind::kIntList;
    case ArgumentKind::kScalarType:
      return from.kind == ArgumentKind::kInt;
    case ArgumentKind::kNone:
      return from.optional;
    default:
      return false;
  }
}

ArgumentType source_type(const OpmuxCallSource& source, const c10::FunctionSchema& operator_schema,
                         const std::string& subject) {
  const c10::Argument& from = operator_argument(source, source.argument, operator_schema, subject);
  const auto type = argument_type(from);
  if (!type) {
    refuse_source(source, operator_schema, subject, "a type that opmux has values for");
  }
  if (source.kind == OPMUX_SOURCE_LIST_ITEM) {
    if (type->kind != ArgumentKind::kIntList || source.index < 0) {
      refuse_source(source, operator_schema, subject, "an item from 0 of int[]");
    }
    return {ArgumentKind::kInt, false, 0};
  }
  if (source.kind == OPMUX_SOURCE_INVERSE_SQRT) {
    const auto tensor =
        argument_type(operator_argument(source, source.tensor, operator_schema, subject));
    if (type->kind != ArgumentKind::kFloat || !tensor || tensor->kind != ArgumentKind::kTensor) {
      refuse_source(source, operator_schema, subject,
                    "an inverse square root for a float, of a Tensor's dimension");
    }
    return {ArgumentKind::kFloat, false, 0};
  }
  return *type;
}

void refuse_source(const OpmuxCallSource& source, const c10::FunctionSchema& operator_schema,
                   const std::string& subject, const std::string& expected) {
  const auto& argument = operator_schema.arguments()[static_cast<std::size_t>(source.argument)];
  throw Refusal(subject + ": expected " + expected + ", found " + found_text(source, argument));
}

bool draw_value(const OpmuxCallSource& source, const OpmuxCall& call,
                const std::vector<std::string>& arguments, OpmuxValue& result, std::string& why) {
  return source.kind == OPMUX_SOURCE_LIST_ITEM
             ? draw_item(source, call, arguments, result, why)
             : draw_inverse_sqrt(source, call, arguments, result, why);
}

}  // namespace opmux::torch_shared
