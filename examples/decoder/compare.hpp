// SPDX-License-Identifier: Apache-2.0
//
// How far the providers' numbers lie apart on the tokens of a run, against how far apart the tokens
// themselves are: the reason why a swap of providers leaves the tokens what they are.
#pragma once

#include <opmux/opmux.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "generate.hpp"

namespace decoder {

// So many times must the smallest margin exceed the largest difference.
inline constexpr double kLeastRatio = 100.0;

struct Comparison {
  std::vector<std::string> providers;  // each alone before native; those that served an operator
  double difference = 0.0;             // the largest between two of these, or one and the run
  std::size_t step = 0;                // where it is
  double margin = 0.0;                 // the run's smallest

  // None where all numbers are the same.
  std::optional<double> ratio() const;
  bool holds() const { return margin >= kLeastRatio * difference && margin > 0.0; }
};

// Opens a runtime for each provider that a manifest describes. `options` are those of the run.
opmux::StatusOr<Comparison> compare(const Model& model, const opmux::Options& options,
                                    const opmux::Report& report, const Run& run);

}  // namespace decoder
