// SPDX-License-Identifier: Apache-2.0
//
// How far the results of two providers lie apart. Thread safety: pure functions.
#pragma once

#include "cli/example_inputs.hpp"
#include "core/compare/compare.hpp"
#include "core/schema/schema.hpp"

namespace opmux::cli {

// Every argument that the schema marks as written.
Comparison compare_written(const schema::Schema& schema, const ExampleCall& expected,
                           const ExampleCall& found, const Tolerance& tolerance);

}  // namespace opmux::cli
