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

// Counts itself in, so that the module is not unmapped under it.
OpmuxStatus call_counted(void* self, const OpmuxCall* call) {
  const auto& binding = *static_cast<const BoundCall*>(self);
  const ModuleHold hold(*binding.module);
  if (!hold) return kModuleClosing;
  const OpmuxStatus answer = binding.call(binding.binding, call);
  return answer == kModuleClosing ? OPMUX_ERROR_AFTER_LAUNCH : answer;
}

// What FirstBinding::call is at this moment.
auto first_call(const DeviceRoute& route) -> OpmuxStatus (*)(void*, const OpmuxCall*) {
  if (route.entries.empty() || (route.strict && route.first_is_skipped)) return nullptr;
  if (route.shadow.sample > 0.0) return nullptr;
  const BoundCall& bound = *route.entries.front();
  if (route.quarantine.failures > 0 && bound.record != nullptr &&
      !bound.record->health.is_healthy())
    return nullptr;
  return bound.module != nullptr ? &call_counted : bound.call;
}

void fill_first(const DeviceRoute& route, FirstBinding& first) {
  if (!route.entries.empty()) {
    const BoundCall& bound = *route.entries.front();
    first.binding = bound.module != nullptr ? const_cast<BoundCall*>(&bound) : bound.binding;
    first.conditions = bound.conditions.data();
    first.condition_count = static_cast<std::uint32_t>(bound.conditions.size());
    first.counter = bound.counter;
  }
  first.call.store(first_call(route), std::memory_order_relaxed);
}

bool is_same(const Rejection& a, const Rejection& b) {
  return a.stage == b.stage && a.rule == b.rule && a.subject == b.subject &&
         a.expected == b.expected && a.found == b.found && a.hint == b.hint;
}

bool is_same(const DeviceRoute& a, const DeviceRoute& b) {
  return a.strict == b.strict && a.first_is_skipped == b.first_is_skipped &&
         a.entries == b.entries && a.on_error == b.on_error && a.quarantine == b.quarantine &&
         a.shadow == b.shadow &&
         std::equal(a.skipped.begin(), a.skipped.end(), b.skipped.begin(), b.skipped.end(),
                    [](const SkippedBinding& left, const SkippedBinding& right) {
                      return left.provider == right.provider &&
                             is_same(left.rejection, right.rejection);
                    });
}

const OperatorState* find_in(const OperatorList& operators, std::string_view name) {
  const auto at = std::lower_bound(
      operators.begin(), operators.end(), name,
      [](const OperatorState* state, std::string_view wanted) { return state->name < wanted; });
  return at != operators.end() && (*at)->name == name ? *at : nullptr;
}

DeviceRoutes gone(const OperatorState& state, std::uint64_t number) {
  DeviceRoutes devices;
  for (DeviceRoute& route : devices) {
    route.skipped.push_back(
        {"the manifests", reject(rules::kRegistryRemovedOperator, state.name, "a declaration",
                                 "none since generation " + std::to_string(number))});
  }
  return devices;
}

}  // namespace

OpmuxStatus call_binding(const BoundCall& binding, const OpmuxCall& call) {
  return binding.module == nullptr ? binding.call(binding.binding, &call)
                                   : call_counted(const_cast<BoundCall*>(&binding), &call);
}

Registry::Registry() : host_(host_services()) {
  auto empty = std::make_unique<Generation>();
  empty->operators = std::make_shared<const OperatorList>();
  current_.store(empty.get(), std::memory_order_release);
  generations_.push_back(std::move(empty));
}

Registry& Registry::create() {
  // Never destroyed, so that calls from static destructors and other threads at exit stay defined.
  static auto* const all = new std::vector<std::unique_ptr<Registry>>;
  static auto* const all_mutex = new std::mutex;

  std::unique_ptr<Registry> registry(new Registry);
  const std::lock_guard lock(*all_mutex);
  all->push_back(std::move(registry));
  return *all->back();
}

OperatorList Registry::declare(const std::vector<OperatorDeclaration>& declarations,
                               std::vector<Rejection>& rejections) {
  const std::lock_guard lock(mutex_);
  OperatorList declared;
  for (const OperatorDeclaration& declaration : declarations) {
    const auto known = states_by_name_.find(declaration.name);
    if (known != states_by_name_.end()) {
      if (known->second->schema_text == declaration.schema_text ||
          schema::to_string(known->second->schema) == schema::to_string(declaration.schema)) {
        declared.push_back(known->second);
        continue;
      }
      if (known->second->is_published) {
        rejections.push_back(
            reject(rules::kRegistryRedeclaredOperator,
                   to_string(declaration.location) + ": operator " + declaration.name,
                   known->second->schema_text, declaration.schema_text));
        declared.push_back(nullptr);
        continue;
      }
    }
    Result<std::unique_ptr<OperatorState>> state = make_state(declaration);
    if (!state.ok()) {
      rejections.push_back(state.rejection());
      declared.push_back(nullptr);
      continue;
    }
    (*state)->registry = this;
    (*state)->index = static_cast<std::uint32_t>(states_.size());
    states_.push_back(std::move(*state));
    states_by_name_[declaration.name] = states_.back().get();
    declared.push_back(states_.back().get());
  }
  routes_.resize(states_.size());
  return declared;
}

