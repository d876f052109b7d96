// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bindings.hpp"
#include "cli/calling.hpp"
#include "cli/checks.hpp"
#include "cli/command.hpp"
#include "cli/declarations.hpp"
#include "cli/output.hpp"
#include "cli/text_table.hpp"
#include "core/base/text.hpp"
#include "core/compare/floats.hpp"

namespace opmux::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kSeed = 1;

struct Trial {
  std::string operator_name;
  std::string provider;
  std::string device;
  std::string dtype;
  bool passed = false;
  std::string text;
};

// Native against its formula; anything else against native.
Trial try_binding(const Runtime& runtime, const OperatorDeclaration& declaration,
                  const BindingReport& binding, const std::string& dtype) {
  Trial trial{declaration.name, binding.provider, binding.device, dtype, false, ""};
  Place place;
  if (binding.device == "cuda") {
    place.device = Device::cuda();
    place.services = runtime.device_services(place.device);
    if (place.services == nullptr) {
      trial.text = "no mapped module offers CUDA memory";
      return trial;
    }
  }
  const StatusOr<BoxedOperator> target = runtime.boxed(declaration.name);
  if (!target.ok()) {
    trial.text = target.status().message();
    return trial;
  }
  const Result<ExampleCall> inputs = make_example(declaration, declaration.example->dims,
                                                  dtype_of(dtype).value_or(DType::kFloat32), kSeed);
  if (!inputs.ok()) {
    trial.text = to_string(inputs.rejection());
    return trial;
  }
  const StatusOr<ExampleCall> outputs = call_once(*target, binding.provider, *inputs, place);
  if (!outputs.ok()) {
    trial.text = outputs.status().message();
    return trial;
  }
  if (binding.provider == "native") {
    const CheckOutcome outcome = check_numbers(declaration, *inputs, *outputs);
    trial.passed = outcome.passed;
    trial.text = outcome.text;
    return trial;
  }
  const StatusOr<Comparison> comparison =
      compare_with_native(*target, declaration, *inputs, *outputs);
  trial.passed = comparison.ok() && comparison->within;
  trial.text = comparison.ok() ? "with native: " + in_words(*comparison, declaration)
                               : comparison.status().message();
  return trial;
}

bool has_native(const OperatorReport& report) {
  const BindingReport* native = find_binding(report, "native", "cpu");
  return native != nullptr && native->callable;
}

std::vector<Trial> try_all(const Runtime& runtime, const Report& report,
                           const std::vector<OperatorDeclaration>& declarations) {
  std::vector<Trial> trials;
  for (const OperatorReport& each : report.operators) {
    if (!has_native(each)) continue;
    for (const OperatorDeclaration& declaration : declarations) {
      if (declaration.name != each.name || !declaration.example) continue;
      for (const BindingReport& binding : each.bindings) {
        if (!binding.callable) continue;
        for (const std::string& dtype : declaration.dtypes)
          trials.push_back(try_binding(runtime, declaration, binding, dtype));
      }
    }
  }
  return trials;
}

// Who serves an operator first on a device, and why those before do not.
std::string route_in_words(const OperatorReport& report, const std::string& device) {
  std::string before;
  for (const BindingReport& binding : report.bindings) {
    if (binding.device != device) continue;
    if (binding.callable && binding.routed) return binding.provider + before;
    const std::string reason = binding.rejection ? binding.rejection->rule
                               : !binding.routed ? "not routed"
                                                 : "not mapped";
    before += (before.empty() ? "; not " : ", ") + binding.provider + " (" + reason + ")";
  }
  return before.empty() ? "" : "nobody" + before;
}

void print_routes(const Report& report) {
  TextTable table({"OPERATOR", "DEVICE", "SERVED BY"});
  for (const OperatorReport& each : report.operators) {
    bool is_first = true;
    for (const char* device : {"cpu", "cuda"}) {
      const std::string route = route_in_words(each, device);
      if (route.empty()) continue;
      const Style style = route.starts_with("nobody") ? Style::kWarning : Style::kPlain;
      table.add({is_first ? each.name : "", device, Cell{route, style}});
      is_first = false;
    }
    if (is_first)
      table.add({each.name, "-",
                 Cell{"nobody: no native kernel, no manifest binds it", Style::kWarning}});
  }
  print(table.to_string());
}

}  // namespace

int demo(const CommonOptions& common) {
  const Result<std::vector<OperatorDeclaration>> declarations = read_declarations(common);
  if (!declarations.ok()) return open_failed(Status{declarations.rejection()}, common.json);
  const StatusOr<Runtime> runtime = Runtime::open(runtime_options(common));
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  const Report report = runtime->report();
  const std::vector<Trial> trials = try_all(*runtime, report, *declarations);
  std::size_t failures = 0;
  for (const Trial& trial : trials)
    if (!trial.passed) ++failures;
  const int code = trials.empty() || failures > 0 ? kFinding : kFine;

  if (common.json) {
    Json list = Json::array();
    for (const Trial& trial : trials)
      list.push_back({{"operator", trial.operator_name},
                      {"provider", trial.provider},
                      {"device", trial.device},
                      {"dtype", trial.dtype},
                      {"passed", trial.passed},
                      {"text", trial.text}});
    Json json = Json::parse(to_json(report));
    json["calls"] = std::move(list);
    print(json.dump(2, ' ', false, Json::error_handler_t::replace));
    return code;
  }

  print(styled(Style::kBold, "What is here"));
  print_machine(report);
  for (const ProviderReport& provider : report.providers)
    print(fmt::format("{:<13}{}: {} usable, {} rejected", "provider", provider.name,
                      provider.usable, provider.rejected));
  print("");
  print(styled(Style::kBold, "Routes"));
  print_routes(report);
  RejectionList rejections;
  for (const OperatorReport& each : report.operators)
    for (const BindingReport& binding : each.bindings)
      if (binding.rejection) rejections.add(*binding.rejection);
  for (const Rejection& rejection : report.rejections) rejections.add(rejection);
  if (!rejections.empty()) {
    print("");
    print(styled(Style::kBold, "Why not"));
    rejections.print();
  }
  print("");
  print(styled(Style::kBold, "Calls"));
  TextTable table({"OPERATOR", "PROVIDER", "DEVICE", "DTYPE", "", "CHECK"});
  for (const Trial& trial : trials)
    table.add({trial.operator_name, trial.provider, trial.device, trial.dtype,
               Cell{trial.passed ? "ok" : "WRONG", trial.passed ? Style::kGood : Style::kBad},
               printable_line(trial.text)});
  print(table.to_string());
  print("");
  if (trials.empty())
    print(styled(Style::kBad, "No native operator could be called."));
  else if (failures == 0)
    print(styled(Style::kGood, fmt::format("All {} good.", counted(trials.size(), "call"))));
  else
    print(styled(Style::kBad,
                 fmt::format("{} of {} wrong.", failures, counted(trials.size(), "call"))));
  return code;
}

}  // namespace opmux::cli
