// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <vector>

#include "cli/bindings.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

void explain_binding(const BindingReport& binding, std::size_t place) {
  const Style style = binding.usable ? Style::kGood : Style::kBad;
  print(fmt::format("{}. {} on {}: {}", place, styled(Style::kBold, binding.provider),
                    binding.device, styled(style, verdict_in_words(binding))));
  if (binding.library) print("   library    " + printable(*binding.library));
  if (!binding.distribution.empty()) print("   from       " + binding.distribution);
  print("   contract   " + binding.contract);
  for (const std::string& condition : binding.conditions)
    print("   takes      " + wrapped(printable(condition), 14));
  if (!binding.properties.empty()) print("   properties " + join(binding.properties, ", "));
  if (binding.copies > 0)
    print("   copies     " + counted(binding.copies, "output") + " on every call");
  if (binding.calls + binding.refused + binding.errors > 0)
    print(fmt::format("   calls      {} served, {} refused, {} failed", binding.calls,
                      binding.refused, binding.errors));
  if (binding.shadow_calls + binding.shadow_errors > 0)
    print(fmt::format("   shadow     {} compared, {} differ, {} failed", binding.shadow_calls,
                      binding.shadow_differences, binding.shadow_errors));
  if (binding.quarantine) {
    print("   left out, for now");
    print_rejection(*binding.quarantine, 5);
  }
  if (binding.rejection) {
    print("   because");
    print_rejection(*binding.rejection, 5);
  }
  for (const AlternativeReport& alternative : binding.alternatives) {
    const std::string library =
        alternative.library ? " in " + printable(*alternative.library) : std::string{};
    print(fmt::format("   alternative: {}{}: {}", alternative.contract, library,
                      alternative.usable ? "usable, but an earlier one is in use" : "rejected"));
    if (!alternative.rejection) continue;
    if (binding.rejection && to_string(*binding.rejection) == to_string(*alternative.rejection))
      print("     for the same reason");
    else
      print_rejection(*alternative.rejection, 5);
  }
}

// Of files and environments, which may be why a provider is not among the bindings.
void print_general_rejections(const Report& report) {
  RejectionList rejections;
  for (const Rejection& rejection : report.rejections) rejections.add(rejection);
  if (rejections.empty()) return;
  print("");
  print("Refused besides, whatever the operator:");
  rejections.print();
}

}  // namespace

int explain(const CommonOptions& common, const std::string& operator_name) {
  Options options = runtime_options(common);
  options.load = false;
  const StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  Report report = runtime->report();

  std::vector<std::string> names;
  std::vector<OperatorReport> kept;
  for (const OperatorReport& each : report.operators) {
    names.push_back(each.name);
    if (each.name == operator_name) kept.push_back(each);
  }
  if (kept.empty()) {
    const std::string near = nearest(operator_name, names);
    return usage_error(
        "no operator is named `" + printable(operator_name) + "`. " + did_you_mean(near),
        near.empty() ? "Type `opmux list` to see all." : "Type `opmux explain " + near + "`.");
  }
  report.operators = std::move(kept);
  if (common.json) {
    print(to_json(report));
    return kFine;
  }

  const OperatorReport& found = report.operators.front();
  print(styled(Style::kBold, found.name) +
        (found.summary.empty() ? "" : ": " + printable(found.summary)));
  print(wrapped(found.schema, 2));
  print("");
  if (found.bindings.empty()) {
    print("No manifest binds this operator and there is no native kernel: a call is an error.");
    print_general_rejections(report);
    return kFine;
  }
  print("A call goes to the first that is usable on its device and takes it:");
  for (std::size_t i = 0; i < found.bindings.size(); ++i) explain_binding(found.bindings[i], i + 1);
  bool has_native = false;
  for (const BindingReport& binding : found.bindings)
    has_native = has_native || binding.provider.starts_with("native");
  if (!has_native) print("There is no native kernel behind them.");
  print_general_rejections(report);
  return kFine;
}

}  // namespace opmux::cli
