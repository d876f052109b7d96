// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <variant>

#include "core/runtime/state.hpp"
#include "core/runtime/version.hpp"

namespace opmux {
namespace {

BindingReport report_binding(const Runtime::State& state, std::size_t index, bool routed) {
  const Verdict& verdict = state.verdicts[index];
  BindingReport report;
  report.provider = state.manifests.providers[verdict.provider].provider;
  report.device = verdict.device;
  report.contract = contract_name(verdict.alternative->contract);
  if (verdict.library) {
    report.library = verdict.library->path.string();
    if (!verdict.library->distribution.empty()) {
      report.distribution = verdict.library->distribution + " " + verdict.library->version;
    }
  } else if (std::holds_alternative<ModuleContract>(verdict.alternative->contract) &&
             !state.plan.providers[verdict.provider].module.empty()) {
    report.library = state.plan.providers[verdict.provider].module.string();
  }
  report.usable = !verdict.rejection;
  report.callable = state.bindings.calls[index] != nullptr;
  report.stub_driver = verdict.stub_driver;
  report.routed = routed;
  report.rejection = verdict.rejection;
  for (const Condition& condition : verdict.alternative->when)
    report.conditions.push_back(condition.text);
  report.copies = state.bindings.copies[index];
  report.alternatives = verdict.lost;
  const BindingCounts counts = state.registry->counters().sum(static_cast<std::uint32_t>(index));
  report.calls = counts.calls;
  report.refused = counts.refused;
  report.errors = counts.errors;
  return report;
}

OperatorReport report_operator(const Runtime::State& state,
                               const OperatorDeclaration& declaration) {
  OperatorReport report{declaration.name, declaration.schema_text, declaration.summary, {}};
  const std::vector<std::size_t> order = state.policy->order(declaration.name);
  const auto add = [&](std::size_t provider, bool routed) {
    for (std::size_t index = 0; index < state.verdicts.size(); ++index) {
      const Verdict& verdict = state.verdicts[index];
      if (verdict.provider == provider && verdict.operator_name == declaration.name) {
        report.bindings.push_back(report_binding(state, index, routed));
      }
    }
  };
  for (const std::size_t provider : order) add(provider, true);
  for (std::size_t provider = 0; provider < state.manifests.providers.size(); ++provider) {
    if (std::find(order.begin(), order.end(), provider) == order.end()) add(provider, false);
  }
  return report;
}

ProviderReport report_provider(const Runtime::State& state, std::size_t index) {
  const ProviderPlan& plan = state.plan.providers[index];
  ProviderReport report;
  report.name = plan.manifest->provider;
  report.manifest = plan.manifest->file.string();
  report.module = plan.module.string();
  report.priority = plan.manifest->priority;
  for (const LibraryPlan& library : plan.libraries) {
    for (const CandidatePlan& candidate : library.candidates) {
      if (candidate.found) report.libraries.push_back(candidate.found->path.string());
    }
  }
  for (const Verdict& verdict : state.verdicts) {
    if (verdict.provider != index) continue;
    ++(verdict.rejection ? report.rejected : report.usable);
  }
  return report;
}

}  // namespace

Report make_report(const Runtime::State& state) {
  Report report;
  report.version = kVersion;
  const Generation& generation = state.registry->current();
  report.generation = generation.number;
  report.strict = generation.strict;
  report.stub_driver = !state.host.stub_driver.empty();
  report.config_file = state.config.file.string();
  if (state.load_set.python) {
    report.python_version = state.load_set.python->version;
    report.python_path = state.load_set.python->path.string();
  }
  if (state.plan.torch) {
    report.torch_version = state.plan.torch->version;
    report.torch_path = state.plan.torch->root.string();
    report.cuda_version = state.plan.torch->cuda;
  }
  report.driver = state.host.driver.string();
  report.driver_cuda_version = state.findings.cuda_driver_version;
  for (const DeviceFinding& device : state.findings.devices) {
    report.devices.push_back({device.index, device.name,
                              std::to_string(device.major) + "." + std::to_string(device.minor)});
  }
  for (const PythonEnvironment& environment : state.environments.environments) {
    report.environments.push_back({environment.root.string(), environment.origin});
  }
  for (const ManifestSet::File& file : state.manifests.files)
    report.manifests.push_back({file.path.string(), file.state});
  for (std::size_t index = 0; index < state.plan.providers.size(); ++index) {
    report.providers.push_back(report_provider(state, index));
  }
  for (const OperatorDeclaration& declaration : state.manifests.declarations) {
    report.operators.push_back(report_operator(state, declaration));
  }
  report.rejections = state.manifests.rejections;
  report.rejections.insert(report.rejections.end(), state.environments.rejections.begin(),
                           state.environments.rejections.end());
  report.rejections.insert(report.rejections.end(), state.rejections.begin(),
                           state.rejections.end());
  report.probes = state.findings.probes;
  report.seconds = state.seconds;
  return report;
}

const OperatorReport* Report::find(const std::string& operator_name) const {
  for (const OperatorReport& report : operators) {
    if (report.name == operator_name) return &report;
  }
  return nullptr;
}

}  // namespace opmux
