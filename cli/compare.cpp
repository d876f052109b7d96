// SPDX-License-Identifier: Apache-2.0
#include "cli/compare.hpp"

#include <string>
#include <variant>

namespace opmux::cli {
namespace {

void compare_tensor(const std::string& name, const HostTensor& expected, const HostTensor& found,
                    const Tolerance& tolerance, Comparison& comparison) {
  for (std::size_t i = 0; i < expected.count(); ++i)
    compare_element(name, i, expected.at(i), found.at(i), expected.dtype, tolerance, comparison);
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
