// SPDX-License-Identifier: Apache-2.0
//
// How far the results of two providers lie apart. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "cli/example_inputs.hpp"
#include "core/schema/schema.hpp"

namespace opmux::cli {

// An element may differ by `ulps` of its dtype at the expected value, and by `absolute` on top.
// Elements of integer tensors may not differ.
struct Tolerance {
  double ulps = 0.0;
  double absolute = 0.0;
};

struct Comparison {
  bool within = true;
  double max_ulps = 0.0;  // of elements that differ by more than `absolute`
  double max_absolute = 0.0;
  std::size_t elements = 0;
  std::size_t outside = 0;  // elements beyond the tolerance
  std::string worst;        // argument, index, expected and found of the first of them
};

// Every argument that the schema marks as written.
Comparison compare_written(const schema::Schema& schema, const ExampleCall& expected,
                           const ExampleCall& found, const Tolerance& tolerance);

}  // namespace opmux::cli
