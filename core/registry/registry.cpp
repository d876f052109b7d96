// SPDX-License-Identifier: Apache-2.0
#include "core/registry/registry.hpp"

#include <algorithm>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/loader.hpp"

namespace opmux {
namespace {

using detail::ArgumentKind;
using detail::OperatorState;
using schema::TypeKind;

std::optional<ArgumentKind> kind_of(const schema::Type& type) {
  const bool optional = type.kind == TypeKind::kOptional;
  const schema::Type& plain = optional ? type.elements[0] : type;
  switch (plain.kind) {
    case TypeKind::kTensor:
      return optional ? ArgumentKind::kOptionalTensor : ArgumentKind::kTensor;
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      return optional ? ArgumentKind::kOptionalInt : ArgumentKind::kInt;
    case TypeKind::kFloat:
      return optional ? ArgumentKind::kOptionalFloat : ArgumentKind::kFloat;
    case TypeKind::kBool:
      if (optional) return std::nullopt;
      return ArgumentKind::kBool;
    case TypeKind::kString:
      if (optional) return std::nullopt;
      return ArgumentKind::kString;
    case TypeKind::kList:
      if (plain.elements[0].kind != TypeKind::kInt && plain.elements[0].kind != TypeKind::kSymInt)
        return std::nullopt;
      return optional ? ArgumentKind::kOptionalIntList : ArgumentKind::kIntList;
    default:
      return std::nullopt;
  }
}

// The default as a value of `kind`; false when the default has no such form.
bool default_value(const schema::DefaultValue& written, ArgumentKind kind, OperatorState& state,
                   OpmuxValue& value) {
  value = detail::none_value();
  if (std::holds_alternative<schema::NoneValue>(written.value)) {
    return kind == ArgumentKind::kOptionalTensor || kind == ArgumentKind::kOptionalInt ||
           kind == ArgumentKind::kOptionalFloat || kind == ArgumentKind::kOptionalIntList;
  }
  if (const auto* flag = std::get_if<bool>(&written.value)) {
    value = detail::int_value(*flag ? 1 : 0);
    value.tag = OPMUX_VALUE_BOOL;
    return kind == ArgumentKind::kBool;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&written.value)) {
    if (kind == ArgumentKind::kFloat || kind == ArgumentKind::kOptionalFloat) {
      value = detail::float_value(static_cast<double>(*integer));
      return true;
    }
    value = detail::int_value(*integer);
    return kind == ArgumentKind::kInt || kind == ArgumentKind::kOptionalInt;
  }
  if (const auto* real = std::get_if<double>(&written.value)) {
    value = detail::float_value(*real);
    return kind == ArgumentKind::kFloat || kind == ArgumentKind::kOptionalFloat;
  }
  if (const auto* text = std::get_if<std::string>(&written.value)) {
    state.string_storage.push_back(std::make_unique<std::string>(*text));
    value.tag = OPMUX_VALUE_STRING;
    value.payload.string = state.string_storage.back()->c_str();
    return kind == ArgumentKind::kString;
  }
  if (const auto* list = std::get_if<schema::DefaultList>(&written.value)) {
    std::vector<std::int64_t> numbers;
    for (const schema::DefaultValue& element : *list) {
      const auto* number = std::get_if<std::int64_t>(&element.value);
      if (number == nullptr) return false;
      numbers.push_back(*number);
    }
    state.list_values.push_back(std::move(numbers));
    const std::vector<std::int64_t>& kept = state.list_values.back();
    state.list_storage.push_back(
        std::make_unique<OpmuxIntList>(OpmuxIntList{kept.data(), kept.size()}));
    value.tag = OPMUX_VALUE_INT_LIST;
    value.payload.int_list = state.list_storage.back().get();
    return kind == ArgumentKind::kIntList || kind == ArgumentKind::kOptionalIntList;
  }
  return false;
}

Result<std::unique_ptr<OperatorState>> make_state(const OperatorDeclaration& declaration) {
  auto state = std::make_unique<OperatorState>();
  state->name = declaration.name;
  state->schema_text = declaration.schema_text;
  state->schema = declaration.schema;
  const std::string subject = to_string(declaration.location) + ": operator " + declaration.name;
  for (std::size_t index = 0; index < declaration.schema.arguments.size(); ++index) {
    const schema::Argument& argument = declaration.schema.arguments[index];
    const std::optional<ArgumentKind> kind = kind_of(argument.type);
    if (!kind) {
      return reject(rules::kManifestSchema, subject,
                    "arguments of the types Tensor, int, SymInt, float, bool, str, int[] and their "
                    "optional forms",
                    "argument `" + argument.name + "` of type " + schema::to_string(argument.type));
    }
    OpmuxValue value = detail::none_value();
    if (argument.default_value) {
      if (!default_value(*argument.default_value, *kind, *state, value)) {
        return reject(rules::kManifestSchema, subject,
                      "a default of argument `" + argument.name + "`'s type " +
                          schema::to_string(argument.type),
                      schema::to_string(*argument.default_value));
      }
    } else {
      state->required_count = static_cast<std::uint32_t>(index + 1);
    }
    if (*kind == ArgumentKind::kTensor && state->first_tensor < 0)
      state->first_tensor = static_cast<int>(index);
    state->kinds.push_back(*kind);
    state->defaults.push_back(value);
  }
  state->argument_count = static_cast<std::uint32_t>(state->kinds.size());
  if (!declaration.schema.returns.empty()) {
    return reject(rules::kManifestSchema, subject, "outputs as written arguments and `-> ()`",
                  std::to_string(declaration.schema.returns.size()) + " returned values");
  }
  return state;
}

FirstBinding first_binding(const DeviceRoute& route, bool strict) {
  if (route.entries.empty() || (strict && route.first_is_skipped)) return {};
  const BoundCall& bound = *route.entries.front();
  return {bound.call, bound.binding, bound.conditions.data(),
          static_cast<std::uint32_t>(bound.conditions.size()), bound.counter};
}

}  // namespace

