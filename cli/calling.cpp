// SPDX-License-Identifier: Apache-2.0
#include "cli/calling.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "cli/output.hpp"
#include "cli/placed_call.hpp"

namespace opmux::cli {
namespace {

Status call(const BoxedOperator& target, const std::string& provider, const PlacedCall& placed) {
  if (provider.empty()) return target.call(placed.values(), placed.count(), placed.stream());
  return target.call_provider(provider, placed.values(), placed.count(), placed.stream());
}

}  // namespace

std::string name_of(const Place& place) {
  return place.device.type == OPMUX_DEVICE_CUDA ? "cuda" : "cpu";
}

const BindingReport* find_binding(const OperatorReport& report, const std::string& provider,
                                  const std::string& device) {
  for (const BindingReport& binding : report.bindings)
    if (binding.provider == provider && binding.device == device) return &binding;
  return nullptr;
}

StatusOr<ExampleCall> call_once(const BoxedOperator& target, const std::string& provider,
                                const ExampleCall& inputs, const Place& place) {
  const StatusOr<std::unique_ptr<PlacedCall>> placed =
      PlacedCall::place(inputs, place.device, place.services);
  if (!placed.ok()) return placed.status();
  Status called = call(target, provider, **placed);
  if (!called.ok()) return called;
  return (*placed)->fetch();
}

StatusOr<Timing> time_calls(const BoxedOperator& target, const std::string& provider,
                            const ExampleCall& inputs, const Place& place, int calls) {
  constexpr int kWarmUpCalls = 2;
  const StatusOr<std::unique_ptr<PlacedCall>> placed =
      PlacedCall::place(inputs, place.device, place.services);
  if (!placed.ok()) return placed.status();
  std::vector<double> times;
  for (int i = -kWarmUpCalls; i < calls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Status called = call(target, provider, **placed);
    if (!called.ok()) return called;
    Status finished = (*placed)->synchronize();
    if (!finished.ok()) return finished;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (i >= 0) times.push_back(took.count());
  }
  if (times.empty()) return Timing{};
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  const double median =
      times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2.0;
  return Timing{times.front(), median, calls};
}

StatusOr<Comparison> compare_with_native(const BoxedOperator& target,
                                         const OperatorDeclaration& declaration,
                                         const ExampleCall& inputs, const ExampleCall& outputs) {
  const StatusOr<ExampleCall> expected = call_once(target, "native", inputs, Place{});
  if (!expected.ok()) return expected.status();
  return compare_written(declaration.schema, *expected, outputs,
                         {declaration.tolerance_ulps, declaration.tolerance_absolute});
}

std::string in_words(const Comparison& comparison, const OperatorDeclaration& declaration) {
  std::string tolerance = fmt::format("{:g} ulps", declaration.tolerance_ulps);
  if (declaration.tolerance_absolute > 0.0)
    tolerance += fmt::format(" + {:g}", declaration.tolerance_absolute);
  const std::string elements = counted(comparison.elements, "element");
  std::string error;
  if (comparison.max_absolute == 0.0)
    error = fmt::format("equal in {}", elements);
  else if (comparison.max_ulps == 0.0)
    error = fmt::format("largest error {:.3g} of {}", comparison.max_absolute, elements);
  else
    error = fmt::format("largest error {:.3g} ulps, {:.3g} absolute, of {}", comparison.max_ulps,
                        comparison.max_absolute, elements);
  if (comparison.within) return error + "; within " + tolerance;
  return error +
         fmt::format("; {} beyond {}, first {}", comparison.outside, tolerance, comparison.worst);
}

}  // namespace opmux::cli
