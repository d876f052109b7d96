// SPDX-License-Identifier: Apache-2.0
#include "cli/bindings.hpp"

#include <spdlog/fmt/fmt.h>

#include <filesystem>

#include "cli/text_table.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

// Folder and file: enough to tell a provider's libraries apart.
std::string short_path(const std::string& library) {
  const std::filesystem::path path{library};
  return (path.parent_path().filename() / path.filename()).string();
}

}  // namespace

std::string where(const BindingReport& binding) {
  if (!binding.library) return binding.usable ? "part of opmux" : "";
  std::string place = short_path(*binding.library);
  if (!binding.distribution.empty()) place = binding.distribution + ": " + place;
  return place;
}

std::string verdict_in_words(const BindingReport& binding) {
  if (!binding.usable) return "rejected";
  std::string verdict = "usable";
  if (binding.stub_driver) verdict += ", stub driver";
  if (!binding.routed) verdict += ", not routed";
  return verdict;
}

std::string binding_table(const Report& report, RejectionList& rejections) {
  TextTable table({"OPERATOR", "PROVIDER", "DEVICE", "VERDICT", "WHERE"});
  for (const OperatorReport& each : report.operators) {
    if (each.bindings.empty()) {
      table.add({each.name, "-", "-", Cell{"no provider", Style::kWarning},
                 Cell{"no native kernel, and no manifest binds it", Style::kFaint}});
      continue;
    }
    bool is_first = true;
    for (const BindingReport& binding : each.bindings) {
      std::string verdict = verdict_in_words(binding);
      if (binding.rejection) verdict += fmt::format(" [{}]", rejections.add(*binding.rejection));
      const Style style = !binding.usable       ? Style::kBad
                          : binding.stub_driver ? Style::kWarning
                                                : Style::kGood;
      table.add({is_first ? each.name : "", binding.provider, binding.device,
                 Cell{std::move(verdict), style}, where(binding)});
      is_first = false;
    }
  }
  return table.to_string();
}

void print_machine(const Report& report) {
  const auto line = [](std::string_view what, std::string_view text) {
    print(fmt::format("{:<13}{}", what, text));
  };
  if (report.environments.empty()) line("environment", "none");
  for (const EnvironmentReport& environment : report.environments)
    line("environment", printable(environment.root) + " (" + environment.origin + ")");
  if (report.torch_version.empty())
    line("torch", "none in use");
  else
    line("torch", report.torch_version + " in " + printable(report.torch_path));
  if (!report.python_version.empty())
    line("python", report.python_version + ", " + printable(report.python_path) +
                       ", mapped for true Python extensions");
  if (report.driver.empty()) {
    line("driver", "none: no libcuda.so.1");
  } else {
    std::string driver = printable(report.driver);
    if (report.driver_cuda_version > 0)
      driver += fmt::format(", CUDA {}.{}", report.driver_cuda_version / 1000,
                            report.driver_cuda_version % 1000 / 10);
    line("driver", driver);
  }
  for (const DeviceReport& device : report.devices)
    line("device", fmt::format("cuda:{} {}, compute capability {}", device.index,
                               printable(device.name), device.compute_capability));
  if (report.stub_driver)
    line("note", "validated against a stub driver: nothing here can be called");
}

}  // namespace opmux::cli
