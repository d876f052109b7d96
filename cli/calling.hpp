// SPDX-License-Identifier: Apache-2.0
//
// Calls of examples, for the subcommands that try operators.
#pragma once

#include <string>

#include "cli/compare.hpp"
#include "cli/example_inputs.hpp"
#include "opmux/opmux.hpp"

namespace opmux::cli {

// Where calls go; `services` is null for the CPU.
struct Place {
  Device device;
  const OpmuxDeviceServices* services = nullptr;
};

// "cpu" or "cuda".
std::string name_of(const Place& place);

// The binding of a provider on a device; null when there is none.
const BindingReport* find_binding(const OperatorReport& report, const std::string& provider,
                                  const std::string& device);

// One call on fresh copies of `inputs`; what the arguments hold afterwards. An empty `provider`
// follows the route.
StatusOr<ExampleCall> call_once(const BoxedOperator& target, const std::string& provider,
                                const ExampleCall& inputs, const Place& place);

struct Timing {
  double min_ns = 0.0;
  double median_ns = 0.0;
  int calls = 0;
};
// Repeated calls on one copy of `inputs`, after two that do not count. On a device each is waited
// for.
StatusOr<Timing> time_calls(const BoxedOperator& target, const std::string& provider,
                            const ExampleCall& inputs, const Place& place, int calls);

// `outputs` against a call of the native kernel on the CPU with the same inputs. The status says
// why there is no comparison.
StatusOr<Comparison> compare_with_native(const BoxedOperator& target,
                                         const OperatorDeclaration& declaration,
                                         const ExampleCall& inputs, const ExampleCall& outputs);

// The largest error, and whether it is within the tolerance.
std::string in_words(const Comparison& comparison, const OperatorDeclaration& declaration);

}  // namespace opmux::cli
