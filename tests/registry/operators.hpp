// SPDX-License-Identifier: Apache-2.0
//
// Declarations and bindings for tests of the registry.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/loader/loader.hpp"
#include "core/registry/registry.hpp"

namespace opmux::test {

inline OperatorDeclaration declare(const std::string& schema_text) {
  Result<schema::Schema> schema = schema::parse(schema_text);
  EXPECT_TRUE(schema.ok()) << schema_text;
  OperatorDeclaration declaration;
  declaration.name =
      schema->overload.empty() ? schema->name : schema->name + "." + schema->overload;
  declaration.schema = std::move(*schema);
  declaration.schema_text = schema_text;
  return declaration;
}

// The operator of a schema that the registry takes.
inline const detail::OperatorState* declared(Registry& registry, const std::string& schema) {
  std::vector<Rejection> rejections;
  const OperatorList operators = registry.declare({declare(schema)}, rejections);
  EXPECT_TRUE(rejections.empty());
  return operators.front();
}

// What a binding does when called, and what it saw.
struct Script {
  OpmuxStatus answer = OPMUX_OK;
  const char* error = nullptr;
  int calls = 0;
  std::vector<OpmuxValue> values;
  OpmuxCall call{};
  std::function<void(const OpmuxCall&)> work;  // what it computes; may be empty

  static OpmuxStatus run(void* self, const OpmuxCall* call) {
    auto* script = static_cast<Script*>(self);
    ++script->calls;
    script->call = *call;
    script->values.assign(call->values, call->values + call->value_count);
    if (script->work) script->work(*call);
    if (script->error != nullptr) call->host->set_error(script->error);
    return script->answer;
  }
};

// A registry of one operator whose CPU route is made of scripts.
class OneOperator {
 public:
  explicit OneOperator(const std::string& schema)
      : registry_(Registry::create()), state_(declared(registry_, schema)) {}

  Script& add(const std::string& provider, std::vector<Condition> conditions = {}) {
    scripts_.push_back(std::make_unique<Script>());
    BoundCall binding;
    binding.call = &Script::run;
    binding.binding = scripts_.back().get();
    binding.provider = provider;
    binding.counter = registry_.counter_of("op", provider, "cpu");
    for (const Condition& condition : conditions)
      binding.conditions.push_back(compile_condition(condition));
    entries_.push_back(&registry_.add_binding(provider, std::move(binding)));
    return *scripts_.back();
  }

  void skip(const std::string& provider, Rejection rejection, bool first) {
    skipped_.push_back({provider, std::move(rejection)});
    first_is_skipped_ |= first;
  }

  void publish(bool strict = false) { registry_.publish(routes(strict)); }

  RouteSet routes(bool strict = false) const {
    RouteSet set;
    set.strict = strict;
    DeviceRoute route = handling;
    route.entries = entries_;
    route.skipped = skipped_;
    route.first_is_skipped = first_is_skipped_;
    route.strict |= strict;
    set.routes[state_][0] = std::move(route);
    return set;
  }

  BoxedOperator op() const { return BoxedOperator(state_); }
  Registry& registry() { return registry_; }
  const BoundCall* binding(std::size_t index) const { return entries_.at(index); }
  BindingCounts counts(std::size_t index) const {
    return registry_.counters().sum(entries_.at(index)->counter);
  }
  // Takes the binding out of the order; it stays bound.
  void leave_out(std::size_t index) {
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // What the route has beside its bindings.
  DeviceRoute handling;

 private:
  Registry& registry_;
  const detail::OperatorState* state_;
  std::vector<std::unique_ptr<Script>> scripts_;
  std::vector<const BoundCall*> entries_;
  std::vector<SkippedBinding> skipped_;
  bool first_is_skipped_ = false;
};

}  // namespace opmux::test
