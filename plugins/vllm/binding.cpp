// SPDX-License-Identifier: Apache-2.0
#include "plugins/vllm/binding.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "plugins/torch/binding.hpp"
#include "plugins/torch/source.hpp"

namespace opmux::vllm {
namespace {

using torch_shared::argument_text;
using torch_shared::argument_type;
using torch_shared::ArgumentKind;
using torch_shared::ArgumentType;
using torch_shared::is_written;
using torch_shared::parse_schema;
using torch_shared::Refusal;

// The contract was checked in the probe; this refuses a process in which another library defined
// the operator.
void require_same_arguments(const std::vector<c10::Argument>& expected,
                            const std::vector<c10::Argument>& found, const char* what) {
  if (expected.size() != found.size()) {
    throw Refusal("expected " + std::to_string(expected.size()) + " " + what + "s, found " +
                  std::to_string(found.size()));
  }
  for (std::size_t at = 0; at < expected.size(); ++at) {
    const std::string subject =
        std::string(what) + " " + std::to_string(at) + " `" + expected[at].name() + "`";
    if (!(*expected[at].real_type() == *found[at].real_type())) {
      throw Refusal(subject + ": expected " + expected[at].real_type()->str() + ", found " +
                    found[at].real_type()->str());
    }
    if (expected[at].name() != found[at].name()) {
      throw Refusal(subject + ": found the name `" + found[at].name() + "`");
    }
    if (is_written(expected[at]) != is_written(found[at])) {
      throw Refusal(subject + ": expected " +
                    (is_written(expected[at]) ? "written" : "not written") + ", found " +
                    (is_written(found[at]) ? "written" : "not written"));
    }
  }
}

c10::OperatorHandle find_operator(const OpmuxBindRequest& request) {
  const c10::FunctionSchema expected = parse_schema("provider schema", request.provider_schema);
  const auto handle = c10::Dispatcher::singleton().findSchema(expected.operator_name());
  if (!handle) {
    throw Refusal("the Dispatcher of this process has no operator " +
                  c10::toString(expected.operator_name()) + "; expected " +
                  request.provider_schema);
  }
  try {
    require_same_arguments(expected.arguments(), handle->schema().arguments(), "argument");
    require_same_arguments(expected.returns(), handle->schema().returns(), "result");
  } catch (const Refusal& refusal) {
    throw Refusal(std::string(refusal.what()) + "; expected " + request.provider_schema +
                  ", found " + c10::toString(handle->schema()));
  }
  return *handle;
}

void require_kernel(const c10::OperatorHandle& handle, const char* dispatch_key) {
  if (dispatch_key == nullptr) {
    throw Refusal("a dispatcher binding needs a dispatch key");
  }
  if (!handle.hasKernelForDispatchKey(c10::parseDispatchKey(dispatch_key))) {
    throw Refusal(c10::toString(handle.operator_name()) + ": expected a kernel for dispatch key " +
                  dispatch_key + ", found kernels for: " + [&] {
                    std::string keys;
                    for (int key = 1; key <= static_cast<int>(c10::DispatchKey::EndOfAliasKeys);
                         ++key) {
                      const auto candidate = static_cast<c10::DispatchKey>(key);
                      if (handle.hasKernelForDispatchKey(candidate)) {
                        keys += (keys.empty() ? "" : ", ") + std::string(toString(candidate));
                      }
                    }
                    return keys.empty() ? std::string("none") : keys;
                  }());
  }
}

bool is_tensor(const ArgumentType& type) { return type.kind == ArgumentKind::kTensor; }

// Values that allocate are kept between calls and taken again when equal.
bool is_kept(const ArgumentType& type) {
  return type.kind == ArgumentKind::kIntList || type.kind == ArgumentKind::kFloatList ||
         type.kind == ArgumentKind::kString;
}

Source make_source(const OpmuxCallSource& given, const c10::Argument& argument, std::size_t index,
                   const c10::FunctionSchema& operator_schema, Binding& binding) {
  Source source;
  const auto type = argument_type(argument);
  const std::string subject = argument_text(index, argument.name());
  if (!type) {
    throw Refusal(subject + ": " + argument.real_type()->str() +
                  " is a type that no operator of opmux has");
  }
  source.type = *type;
  source.from = given;
  source.written = is_tensor(*type) && is_written(argument);
  if (given.kind == OPMUX_SOURCE_CONSTANT) {
    std::string why;
    if (!torch_shared::convert(given.constant, *type, source.constant, why)) {
      throw Refusal(subject + ": " + why);
    }
    source.from.constant = {};
    return source;
  }
  if (!torch_shared::suits(torch_shared::source_type(given, operator_schema, subject), *type)) {
    torch_shared::refuse_source(given, operator_schema, subject, argument.real_type()->str());
  }
  if (is_tensor(*type)) {
    source.slot = static_cast<std::int32_t>(binding.tensor_slots++);
  } else if (is_kept(*type)) {
    source.slot = static_cast<std::int32_t>(binding.kept_values++);
  }
  return source;
}

Source make_default(const c10::Argument& argument, std::size_t index) {
  if (!argument.default_value()) {
    throw Refusal(argument_text(index, argument.name()) + ": the mapping gives no value for it");
  }
  Source source;
  source.from.kind = OPMUX_SOURCE_CONSTANT;
  source.constant = *argument.default_value();
  return source;
}

// Whether the provider's `argument` is the operator's `target`, handed on.
bool is_fed_from(const Source& source, std::int32_t target) {
  return source.from.kind == OPMUX_SOURCE_ARGUMENT && source.from.argument == target;
}

// Whether the result is the argument that it is to be copied to, by the schema's alias marks.
bool aliases_target(const c10::FunctionSchema& schema, const c10::Argument& result,
                    std::int32_t target, const std::vector<Source>& sources) {
  if (result.alias_info() == nullptr) {
    return false;
  }
  for (std::size_t at = 0; at < sources.size(); ++at) {
    const c10::AliasInfo* alias = schema.arguments()[at].alias_info();
    if (alias != nullptr && is_fed_from(sources[at], target) &&
        alias->beforeSets() == result.alias_info()->beforeSets()) {
      return true;
    }
  }
  return false;
}

// No schema can say that an item of a list is one of the arguments. A provider that is handed the
// tensor and says that it writes it is taken to return that tensor as the item.
bool writes_target(std::int32_t target, const std::vector<Source>& sources) {
  return std::any_of(sources.begin(), sources.end(), [target](const Source& source) {
    return source.written && is_fed_from(source, target);
  });
}

bool returns_one_list(const c10::FunctionSchema& schema) {
  if (schema.returns().size() != 1) {
    return false;
  }
  const auto type = argument_type(schema.returns()[0]);
  return type && type->kind == ArgumentKind::kTensorList && !type->optional;
}

// Returns how many copies a call makes.
std::uint32_t make_targets(const OpmuxBindRequest& request, const c10::FunctionSchema& schema,
                           const c10::FunctionSchema& operator_schema, Binding& binding) {
  const auto& results = schema.returns();
  binding.returns_list = returns_one_list(schema);
  if (!binding.returns_list && request.result_count != results.size()) {
    throw Refusal("expected a target for each of " + std::to_string(results.size()) +
                  " results, found " + std::to_string(request.result_count));
  }
  std::uint32_t copies = 0;
  for (std::size_t at = 0; at < request.result_count; ++at) {
    Target target;
    target.argument = request.results[at].copy_to_argument;
    target.negative_infinity = (request.results[at].flags & OPMUX_RESULT_NEGATIVE_INFINITY) != 0;
    if (target.argument >= 0) {
      const c10::Argument& result = results[binding.returns_list ? 0 : at];
      const auto type = argument_type(result);
      torch_shared::require_target(operator_schema, at, result.real_type()->str(),
                                   binding.returns_list || (type && is_tensor(*type)),
                                   target.argument);
      target.slot = static_cast<std::int32_t>(binding.tensor_slots++);
      const bool in_place = binding.returns_list
                                ? writes_target(target.argument, binding.sources)
                                : aliases_target(schema, result, target.argument, binding.sources);
      copies += in_place ? 0U : 1U;
    }
    binding.targets.push_back(target);
  }
  return copies;
}

void bind_checked(const OpmuxBindRequest& request, OpmuxBound& bound) {
  if (request.contract != OPMUX_CONTRACT_DISPATCHER) {
    throw Refusal("the vllm module binds the dispatcher contract only");
  }
  if ((request.flags & OPMUX_BIND_MODULE_MAPS) != 0) {
    throw Refusal("the vllm module maps no arguments itself: the manifest must give `call`");
  }
  torch_shared::require_known_device(request);
  const c10::FunctionSchema operator_schema =
      parse_schema("operator schema", request.operator_schema);
  Binding binding(find_operator(request));
  require_kernel(binding.handle, request.dispatch_key);
  const c10::FunctionSchema& schema = binding.handle.schema();
  binding.name = c10::toString(schema.operator_name());
  binding.device_type = request.device_type;
  for (const c10::Argument& argument : operator_schema.arguments()) {
    binding.operator_arguments.push_back(argument.name());
  }
  const auto& arguments = schema.arguments();
  if (request.source_count > arguments.size()) {
    throw Refusal("the mapping gives " + std::to_string(request.source_count) + " values for " +
                  std::to_string(arguments.size()) + " arguments of " + c10::toString(schema));
  }
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    binding.sources.push_back(
        at < request.source_count
            ? make_source(request.sources[at], arguments[at], at, operator_schema, binding)
            : make_default(arguments[at], at));
  }
  bound.copies = make_targets(request, schema, operator_schema, binding);
  bound.call = call_binding;
  bound.binding = &torch_shared::keep(std::move(binding));
}

}  // namespace

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept {
  return torch_shared::run_bind(request, bound, bind_checked);
}

}  // namespace opmux::vllm
