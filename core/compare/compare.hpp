// SPDX-License-Identifier: Apache-2.0
//
// How far two results of one operator lie apart. Thread safety: values and pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "opmux/tensor_view.hpp"

namespace opmux {

// An element may differ by `ulps` of its dtype at the expected value, and by `absolute` on top.
// Elements of integer tensors may not differ.
struct Tolerance {
  double ulps = 0.0;
  double absolute = 0.0;

  bool operator==(const Tolerance&) const = default;
};

struct Comparison {
  bool within = true;
  double max_ulps = 0.0;  // of elements that differ by more than `absolute`
  double max_absolute = 0.0;
  std::size_t elements = 0;
  std::size_t outside = 0;  // elements beyond the tolerance
  std::string worst;        // argument, index, expected and found of the first of them
};

// One element of the argument `name`, the `index`-th in row-major order.
void compare_element(const std::string& name, std::size_t index, double expected, double found,
                     DType dtype, const Tolerance& tolerance, Comparison& comparison);

}  // namespace opmux