Registry::Registry(std::size_t counter_count) : host_(host_services()), counters_(counter_count) {}

Registry& Registry::create(const std::vector<OperatorDeclaration>& declarations,
                           std::size_t counter_count, std::vector<Rejection>& rejections) {
  // Never destroyed, so that calls from static destructors and other threads at exit stay defined.
  static auto* const all = new std::vector<std::unique_ptr<Registry>>;
  static auto* const all_mutex = new std::mutex;

  std::unique_ptr<Registry> registry(new Registry(counter_count));
  for (const OperatorDeclaration& declaration : declarations) {
    Result<std::unique_ptr<OperatorState>> state = make_state(declaration);
    if (!state.ok()) {
      rejections.push_back(state.rejection());
      continue;
    }
    registry->operators_.push_back(std::move(*state));
  }
  std::sort(registry->operators_.begin(), registry->operators_.end(),
            [](const auto& a, const auto& b) { return a->name < b->name; });
  for (std::size_t index = 0; index < registry->operators_.size(); ++index) {
    registry->operators_[index]->registry = registry.get();
    registry->operators_[index]->index = static_cast<std::uint32_t>(index);
  }
  auto empty = std::make_unique<Generation>();
  empty->routes.resize(registry->operators_.size());
  registry->publish(std::move(empty));

  const std::lock_guard lock(*all_mutex);
  all->push_back(std::move(registry));
  return *all->back();
}

void Registry::publish(std::unique_ptr<Generation> generation) {
  generation->routes.resize(operators_.size());
  generation->first.resize(operators_.size());
  for (std::size_t index = 0; index < generation->routes.size(); ++index) {
    for (std::size_t slot = 0; slot < kDeviceSlots; ++slot) {
      generation->first[index][slot] =
          first_binding(generation->routes[index][slot], generation->strict);
    }
  }
  const std::lock_guard lock(mutex_);
  generation->number = next_number_++;
  generations_.push_back(std::move(generation));
  current_.store(generations_.back().get(), std::memory_order_release);
}

BoundCall& Registry::add_binding(BoundCall binding) {
  const std::lock_guard lock(mutex_);
  bindings_.push_back(std::make_unique<BoundCall>(std::move(binding)));
  return *bindings_.back();
}

const OperatorState* Registry::find(std::string_view name) const {
  const auto at = std::lower_bound(
      operators_.begin(), operators_.end(), name,
      [](const auto& state, std::string_view wanted) { return state->name < wanted; });
  return at != operators_.end() && (*at)->name == name ? at->get() : nullptr;
}

const BoundCall* Registry::binding_of(std::uint32_t counter) const {
  const std::lock_guard lock(mutex_);
  for (const auto& binding : bindings_) {
    if (binding->counter == counter) return binding.get();
  }
  return nullptr;
}

}  // namespace opmux
