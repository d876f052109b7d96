// SPDX-License-Identifier: Apache-2.0
#include "cli/compare.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "cli/floats.hpp"

namespace opmux::cli {
namespace {

void compare_tensor(const std::string& name, const HostTensor& expected, const HostTensor& found,
                    const Tolerance& tolerance, Comparison& comparison) {
  const bool floating = is_floating(expected.dtype);
  const std::size_t count = expected.count();
  comparison.elements += count;
  for (std::size_t i = 0; i < count; ++i) {
    const double want = expected.at(i);
    const double have = found.at(i);
    if (want == have || (std::isnan(want) && std::isnan(have))) continue;
    double error = std::fabs(want - have);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    const double ulp = floating ? ulp_at(want, expected.dtype) : 1.0;
    comparison.max_absolute = std::max(comparison.max_absolute, error);
    if (!floating || error > tolerance.absolute)
      comparison.max_ulps = std::max(comparison.max_ulps, error / ulp);
    if (floating && error <= tolerance.ulps * ulp + tolerance.absolute) continue;
    comparison.within = false;
    if (comparison.outside++ == 0)
      comparison.worst = fmt::format("{}[{}]: expected {:.9g}, found {:.9g}", name, i, want, have);
  }
}

}  // namespace

Comparison compare_written(const schema::Schema& schema, const ExampleCall& expected,
                           const ExampleCall& found, const Tolerance& tolerance) {
  Comparison comparison;
  for (std::size_t i = 0; i < schema.arguments.size(); ++i) {
    if (!schema::is_written(schema.arguments[i])) continue;
    const auto* want = std::get_if<HostTensor>(&expected.arguments[i]);
    const auto* have = std::get_if<HostTensor>(&found.arguments[i]);
    if (want != nullptr && have != nullptr)
      compare_tensor(schema.arguments[i].name, *want, *have, tolerance, comparison);
  }
  return comparison;
}

}  // namespace opmux::cli
