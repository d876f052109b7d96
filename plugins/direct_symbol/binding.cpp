// SPDX-License-Identifier: Apache-2.0
#include "plugins/direct_symbol/binding.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "plugins/direct_symbol/value.hpp"
#include "plugins/torch/binding.hpp"
#include "plugins/torch/source.hpp"

namespace opmux::direct_symbol {
namespace {

using torch_shared::ArgumentKind;
using torch_shared::ArgumentType;
using torch_shared::Refusal;

std::string parameter_text(std::size_t index, const Parameter& parameter) {
  return "parameter " + std::to_string(index) + " `" + to_string(parameter) + "`";
}

std::unique_ptr<Constant> keep_constant(const OpmuxValue& given) {
  auto kept = std::make_unique<Constant>();
  kept->value = given;
  if (given.tag == OPMUX_VALUE_STRING && given.payload.string != nullptr) {
    kept->text = given.payload.string;
    kept->value.payload.string = kept->text.c_str();
  } else if (given.tag == OPMUX_VALUE_INT_LIST && given.payload.int_list != nullptr) {
    const OpmuxIntList& list = *given.payload.int_list;
    kept->integers.assign(list.data, list.data + list.size);
    kept->list = {kept->integers.data(), kept->integers.size()};
    kept->value.payload.int_list = &kept->list;
  }
  return kept;
}

// Stricter than the Dispatcher: a bool is no int, and an int no float, since nothing but the name
// says what a function means by them.
bool suits(const ArgumentType& from, ValueKind kind) {
  const auto wanted = argument_type(kind);
  return wanted && from.kind == wanted->kind;
}

const char* expected_text(ValueKind kind) {
  const auto wanted = argument_type(kind);
  if (!wanted) return "the constant none";
  switch (wanted->kind) {
    case ArgumentKind::kTensor:
      return wanted->optional ? "Tensor?" : "Tensor";
    case ArgumentKind::kBool:
      return wanted->optional ? "bool?" : "bool";
    case ArgumentKind::kFloat:
      return wanted->optional ? "float?" : "float";
    case ArgumentKind::kIntList:
      return "int[]";
    case ArgumentKind::kString:
      return "str";
    default:
      return wanted->optional ? "int?" : "int";
  }
}

Source make_source(const OpmuxCallSource& given, const Parameter& parameter, std::size_t index,
                   const c10::FunctionSchema& operator_schema, Binding& binding) {
  Source source;
  source.parameter = parameter;
  source.from = given;
  const std::string subject = parameter_text(index, parameter);
  if (given.kind == OPMUX_SOURCE_CONSTANT) {
    source.constant = keep_constant(given.constant);
    Object object = make_object(parameter.kind);
    std::string why;
    if (!convert(source.constant->value, parameter.kind, object, why)) {
      throw Refusal(subject + ": " + why);
    }
    return source;
  }
  if (!suits(torch_shared::source_type(given, operator_schema, subject), parameter.kind)) {
    torch_shared::refuse_source(given, operator_schema, subject, expected_text(parameter.kind));
  }
  if (is_tensor(parameter.kind)) {
    const auto& argument = operator_schema.arguments()[static_cast<std::size_t>(given.argument)];
    source.slot = static_cast<std::int32_t>(binding.tensor_slots++);
    source.written = torch_shared::is_written(argument);
  }
  return source;
}

// A function that is handed the tensor which a result is to be copied to is taken to write it in
// place and to return it: no symbol says so.
bool takes_target(std::int32_t target, const std::vector<Source>& sources) {
  return std::any_of(sources.begin(), sources.end(), [target](const Source& source) {
    return source.from.kind == OPMUX_SOURCE_ARGUMENT && source.from.argument == target;
  });
}

// How many results a function of this type has; nothing for a list, which the call counts.
std::optional<std::size_t> result_count(const Return& returned) {
  switch (returned.kind) {
    case ReturnKind::kVoid:
      return 0;
    case ReturnKind::kTensorTuple:
      return returned.tensors;
    case ReturnKind::kTensorList:
      return std::nullopt;
    default:
      return 1;
  }
}

// Returns how many copies a call makes.
std::uint32_t make_targets(const OpmuxBindRequest& request,
                           const c10::FunctionSchema& operator_schema, Binding& binding) {
  const auto count = result_count(binding.returned);
  // A scalar is no result that could go anywhere, so it needs no target.
  const bool ignored = binding.returned.kind == ReturnKind::kScalar && request.result_count == 0;
  if (count && !ignored && request.result_count != *count) {
    throw Refusal("expected a target for each of " + std::to_string(*count) + " results of `" +
                  request.returns + "`, found " + std::to_string(request.result_count));
  }
  std::uint32_t copies = 0;
  for (std::size_t at = 0; at < request.result_count; ++at) {
    Target target;
    target.argument = request.results[at].copy_to_argument;
    target.negative_infinity = (request.results[at].flags & OPMUX_RESULT_NEGATIVE_INFINITY) != 0;
    if (target.argument >= 0) {
      torch_shared::require_target(operator_schema, at, request.returns,
                                   binding.returned.kind != ReturnKind::kScalar, target.argument);
      target.slot = static_cast<std::int32_t>(binding.tensor_slots++);
      copies += takes_target(target.argument, binding.sources) ? 0U : 1U;
    }
    binding.targets.push_back(target);
  }
  return copies;
}

void require_mapped_symbol(const OpmuxBindRequest& request) {
  if (request.contract != OPMUX_CONTRACT_DIRECT_SYMBOL) {
    throw Refusal("the direct_symbol module binds the direct symbol contract only");
  }
  if ((request.flags & OPMUX_BIND_MODULE_MAPS) != 0) {
    throw Refusal(
        "the direct_symbol module knows no provider's functions: the manifest must give `call`");
  }
  if (request.symbol_count == 0 || request.symbol_names == nullptr || request.symbols == nullptr ||
      request.symbol_names[0] == nullptr || request.symbols[0] == nullptr) {
    throw Refusal("a direct symbol binding needs the name and address of a function");
  }
  if (request.returns == nullptr) {
    throw Refusal(
        "the mapping does not say what the function returns, which its symbol does not "
        "tell");
  }
}

void bind_checked(const OpmuxBindRequest& request, OpmuxBound& bound) {
  require_mapped_symbol(request);
  torch_shared::require_known_device(request);
  const c10::FunctionSchema operator_schema =
      torch_shared::parse_schema("operator schema", request.operator_schema);
  Signature signature;
  Return returned;
  std::string why;
  if (!parse_signature(request.symbol_names[0], signature, why) ||
      !parse_return(request.returns, returned, why)) {
    throw Refusal(why);
  }
  if (request.source_count != signature.parameters.size()) {
    throw Refusal("the mapping gives " + std::to_string(request.source_count) + " values for " +
                  std::to_string(signature.parameters.size()) + " parameters of " +
                  to_string(signature));
  }
  Binding binding(ForeignFunction(request.symbols[0], signature, returned));
  binding.returned = returned;
  binding.name = signature.name;
  binding.device_type = request.device_type;
  for (const c10::Argument& argument : operator_schema.arguments()) {
    binding.operator_arguments.push_back(argument.name());
  }
  for (std::size_t at = 0; at < signature.parameters.size(); ++at) {
    binding.sources.push_back(
        make_source(request.sources[at], signature.parameters[at], at, operator_schema, binding));
  }
  bound.copies = make_targets(request, operator_schema, binding);
  bound.call = call_binding;
  bound.binding = &torch_shared::keep(std::move(binding));
}

}  // namespace

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept {
  return torch_shared::run_bind(request, bound, bind_checked);
}

}  // namespace opmux::direct_symbol
