// SPDX-License-Identifier: Apache-2.0
//
// Whether a call of the table gave what the reference says.
#pragma once

#include <string>

#include "cli/compare.hpp"
#include "tests/gpu/attention_case.hpp"

namespace opmux::gpu {

// How far two providers may differ, by the operator's shipped declaration.
Tolerance attention_tolerance(const std::string& operator_name);

struct AttentionCheck {
  std::string fault;       // the first element that is wrong; empty when all are right
  double max_error = 0.0;  // of out
};

AttentionCheck check_attention(const AttentionCall& call, const cli::ExampleCall& outputs);

}  // namespace opmux::gpu
