// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "opmux/report.hpp"

namespace opmux {
namespace {

using Json = nlohmann::ordered_json;

Json to_value(const std::optional<std::string>& text) { return text ? Json(*text) : Json{}; }

Json text_or_null(const std::string& text) { return text.empty() ? Json{} : Json(text); }

Json to_value(const Rejection& rejection) {
  return {{"stage", rejection.stage},     {"rule", rejection.rule},
          {"subject", rejection.subject}, {"expected", rejection.expected},
          {"found", rejection.found},     {"hint", rejection.hint}};
}

const char* verdict_of(bool usable) { return usable ? "usable" : "rejected"; }

Json to_value(const AlternativeReport& alternative) {
  Json json{{"library", to_value(alternative.library)},
            {"contract", alternative.contract},
            {"verdict", verdict_of(alternative.usable)}};
  if (alternative.rejection) json["rejection"] = to_value(*alternative.rejection);
  return json;
}

Json to_value(const BindingReport& binding) {
  Json json{{"provider", binding.provider},
            {"device", binding.device},
            {"library", to_value(binding.library)},
            {"contract", binding.contract},
            {"verdict", verdict_of(binding.usable)}};
  if (binding.rejection) json["rejection"] = to_value(*binding.rejection);
  json["stub_driver"] = binding.stub_driver;
  json["callable"] = binding.callable;
  json["routed"] = binding.routed;
  json["distribution"] = text_or_null(binding.distribution);
  json["conditions"] = binding.conditions;
  json["properties"] = binding.properties;
  json["copies"] = binding.copies;
  json["alternatives"] = Json::array();
  for (const AlternativeReport& alternative : binding.alternatives)
    json["alternatives"].push_back(to_value(alternative));
  json["calls"] = binding.calls;
  json["refused"] = binding.refused;
  json["refused_by_condition"] = binding.refused_by_condition;
  json["refused_by_provider"] = binding.refused_by_provider;
  json["quarantined"] = binding.quarantined;
  json["quarantine"] = binding.quarantine ? to_value(*binding.quarantine) : Json{};
  json["errors"] = binding.errors;
  json["copied"] = binding.copied;
  json["shadow_calls"] = binding.shadow_calls;
  json["shadow_differences"] = binding.shadow_differences;
  json["shadow_errors"] = binding.shadow_errors;
  return json;
}

Json to_value(const OperatorReport& report) {
  Json bindings = Json::array();
  for (const BindingReport& binding : report.bindings) bindings.push_back(to_value(binding));
  return {{"name", report.name},
          {"schema", report.schema},
          {"summary", report.summary},
          {"bindings", std::move(bindings)}};
}

Json to_value(const ProviderReport& provider) {
  return {{"name", provider.name},
          {"manifest", text_or_null(provider.manifest)},
          {"module", text_or_null(provider.module)},
          {"priority", provider.priority},
          {"libraries", provider.libraries},
          {"usable", provider.usable},
          {"rejected", provider.rejected}};
}

Json to_value(const EnvironmentReport& environment) {
  return {{"root", environment.root}, {"origin", environment.origin}};
}

Json to_value(const ManifestFileReport& manifest) {
  return {{"path", manifest.path}, {"state", manifest.state}};
}

Json to_value(const DeviceReport& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"compute_capability", device.compute_capability}};
}

Json to_value(const ModuleReport& module) {
  return {{"path", module.path},
          {"state", module.state},
          {"unloadable", module.unloadable},
          {"calls_inside", module.calls_inside}};
}

Json to_value(const ChangeReport& change) {
  Json reasons = Json::array();
  for (const Rejection& reason : change.reasons) reasons.push_back(to_value(reason));
  return {{"generation", change.generation},
          {"trigger", change.trigger},
          {"outcome", change.outcome},
          {"reasons", std::move(reasons)},
          {"time", change.time},
          {"seconds", change.seconds},
          {"publish_seconds", change.publish_seconds}};
}

template <class T>
Json array_of(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(to_value(value));
  return array;
}

}  // namespace

std::string to_json(const Report& report) {
  const Json python = report.python_version.empty()
                          ? Json(nullptr)
                          : Json{{"version", report.python_version}, {"path", report.python_path}};
  const Json torch = report.torch_version.empty()
                         ? Json{}
                         : Json{{"version", report.torch_version},
                                {"path", report.torch_path},
                                {"cuda", text_or_null(report.cuda_version)}};
  const Json driver = report.driver.empty() ? Json{}
                                            : Json{{"path", report.driver},
                                                   {"cuda_version", report.driver_cuda_version}};
  const Json json{{"report", 1},
                  {"version", report.version},
                  {"process", {{"id", report.process_id}, {"program", report.program}}},
                  {"report_socket", text_or_null(report.report_socket)},
                  {"generation", report.generation},
                  {"ready", report.ready},
                  {"strict", report.strict},
                  {"stub_driver", report.stub_driver},
                  {"config_file", text_or_null(report.config_file)},
                  {"lock_file", text_or_null(report.lock_file)},
                  {"trust", report.trust},
                  {"torch", torch},
                  {"python", python},
                  {"driver", driver},
                  {"devices", array_of(report.devices)},
                  {"environments", array_of(report.environments)},
                  {"manifests", array_of(report.manifests)},
                  {"providers", array_of(report.providers)},
                  {"operators", array_of(report.operators)},
                  {"rejections", array_of(report.rejections)},
                  {"modules", array_of(report.modules)},
                  {"history", array_of(report.history)},
                  {"probes", report.probes},
                  {"seconds", report.seconds}};
  // Paths are bytes; what is not UTF-8 in them is replaced rather than refused.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace opmux
