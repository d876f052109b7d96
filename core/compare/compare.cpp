// SPDX-License-Identifier: Apache-2.0
#include "core/compare/compare.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/compare/floats.hpp"

namespace opmux {

void compare_element(const std::string& name, std::size_t index, double expected, double found,
                     DType dtype, const Tolerance& tolerance, Comparison& comparison) {
  ++comparison.elements;
  if (expected == found || (std::isnan(expected) && std::isnan(found))) return;
  const bool floating = is_floating(dtype);
  double error = std::fabs(expected - found);
  if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
  const double ulp = floating ? ulp_at(expected, dtype) : 1.0;
  comparison.max_absolute = std::max(comparison.max_absolute, error);
  if (!floating || error > tolerance.absolute)
    comparison.max_ulps = std::max(comparison.max_ulps, error / ulp);
  if (floating && error <= tolerance.ulps * ulp + tolerance.absolute) return;
  comparison.within = false;
  if (comparison.outside++ == 0)
    comparison.worst =
        fmt::format("{}[{}]: expected {:.9g}, found {:.9g}", name, index, expected, found);
}

}  // namespace opmux
