// SPDX-License-Identifier: Apache-2.0
//
// Greedy generation, and the same steps again for a sequence that is given.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model.hpp"
#include "operators.hpp"

namespace decoder {

struct Step {
  std::int64_t token = 0;  // the one with the largest logit
  double margin = 0.0;     // its logit less the next one's
  ServedCalls served;
};

struct Run {
  std::vector<Step> steps;
  std::vector<float> logits;  // [steps, vocabulary]

  std::size_t smallest_margin() const;  // its step
};

// What stands before the first token that is made.
inline constexpr std::int64_t kFirstToken = 0;

// Appends to `run`, which holds the steps before the one that fails, too. `seen` is called after
// each step. Fails where an operator does, or where a logit is no number.
opmux::Status generate(const Model& model, Operators& operators, std::int64_t tokens, Run& run,
                       const std::function<void(std::size_t, const Step&)>& seen);

// The logits along the tokens of `run`, whatever these logits would choose.
opmux::StatusOr<Run> follow(const Model& model, Operators& operators, const Run& run);

}  // namespace decoder
