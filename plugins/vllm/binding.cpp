// SPDX-License-Identifier: Apache-2.0
#include "plugins/vllm/binding.hpp"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "plugins/vllm/host.hpp"

namespace opmux::vllm {
namespace {

// Why a binding is refused; caught in bind().
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bindings live as long as the process: the host keeps pointers to them.
Binding& keep(Binding binding) {
  static std::mutex mutex;
  static std::deque<Binding>& bindings = *std::make_unique<std::deque<Binding>>().release();
  const std::scoped_lock lock(mutex);
  binding.index = bindings.size();
  bindings.push_back(std::move(binding));
  return bindings.back();
}

c10::FunctionSchema parse(const char* what, const char* text) {
  if (text == nullptr) {
    throw Refusal(std::string(what) + " is missing");
  }
  try {
    return torch::jit::parseSchema(text, /*allow_typevars=*/false);
  } catch (const std::exception&) {
    throw Refusal(std::string(what) + " `" + text + "`: " + current_exception_text());
  }
}

std::string argument_text(std::size_t index, const std::string& name) {
  return "argument " + std::to_string(index) + " `" + name + "`";
}

bool written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

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
    if (written(expected[at]) != written(found[at])) {
      throw Refusal(subject + ": expected " + (written(expected[at]) ? "written" : "not written") +
                    ", found " + (written(found[at]) ? "written" : "not written"));
    }
  }
}

c10::OperatorHandle find_operator(const OpmuxBindRequest& request) {
  const c10::FunctionSchema expected = parse("provider schema", request.provider_schema);
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

// Whether an argument of the operator can be handed to an argument of the provider.
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
  source.written = is_tensor(*type) && written(argument);
  if (given.kind == OPMUX_SOURCE_CONSTANT) {
    std::string why;
    if (!convert(given.constant, *type, source.constant, why)) {
      throw Refusal(subject + ": " + why);
    }
    return source;
  }
  const auto& arguments = operator_schema.arguments();
  if (given.kind != OPMUX_SOURCE_ARGUMENT || given.argument < 0 ||
      static_cast<std::size_t>(given.argument) >= arguments.size()) {
    throw Refusal(subject + ": source " + std::to_string(given.argument) + " of kind " +
                  std::to_string(given.kind) + " is no argument of " + operator_schema.name());
  }
  source.argument = given.argument;
  const c10::Argument& from = arguments[static_cast<std::size_t>(given.argument)];
  const auto from_type = argument_type(from);
  if (!from_type || !suits(*from_type, *type)) {
    throw Refusal(subject + ": expected " + argument.real_type()->str() + ", found " +
                  from.real_type()->str() + " (`" + from.name() + "` of the operator)");
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
  source.constant = *argument.default_value();
  return source;
}

// Whether the result is the argument that it is to be copied to, by the schema's alias marks.
bool aliases_target(const c10::FunctionSchema& schema, const c10::Argument& result,
                    const Target& target, const std::vector<Source>& sources) {
  if (result.alias_info() == nullptr || target.argument < 0) {
    return false;
  }
  for (std::size_t at = 0; at < sources.size(); ++at) {
    const c10::AliasInfo* alias = schema.arguments()[at].alias_info();
    if (alias != nullptr && sources[at].argument == target.argument &&
        alias->beforeSets() == result.alias_info()->beforeSets()) {
      return true;
    }
  }
  return false;
}

std::uint32_t make_targets(const OpmuxBindRequest& request, const c10::FunctionSchema& schema,
                           const c10::FunctionSchema& operator_schema, Binding& binding) {
  const auto& results = schema.returns();
  if (request.result_count != results.size()) {
    throw Refusal("expected a target for each of " + std::to_string(results.size()) +
                  " results, found " + std::to_string(request.result_count));
  }
  std::uint32_t copies = 0;
  for (std::size_t at = 0; at < results.size(); ++at) {
    Target target;
    target.argument = request.results[at].copy_to_argument;
    if (target.argument >= 0) {
      const auto& arguments = operator_schema.arguments();
      const auto to = static_cast<std::size_t>(target.argument);
      const auto result_type = argument_type(results[at]);
      const auto to_type = to < arguments.size() ? argument_type(arguments[to]) : std::nullopt;
      if (!result_type || !is_tensor(*result_type) || !to_type || !is_tensor(*to_type)) {
        throw Refusal("result " + std::to_string(at) + ": expected a Tensor and a Tensor argument" +
                      " to copy it to, found " + results[at].real_type()->str() + " and argument " +
                      std::to_string(to));
      }
      if (!written(arguments[to])) {
        throw Refusal("result " + std::to_string(at) + ": " +
                      argument_text(to, arguments[to].name()) +
                      " of the operator is not marked as written");
      }
      target.slot = static_cast<std::int32_t>(binding.tensor_slots++);
      copies += aliases_target(schema, results[at], target, binding.sources) ? 0U : 1U;
    }
    binding.targets.push_back(target);
  }
  return copies;
}

void bind_checked(const OpmuxBindRequest& request, OpmuxBound& bound) {
  if (request.device_type != OPMUX_DEVICE_CPU && request.device_type != OPMUX_DEVICE_CUDA) {
    throw Refusal("device type " + std::to_string(request.device_type) +
                  " is neither cpu nor cuda");
  }
  const c10::FunctionSchema operator_schema = parse("operator schema", request.operator_schema);
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
  bound.binding = &keep(std::move(binding));
}

}  // namespace

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept {
  if (request == nullptr || bound == nullptr || request->struct_size < sizeof(OpmuxBindRequest) ||
      bound->struct_size < sizeof(OpmuxBound)) {
    return refuse(OPMUX_INCOMPATIBLE, "bind: a struct is smaller than ABI 1.0 has it");
  }
  if (request->contract != OPMUX_CONTRACT_DISPATCHER) {
    return refuse(OPMUX_INCOMPATIBLE, "the vllm module binds the dispatcher contract only");
  }
  try {
    bind_checked(*request, *bound);
    return OPMUX_OK;
  } catch (...) {
    return refuse(OPMUX_INCOMPATIBLE, current_exception_text());
  }
}

}  // namespace opmux::vllm
