// SPDX-License-Identifier: Apache-2.0
#include "cli/html/state.hpp"

#include "core/base/rules.hpp"

namespace opmux::cli {
namespace {

bool is_tried(BindingState state) {
  return state == BindingState::kCallable || state == BindingState::kUsable;
}

}  // namespace

BindingState state_of(const BindingReport& binding) {
  if (!binding.usable) {
    // A provider that no route names is not even looked for.
    const bool left_out =
        binding.rejection && binding.rejection->rule == rules::kRegistryNotRouted.id;
    return left_out ? BindingState::kNotRouted : BindingState::kRejected;
  }
  if (!binding.routed) return BindingState::kNotRouted;
  if (binding.stub_driver) return BindingState::kStub;
  return binding.callable ? BindingState::kCallable : BindingState::kUsable;
}

std::string_view word_for(BindingState state) {
  switch (state) {
    case BindingState::kCallable:
      return "callable";
    case BindingState::kUsable:
      return "usable";
    case BindingState::kStub:
      return "stub driver";
    case BindingState::kNotRouted:
      return "not routed";
    case BindingState::kRejected:
      return "rejected";
  }
  return "";
}

std::string_view meaning_of(BindingState state) {
  switch (state) {
    case BindingState::kCallable:
      return "every check passed, and it is mapped in the process that made this page";
    case BindingState::kUsable:
      return "every check passed; a program that opens opmux here maps it";
    case BindingState::kStub:
      return "every check passed with a stub driver, so nothing can call it here";
    case BindingState::kNotRouted:
      return "the route leaves it out";
    case BindingState::kRejected:
      return "a check failed; the reason stands with the operator";
  }
  return "";
}

std::size_t route_place(const OperatorReport& report, const BindingReport& binding) {
  if (!is_tried(state_of(binding))) return 0;
  std::size_t place = 1;
  for (const BindingReport& each : report.bindings) {
    if (&each == &binding) return place;
    if (each.device == binding.device && is_tried(state_of(each))) ++place;
  }
  return 0;
}

}  // namespace opmux::cli
