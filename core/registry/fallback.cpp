// SPDX-License-Identifier: Apache-2.0
#include "core/registry/fallback.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/loader/loader.hpp"
#include "core/registry/shadow.hpp"

namespace opmux {
namespace {

using detail::OperatorState;

const CompiledCondition* first_refusal(const BoundCall& binding,
                                       const OpmuxValue* values) noexcept {
  for (const CompiledCondition& condition : binding.conditions) {
    if (!holds(condition, values)) return &condition;
  }
  return nullptr;
}

Rejection condition_rejection(const OperatorState& state, const BoundCall& binding,
                              const CompiledCondition& refused, const OpmuxValue* values) {
  const auto argument = static_cast<std::size_t>(refused.argument);
  return reject(rules::kCallCondition,
                state.name + ": " + binding.provider + ": argument `" +
                    state.schema.arguments[argument].name + "`",
                refused.text, describe_value(refused, values));
}

std::string module_error_or(std::string fallback) {
  std::string text = take_module_error();
  return text.empty() ? std::move(fallback) : std::move(text);
}

// Why bindings did not serve one call, in route order.
class CallReasons {
 public:
  void add(const std::string& provider, const Rejection& rejection) {
    if (!first_) first_ = rejection;
    text_ += "\n  " + provider + ": " + to_string(rejection);
  }
  // A binding that failed before anything was launched; the first one is the error of the call.
  void add_error(const std::string& provider, const Rejection& rejection) {
    add(provider, rejection);
    if (!error_) error_ = rejection;
  }
  // When no binding is left.
  Status status(const std::string& head) const {
    if (error_) return Status(StatusCode::kFailed, head + text_, *error_);
    return first_ ? Status(StatusCode::kUnsupported, head + text_, *first_)
                  : Status(StatusCode::kUnsupported, head);
  }
  // `last` ends the call and tells what it was; what came before stands below it.
  Status ended_by(Status last) const {
    if (text_.empty()) return last;
    const std::string message = last.message() + "\n  before that:" + text_;
    return last.rejection() == nullptr ? Status(last.code(), message)
                                       : Status(last.code(), message, *last.rejection());
  }
  bool empty() const { return !first_; }

 private:
  std::optional<Rejection> first_;
  std::optional<Rejection> error_;
  std::string text_;
};

// A non-OK, non-UNSUPPORTED answer of a provider.
Status failure(const OperatorState& state, const BoundCall& binding, OpmuxStatus code) {
  const std::string subject = state.name + ": " + binding.provider;
  switch (code) {
    case OPMUX_INVALID_ARGUMENT:
      return Status(StatusCode::kInvalidArgument,
                    subject + ": " + module_error_or("invalid argument"));
    case OPMUX_ERROR_BEFORE_LAUNCH: {
      Rejection rejection = reject(rules::kCallFailed, subject, "the provider to serve the call",
                                   module_error_or("an error before launch"));
      return Status(StatusCode::kFailed, to_string(rejection), rejection);
    }
    default: {
      Rejection rejection =
          reject(rules::kCallFailed, subject, "the provider to serve the call",
                 module_error_or("an error after launch, status " + std::to_string(code)),
                 "Outputs may be half written; the call was not tried on another provider.");
      return Status(StatusCode::kFailedInFlight, to_string(rejection), rejection);
    }
  }
}

Status strict_fallback(const OperatorState& state, const CallReasons& reasons) {
  return reasons.status(state.name + ": strict mode allows no fallback");
}

// The try of a binding in quarantine by this call, which must end in one way or another.
class Try {
 public:
  Try(const OperatorState& state, const DeviceRoute& route, const BoundCall& binding)
      : state_(state), route_(route), binding_(binding) {}
  Try(const Try&) = delete;
  Try& operator=(const Try&) = delete;
  ~Try() {
    if (open_) binding_.record->health.end_try_undecided();
  }

  void begin() noexcept { open_ = true; }
  bool is_open() const noexcept { return open_; }
  void served() {
    open_ = false;
    binding_.record->health.end_try_served();
    state_.registry->update_first(state_);
    log::info(state_.name + ": " + binding_.provider + " serves again and is back in the route");
  }
  void failed(const std::string& error) {
    open_ = false;
    binding_.record->health.end_try_failed(route_.quarantine, error, state_.registry->now());
    log::debug(state_.name + ": " + binding_.provider + " failed again: " + error);
  }

