// SPDX-License-Identifier: Apache-2.0
//
// Plain formulas that say what an operator's outputs must be, in double and independent of every
// kernel; for the demonstration. Thread safety: pure functions.
#pragma once

#include <string>

#include "cli/example_inputs.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux::cli {

struct CheckOutcome {
  bool passed = false;
  std::string text;  // how it was checked and what came out
};

// Whether `outputs` is what the operator makes of `inputs`; both as the declaration's example lays
// them out.
CheckOutcome check_numbers(const OperatorDeclaration& declaration, const ExampleCall& inputs,
                           const ExampleCall& outputs);

}  // namespace opmux::cli
