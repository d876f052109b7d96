// SPDX-License-Identifier: Apache-2.0
//
// A plugin module that serves silu_and_mul on the CPU and answers, or computes, as it is told while
// it runs: opmux::fakes::Serving talks to it. Each copy of the file has a state of its own.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "opmux/plugin.h"

namespace {

std::atomic<int> answer{OPMUX_OK};
std::atomic<float> offset{0.0F};  // added to every result
std::atomic<std::uint64_t> calls{0};

OpmuxStatus serve(void*, const OpmuxCall* call) {
  calls.fetch_add(1, std::memory_order_relaxed);
#if defined(FAKE_GREETS)
  std::puts("fake: served");
#endif
  if (const int told = answer.load(std::memory_order_relaxed); told != OPMUX_OK) {
    call->host->set_error("fake: told to fail");
    return told;
  }
  const OpmuxTensor& input = *call->values[0].payload.tensor;
  const OpmuxTensor& out = *call->values[1].payload.tensor;
  const std::int64_t width = out.shape[out.rank - 1];
  std::int64_t rows = 1;
  for (std::int32_t dimension = 0; dimension + 1 < out.rank; ++dimension)
    rows *= out.shape[dimension];
  const auto* from = static_cast<const float*>(input.data);
  auto* to = static_cast<float*>(out.data);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      const double gate = from[row * 2 * width + column];
      to[row * width + column] = static_cast<float>(gate / (1.0 + std::exp(-gate)) *
                                                    from[row * 2 * width + width + column]) +
                                 offset.load(std::memory_order_relaxed);
    }
  }
  return OPMUX_OK;
}

constexpr OpmuxOperatorEntry kEntries[] = {
    {sizeof(OpmuxOperatorEntry), OPMUX_PROPERTY_IN_PLACE, "silu_and_mul",
     "silu_and_mul(Tensor input, Tensor(a!) out) -> ()", OPMUX_DEVICE_CPU, 0, serve, nullptr}};

}  // namespace

extern "C" {

OPMUX_PLUGIN_EXPORT void fake_answer_with(int status) { answer = status; }
OPMUX_PLUGIN_EXPORT void fake_add(float number) { offset = number; }
OPMUX_PLUGIN_EXPORT std::uint64_t fake_calls() { return calls; }

OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost*, const OpmuxModule** module) {
#if defined(FAKE_GREETS)
  std::puts("fake: welcome");
#endif
  static const OpmuxModule table = [] {
    OpmuxModule made{};
    made.struct_size = sizeof made;
    made.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
    made.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
    made.operator_count = 1;
    made.name = "serving";
    made.version = "1";
    made.build_identity = "";
    made.operators = kEntries;
    return made;
  }();
  *module = &table;
  return OPMUX_OK;
}

}  // extern "C"
