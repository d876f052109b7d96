// SPDX-License-Identifier: Apache-2.0
#include "generate.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "decoder.hpp"

namespace decoder {
namespace {

// The first of equal logits; their margin is 0.
Step choose(const float* logits, std::int64_t count) {
  const float* const best = std::max_element(logits, logits + count);
  float next = -INFINITY;
  for (const float* logit = logits; logit != logits + count; ++logit)
    if (logit != best) next = std::max(next, *logit);
  return {best - logits, static_cast<double>(*best) - static_cast<double>(next), {}};
}

// `next` says which token follows step i, given what that step would choose.
opmux::Status run_steps(const Model& model, Operators& operators, std::size_t count, Run& run,
                        const std::function<std::int64_t(std::size_t, Step&)>& next) {
  const std::int64_t vocabulary = model.shape.vocabulary;
  Decoder decoder(model, operators);
  run.logits.reserve(count * static_cast<std::size_t>(vocabulary));
  operators.take_served();
  std::int64_t token = kFirstToken;
  for (std::size_t i = 0; i < count; ++i) {
    const opmux::StatusOr<const float*> logits = decoder.step(token);
    if (!logits.ok()) return logits.status();
    if (!std::all_of(*logits, *logits + vocabulary, [](float x) { return std::isfinite(x); }))
      return opmux::Status(opmux::StatusCode::kFailed,
                           "step " + std::to_string(i) + ": a logit is no finite number");
    run.logits.insert(run.logits.end(), *logits, *logits + vocabulary);
    Step step = choose(*logits, vocabulary);
    step.served = operators.take_served();
    token = next(i, step);
    run.steps.push_back(std::move(step));
  }
  return {};
}

}  // namespace

std::size_t Run::smallest_margin() const {
  const auto smallest = std::min_element(
      steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.margin < b.margin; });
  return static_cast<std::size_t>(smallest - steps.begin());
}

opmux::Status generate(const Model& model, Operators& operators, std::int64_t tokens, Run& run,
                       const std::function<void(std::size_t, const Step&)>& seen) {
  return run_steps(model, operators, static_cast<std::size_t>(tokens), run,
                   [&](std::size_t i, Step& step) {
                     seen(i, step);
                     return step.token;
                   });
}

opmux::StatusOr<Run> follow(const Model& model, Operators& operators, const Run& run) {
  Run again;
  opmux::Status status = run_steps(model, operators, run.steps.size(), again,
                                   [&](std::size_t i, Step&) { return run.steps[i].token; });
  if (!status.ok()) return status;
  return again;
}

}  // namespace decoder
