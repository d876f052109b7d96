// SPDX-License-Identifier: Apache-2.0
//
// The plugin module: one operator, reached through opmux/plugin.h alone. Nothing is linked.
// silu_and_mul: out = silu(input[..., :d]) * input[..., d:]
#include <opmux/plugin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {

const OpmuxHost* host = nullptr;

OpmuxStatus invalid(const char* text) {
  host->set_error(text);
  return OPMUX_INVALID_ARGUMENT;
}

float* data_of(const OpmuxTensor& tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// Runs on any thread, on many at once. No exception may leave it. dtype and contiguity are
// conditions of the manifest, so opmux has checked them; sizes are checked here, before anything is
// written.
OpmuxStatus call(void*, const OpmuxCall* call) {
  const OpmuxTensor& input = *call->values[0].payload.tensor;
  const OpmuxTensor& out = *call->values[1].payload.tensor;
  if (input.rank < 1 || out.rank != input.rank)
    return invalid("expected input and out of one rank, not 0");
  const std::int64_t columns = input.shape[input.rank - 1];
  bool misfit = columns % 2 != 0 || out.shape[out.rank - 1] != columns / 2;
  std::int64_t rows = 1;
  for (std::int32_t dim = 0; dim + 1 < input.rank; ++dim) {
    misfit = misfit || out.shape[dim] != input.shape[dim];
    rows *= input.shape[dim];
  }
  if (misfit) return invalid("expected out with half as many columns as input, and as many rows");

  const std::int64_t half = columns / 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const gate = data_of(input) + row * columns;
    const float* const up = gate + half;
    float* const target = data_of(out) + row * half;
    for (std::int64_t i = 0; i < half; ++i)
      target[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
  }
  return OPMUX_OK;
}

// Filled in by name: later versions of the ABI add fields, and zero says that they are not used.
OpmuxOperatorEntry make_entry() {
  OpmuxOperatorEntry entry = {};
  entry.struct_size = sizeof entry;
  entry.name = "silu_and_mul";
  // The same text as in the declaration: opmux compares the two.
  entry.schema = "silu_and_mul(Tensor input, Tensor(a!) out) -> ()";
  entry.device_type = OPMUX_DEVICE_CPU;
  entry.call = call;
  return entry;
}

const OpmuxOperatorEntry kOperators[] = {make_entry()};

OpmuxModule make_module() {
  OpmuxModule module = {};
  module.struct_size = sizeof module;
  module.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
  module.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
  module.operator_count = sizeof kOperators / sizeof kOperators[0];
  module.name = "example_provider";
  module.version = "0.1.0";
  module.build_identity = "";  // built against nothing in particular
  module.operators = kOperators;
  return module;
}

const OpmuxModule kModule = make_module();

}  // namespace

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* services,
                                                             const OpmuxModule** module) {
  if (services->abi_major != OPMUX_PLUGIN_ABI_MAJOR) {
    services->set_error("built for another plugin ABI: build it again with this opmux");
    return OPMUX_INCOMPATIBLE;
  }
  host = services;
  *module = &kModule;
  return OPMUX_OK;
}
