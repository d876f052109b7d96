// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "core/runtime/modules.hpp"
#include "core/runtime/state.hpp"
#include "core/runtime/version.hpp"

namespace opmux {
namespace {

BindingReport report_binding(const Preparation& preparation, const RoutePolicy& policy,
                             const Registry& registry, std::size_t index, bool routed) {
  const Verdict& verdict = preparation.verdicts[index];
  BindingReport report;
  report.provider = preparation.manifests.providers[verdict.provider].provider;
  report.device = verdict.device;
  report.contract = contract_name(verdict.alternative->contract);
  if (verdict.library) {
    report.library = verdict.library->path.string();
    if (!verdict.library->distribution.empty()) {
      report.distribution = verdict.library->distribution + " " + verdict.library->version;
    }
  } else if (std::holds_alternative<ModuleContract>(verdict.alternative->contract) &&
             !preparation.plan.providers[verdict.provider].module.empty()) {
    report.library = preparation.plan.providers[verdict.provider].module.string();
  }
  report.rejection = verdict.rejection;
  // Asked of what the route would call otherwise.
  if (!report.rejection && routed) {
    report.rejection = policy.check_properties(verdict.operator_name, report.provider,
                                               verdict.device, verdict.properties);
  }
  report.usable = !report.rejection;
  report.callable = report.usable && preparation.bindings.calls[index] != nullptr;
  report.stub_driver = verdict.stub_driver;
  report.routed = routed;
  for (const Condition& condition : verdict.alternative->when)
    report.conditions.push_back(condition.text);
  report.properties = names_of(verdict.properties);
  if (const BoundCall* call = preparation.bindings.calls[index]) report.copies = call->copies;
  report.alternatives = verdict.lost;
  const std::uint32_t counter = preparation.bindings.counters[index];
  if (policy.settings(verdict.operator_name).quarantine.failures > 0) {
    report.quarantine = registry.record_of(counter)->health.rejection(
        verdict.operator_name + ": " + report.provider, registry.now());
  }
  const BindingCounts counts = registry.counters().sum(counter);
  report.calls = counts.calls;
  report.refused_by_condition = counts.refused_by_condition;
  report.refused_by_provider = counts.refused_by_provider;
  report.refused = counts.refused_by_condition + counts.refused_by_provider;
  report.quarantined = counts.quarantined;
  report.errors = counts.errors;
  report.copied = counts.calls * report.copies;
  report.shadow_calls = counts.shadow_calls;
  report.shadow_differences = counts.shadow_differences;
  report.shadow_errors = counts.shadow_errors;
  return report;
}

OperatorReport report_operator(const Preparation& preparation, const RoutePolicy& policy,
                               const Registry& registry, const OperatorDeclaration& declaration) {
  OperatorReport report{declaration.name, declaration.schema_text, declaration.summary, {}};
  const std::vector<std::size_t> cpu = policy.order(declaration.name, "cpu");
  const std::vector<std::size_t> cuda = policy.order(declaration.name, "cuda");
  // An empty device stands for both.
  const auto add = [&](std::size_t provider, std::string_view device, bool routed) {
    for (std::size_t index = 0; index < preparation.verdicts.size(); ++index) {
      const Verdict& verdict = preparation.verdicts[index];
      if (verdict.provider == provider && verdict.operator_name == declaration.name &&
          (device.empty() || verdict.device == device)) {
        report.bindings.push_back(report_binding(preparation, policy, registry, index, routed));
      }
    }
  };
  const auto add_route = [&](const std::vector<std::size_t>& order, std::string_view device) {
    for (const std::size_t provider : order) add(provider, device, true);
  };
  const auto add_rest = [&](const std::vector<std::size_t>& order, std::string_view device) {
    for (std::size_t provider = 0; provider < preparation.manifests.providers.size(); ++provider) {
      if (std::find(order.begin(), order.end(), provider) == order.end())
        add(provider, device, false);
    }
  };
  if (cpu == cuda) {
    add_route(cpu, "");
    add_rest(cpu, "");
  } else {
    add_route(cpu, "cpu");
    add_route(cuda, "cuda");
    add_rest(cpu, "cpu");
    add_rest(cuda, "cuda");
  }
  return report;
}

ProviderReport report_provider(const Preparation& preparation, std::size_t index) {
  const ProviderPlan& plan = preparation.plan.providers[index];
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
  for (const Verdict& verdict : preparation.verdicts) {
    if (verdict.provider != index) continue;
    ++(verdict.rejection ? report.rejected : report.usable);
  }
  return report;
}

}  // namespace

Report make_report(const Runtime::State& runtime) {
  const Published published = runtime.published();
  const Preparation& preparation = *published.preparation;
  Report report;
  report.version = kVersion;
  report.process_id = getpid();
  std::error_code error;
  report.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  report.report_socket = runtime.report_socket().string();
  const Generation& generation = *published.generation;
  report.generation = generation.number;
  report.strict = generation.strict;
  report.stub_driver = !preparation.host.stub_driver.empty();
  report.config_file = preparation.config.file.string();
  if (preparation.is_complete) report.lock_file = preparation.lock_file.string();
  report.trust = preparation.config.trust == Trust::kStrict ? "strict" : "lax";
  if (preparation.load_set.python) {
    report.python_version = preparation.load_set.python->version;
    report.python_path = preparation.load_set.python->path.string();
  }
  if (preparation.plan.torch) {
    report.torch_version = preparation.plan.torch->version;
    report.torch_path = preparation.plan.torch->root.string();
    report.cuda_version = preparation.plan.torch->cuda;
  }
  report.driver = preparation.host.driver.string();
  report.driver_cuda_version = preparation.findings.cuda_driver_version;
  for (const DeviceFinding& device : preparation.findings.devices) {
    report.devices.push_back({device.index, device.name,
                              std::to_string(device.major) + "." + std::to_string(device.minor)});
  }
  for (const PythonEnvironment& environment : preparation.environments.environments) {
    report.environments.push_back({environment.root.string(), environment.origin});
  }
  for (const ManifestSet::File& file : preparation.manifests.files)
    report.manifests.push_back({file.path.string(), file.state});
  for (std::size_t index = 0; index < preparation.plan.providers.size(); ++index) {
    report.providers.push_back(report_provider(preparation, index));
  }
  for (const OperatorDeclaration& declaration : preparation.manifests.declarations) {
    report.operators.push_back(
        report_operator(preparation, *published.policy, runtime.registry(), declaration));
  }
  report.rejections = preparation.manifests.rejections;
  report.rejections.insert(report.rejections.end(), preparation.environments.rejections.begin(),
                           preparation.environments.rejections.end());
  report.rejections.insert(report.rejections.end(), preparation.rejections.begin(),
                           preparation.rejections.end());
  std::vector<Rejection> shadows = unusable_shadows(preparation, *published.policy);
  report.rejections.insert(report.rejections.end(), shadows.begin(), shadows.end());
  const std::vector<Rejection> own = runtime.rejections();
  report.rejections.insert(report.rejections.end(), own.begin(), own.end());
  report.modules = report_modules(&runtime.registry());
  report.history = runtime.history();
  report.ready = runtime.is_ready();
  report.probes = preparation.findings.probes;
  report.seconds = preparation.seconds;
  return report;
}

const OperatorReport* Report::find(const std::string& operator_name) const {
  for (const OperatorReport& report : operators) {
    if (report.name == operator_name) return &report;
  }
  return nullptr;
}

}  // namespace opmux