 private:
  const OperatorState& state_;
  const DeviceRoute& route_;
  const BoundCall& binding_;
  bool open_ = false;
};

void note_failure(const OperatorState& state, const DeviceRoute& route, const BoundCall& binding,
                  const std::string& error) {
  Registry& registry = *state.registry;
  BindingHealth& health = binding.record->health;
  const MonotonicTime now = registry.now();
  if (!health.note_failure(route.quarantine, registry.counters().sum(binding.counter).calls, error,
                           now))
    return;
  registry.update_first(state);
  if (const auto why = health.rejection(state.name + ": " + binding.provider, now))
    log::warn("left out of the route: " + to_string(*why));
}

// The binding's answer, its module held by the override's scope, which may end meanwhile on another
// thread. That would unmap a closing module before this call is over, were it not counted itself.
OpmuxStatus call_held(const BoundCall& binding, const OpmuxCall& call,
                      const detail::Override& holder) {
  const auto held = std::find_if(holder.held_shards.begin(), holder.held_shards.end(),
                                 [&](const auto& shard) { return shard.first == binding.module; });
  if (binding.module == nullptr || held == holder.held_shards.end()) {
    ++detail::held_calls;
    const OpmuxStatus answer = call_binding(binding, call);
    --detail::held_calls;
    return answer;
  }
  const ModuleHold hold = ModuleHold::beside(*binding.module, held->second);
  if (holder.ended.load()) return kModuleClosing;
  ++detail::held_calls;
  const OpmuxStatus answer = binding.call(binding.binding, &call);
  --detail::held_calls;
  return answer == kModuleClosing ? OPMUX_ERROR_AFTER_LAUNCH : answer;
}

bool is_in_quarantine_rule(const DeviceRoute& route, const BoundCall& binding) {
  return route.quarantine.failures > 0 && binding.record != nullptr;
}

}  // namespace

const char* device_name(std::int32_t type) {
  if (type == OPMUX_DEVICE_CPU) return "cpu";
  return type == OPMUX_DEVICE_CUDA ? "cuda" : "another device";
}

[[gnu::cold, gnu::noinline]] std::optional<Status> call_route(
    const OperatorState& state, const Generation& generation, const DeviceRoute& route,
    const OpmuxCall& call, CounterBlock& block, std::optional<OpmuxStatus> first_answer,
    const detail::Override* holder) {
  CallReasons reasons;
  if (route.strict && route.first_is_skipped) {
    reasons.add(route.skipped.front().provider, route.skipped.front().rejection);
    return strict_fallback(state, reasons);
  }
  // Cells move when a call inside a call meets new counters, so none is kept over one.
  const auto count = [&](const BoundCall& binding,
                         std::atomic<std::uint64_t> BindingCounterCell::*member) {
    BindingCounterCell::increment(block.cell(binding.counter).*member);
  };
  for (const BoundCall* binding : route.entries) {
    OpmuxStatus answer = OPMUX_UNSUPPORTED;
    const bool may_be_out = is_in_quarantine_rule(route, *binding);
    Try trial(state, route, *binding);
    std::unique_ptr<ShadowCall> shadow;
    if (first_answer) {
      answer = *first_answer;
      first_answer.reset();
    } else if (const CompiledCondition* refused = first_refusal(*binding, call.values)) {
      count(*binding, &BindingCounterCell::refused_by_condition);
      reasons.add(binding->provider, condition_rejection(state, *binding, *refused, call.values));
      if (route.strict) return strict_fallback(state, reasons);
      continue;
    } else {
      if (may_be_out) {
        const auto admission = binding->record->health.admit(state.registry->clock());
        if (admission == BindingHealth::Admission::kPass) {
          // Nothing: it came back this moment.
          if (const auto why = binding->record->health.rejection(
                  state.name + ": " + binding->provider, state.registry->now())) {
            count(*binding, &BindingCounterCell::quarantined);
            reasons.add(binding->provider, *why);
            if (route.strict) return strict_fallback(state, reasons);
            continue;
          }
        }
        if (admission == BindingHealth::Admission::kTry) trial.begin();
      }
      if (route.shadow.sample > 0.0 && call.device.type == OPMUX_DEVICE_CPU &&
          is_sampled(block.cell(binding->counter).calls.load(std::memory_order_relaxed),
                     route.shadow.sample))
        shadow = ShadowCall::make(state, route, *binding, call, block);
      const WorkspaceScope workspace;
      answer =
          holder != nullptr ? call_held(*binding, call, *holder) : call_binding(*binding, call);
    }
    if (answer == kModuleClosing && binding->module != nullptr) return std::nullopt;
    if (answer == OPMUX_OK) {
      if (trial.is_open()) trial.served();
      if (shadow) shadow->run(block);
      count_served(block, binding->counter, generation);
      return Status();
    }
    if (answer != OPMUX_UNSUPPORTED) {
      count(*binding, &BindingCounterCell::errors);
      Status failed = failure(state, *binding, answer);
      // An invalid argument is the caller's, and says nothing of the binding.
      if (may_be_out && failed.rejection() != nullptr) {
        if (trial.is_open())
          trial.failed(failed.rejection()->found);
        else
          note_failure(state, route, *binding, failed.rejection()->found);
      }
      // Only what was reported before anything was launched may go on: an in-place operator would
      // run twice.
      if (answer != OPMUX_ERROR_BEFORE_LAUNCH || route.on_error != OnError::kNext || route.strict)
        return reasons.ended_by(std::move(failed));
      reasons.add_error(binding->provider, *failed.rejection());
      continue;
    }
    count(*binding, &BindingCounterCell::refused_by_provider);
    reasons.add(binding->provider,
                reject(rules::kCallUnsupported, state.name + ": " + binding->provider,
                       "a call that the provider supports", module_error_or("it refused")));
    if (route.strict) return strict_fallback(state, reasons);
  }
  for (const SkippedBinding& skipped : route.skipped)
    reasons.add(skipped.provider, skipped.rejection);
  return reasons.status(state.name + ": no binding takes this call");
}

[[gnu::cold, gnu::noinline]] Status no_route(const OperatorState& state, const DeviceRoute& route,
                                             std::int32_t device_type) {
  const char* const device = device_name(device_type);
  CallReasons reasons;
  for (const SkippedBinding& skipped : route.skipped)
    reasons.add(skipped.provider, skipped.rejection);
  if (reasons.empty()) {
    reasons.add("native",
                reject(rules::kRegistryNoNative, state.name, std::string("a binding for ") + device,
                       "none: no provider of its route, native included, has one"));
  }
  return reasons.status(state.name + ": no usable binding on " + device);
}

}  // namespace opmux
