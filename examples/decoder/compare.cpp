// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace decoder {
namespace {

constexpr const char* kNative = "native";

bool served_any(const Run& run, const std::string& provider) {
  for (const Step& step : run.steps)
    for (const std::vector<Served>& served : step.served)
      for (const Served& each : served)
        if (each.provider == provider) return true;
  return false;
}

void widen(Comparison& comparison, const Run& left, const Run& right, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < left.logits.size(); ++i) {
    const double difference =
        std::fabs(static_cast<double>(left.logits[i]) - static_cast<double>(right.logits[i]));
    if (difference > comparison.difference) {
      comparison.difference = difference;
      comparison.step = i / static_cast<std::size_t>(vocabulary);
    }
  }
}

}  // namespace

std::optional<double> Comparison::ratio() const {
  if (difference == 0.0) return std::nullopt;
  return margin / difference;
}

opmux::StatusOr<Comparison> compare(const Model& model, const opmux::Options& options,
                                    const opmux::Report& report, const Run& run) {
  Comparison comparison;
  comparison.margin = run.steps[run.smallest_margin()].margin;
  std::vector<std::string> names{kNative};
  for (const opmux::ProviderReport& provider : report.providers)
    if (provider.name != kNative && provider.name != "native_cuda") names.push_back(provider.name);

  std::vector<Run> runs;
  for (const std::string& name : names) {
    opmux::Options alone = options;
    alone.routes = {{"*", {name, kNative}}};
    if (name == kNative) alone.routes.front().second.pop_back();
    alone.strict = false;  // no provider has them all
    alone.watch = false;
    alone.on_change = nullptr;
    const auto runtime = opmux::Runtime::open(alone);
    if (!runtime.ok()) return runtime.status();
    auto operators = Operators::open(*runtime);
    if (!operators.ok()) return operators.status();
    opmux::StatusOr<Run> again = follow(model, *operators, run);
    if (!again.ok())
      return opmux::Status(again.status().code(), name + ": " + again.status().message());
    if (!served_any(*again, name)) continue;
    comparison.providers.push_back(name);
    runs.push_back(std::move(*again));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    widen(comparison, run, runs[i], model.shape.vocabulary);
    for (std::size_t j = 0; j < i; ++j) widen(comparison, runs[j], runs[i], model.shape.vocabulary);
  }
  return comparison;
}

}  // namespace decoder