const OperatorRoute* Registry::intern(std::size_t index, DeviceRoutes devices) {
  // Reasons may differ without end; routes that come back are the current one or among the latest.
  constexpr std::size_t kLatest = 16;
  auto& known = routes_[index];
  const Generation& current = *current_.load(std::memory_order_relaxed);
  const OperatorRoute* const running =
      index < current.routes.size() ? current.routes[index] : nullptr;
  if (running != nullptr && is_same(running->devices[0], devices[0]) &&
      is_same(running->devices[1], devices[1]))
    return running;
  const std::size_t first = known.size() > kLatest ? known.size() - kLatest : 0;
  for (std::size_t at = known.size(); at-- > first;) {
    if (is_same(known[at]->devices[0], devices[0]) && is_same(known[at]->devices[1], devices[1]))
      return known[at].get();
  }
  auto route = std::make_unique<OperatorRoute>();
  route->devices = std::move(devices);
  for (std::size_t slot = 0; slot < kDeviceSlots; ++slot)
    fill_first(route->devices[slot], route->first[slot]);
  known.push_back(std::move(route));
  return known.back().get();
}

std::unique_ptr<Generation> Registry::make_generation(RouteSet routes) {
  const Generation& current = *current_.load(std::memory_order_relaxed);
  auto generation = std::make_unique<Generation>();
  generation->strict = routes.strict;
  OperatorList operators;
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const OperatorState& state = *states_[index];
    const auto written = routes.routes.find(&state);
    if (written != routes.routes.end()) {
      generation->routes.push_back(intern(index, std::move(written->second)));
      operators.push_back(&state);
      continue;
    }
    const OperatorRoute* const running =
        index < current.routes.size() ? current.routes[index] : nullptr;
    // Told as gone since it went: the route of the current generation is kept where it says so.
    const bool is_there = find_in(*current.operators, state.name) == &state;
    generation->routes.push_back(is_there ? intern(index, gone(state, next_number_)) : running);
  }
  while (!generation->routes.empty() && generation->routes.back() == nullptr)
    generation->routes.pop_back();
  std::sort(operators.begin(), operators.end(),
            [](const OperatorState* a, const OperatorState* b) { return a->name < b->name; });
  generation->operators = operators == *current.operators
                              ? current.operators
                              : std::make_shared<const OperatorList>(std::move(operators));
  return generation;
}

const Generation& Registry::publish(RouteSet routes) {
  const std::lock_guard lock(mutex_);
  const Generation& current = *current_.load(std::memory_order_relaxed);
  std::unique_ptr<Generation> generation = make_generation(std::move(routes));
  if (current.number != 0 && generation->strict == current.strict &&
      generation->routes == current.routes && generation->operators == current.operators) {
    return current;
  }
  generation->number = next_number_;
  generations_.push_back(std::move(generation));
  ++next_number_;
  for (const OperatorState* state : *generations_.back()->operators)
    states_[state->index]->is_published = true;
  current_.store(generations_.back().get(), std::memory_order_release);
  return *generations_.back();
}

const Generation& Registry::prepare(RouteSet routes) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Generation> generation = make_generation(std::move(routes));
  generation->number = current_.load(std::memory_order_relaxed)->number;
  generations_.push_back(std::move(generation));
  return *generations_.back();
}

const BoundCall* Registry::find_binding(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto known = bindings_.find(key);
  return known == bindings_.end() ? nullptr : known->second.get();
}

BoundCall& Registry::add_binding(std::string key, BoundCall binding) {
  const std::lock_guard lock(mutex_);
  auto made = std::make_unique<BoundCall>(std::move(binding));
  made->record = made->counter < records_.size() ? &records_[made->counter] : nullptr;
  return *bindings_.emplace(std::move(key), std::move(made)).first->second;
}

const OperatorState* Registry::find(std::string_view name) const {
  return find_in(operators(), name);
}

std::uint32_t Registry::counter_of(const std::string& operator_name, const std::string& provider,
                                   const std::string& device) {
  const std::lock_guard lock(mutex_);
  const std::string name = operator_name + '\n' + provider + '\n' + device;
  const auto [at, is_new] =
      counters_by_name_.emplace(name, static_cast<std::uint32_t>(counter_providers_.size()));
  if (is_new) {
    counter_providers_.push_back(provider);
    records_.emplace_back();
  }
  return at->second;
}

std::string Registry::provider_of(std::uint32_t counter) const {
  const std::lock_guard lock(mutex_);
  return counter < counter_providers_.size() ? counter_providers_[counter] : std::string();
}

const BindingRecord* Registry::record_of(std::uint32_t counter) const {
  const std::lock_guard lock(mutex_);
  return counter < records_.size() ? &records_[counter] : nullptr;
}

// Whoever changed a binding's health comes here afterwards, so that the last one to come leaves
// what fits the health that stays.
void Registry::update_first(const OperatorState& state) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<OperatorRoute>& route : routes_[state.index]) {
    for (std::size_t slot = 0; slot < kDeviceSlots; ++slot)
      route->first[slot].call.store(first_call(route->devices[slot]), std::memory_order_relaxed);
  }
}

}  // namespace opmux
