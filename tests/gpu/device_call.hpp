// SPDX-License-Identifier: Apache-2.0
//
// One call on a CUDA device whose inputs arrive late on one stream: only work that is ordered after
// that stream's copies sees them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/example_inputs.hpp"
#include "opmux/opmux.hpp"

namespace opmux::gpu {

// Empty when a device can be used, else why not.
std::string missing_device();

// A cudaStream_t that does not wait for the legacy default stream; lives for the process.
void* new_stream();

// What the arguments hold after the operator ran on `call_stream` while the inputs were copied to
// the device on `input_stream`, behind a host function that sleeps. Outputs are read on
// `input_stream`. With equal streams the result must be right; with different ones the operator
// runs before its inputs are there. Without a `provider` the route decides.
StatusOr<cli::ExampleCall> call_with_late_inputs(const BoxedOperator& target,
                                                 const std::string& provider,
                                                 const cli::ExampleCall& inputs, void* input_stream,
                                                 void* call_stream);

}  // namespace opmux::gpu
