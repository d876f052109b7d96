// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/read_report.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

using Json = nlohmann::json;

constexpr int kForm = 1;

// Null where there is no such field.
const Json& field(const Json& json, const char* key) {
  static const Json null;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? null : *found;
}

void read(const Json& json, std::string& text) {
  if (json.is_string()) text = json.get<std::string>();
}
void read(const Json& json, bool& flag) {
  if (json.is_boolean()) flag = json.get<bool>();
}
void read(const Json& json, double& number) {
  if (json.is_number()) number = json.get<double>();
}
template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
void read(const Json& json, Integer& number) {
  if (json.is_number_integer()) number = json.get<Integer>();
}
void read(const Json& json, Rejection& rejection) {
  read(field(json, "stage"), rejection.stage);
  read(field(json, "rule"), rejection.rule);
  read(field(json, "subject"), rejection.subject);
  read(field(json, "expected"), rejection.expected);
  read(field(json, "found"), rejection.found);
  read(field(json, "hint"), rejection.hint);
}
void read(const Json& json, std::optional<Rejection>& rejection) {
  if (json.is_object()) read(json, rejection.emplace());
}
void read(const Json& json, BindingReport& binding);
void read(const Json& json, OperatorReport& report);
void read(const Json& json, ModuleReport& module);
void read(const Json& json, ChangeReport& change);

template <class T>
void read_all(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) return;
  for (const Json& each : json) read(each, values.emplace_back());
}

void read(const Json& json, BindingReport& binding) {
  std::string verdict;
  read(field(json, "verdict"), verdict);
  binding.usable = verdict == "usable";
  read(field(json, "provider"), binding.provider);
  read(field(json, "device"), binding.device);
  read(field(json, "contract"), binding.contract);
  read(field(json, "distribution"), binding.distribution);
  read(field(json, "rejection"), binding.rejection);
  read(field(json, "callable"), binding.callable);
  read(field(json, "routed"), binding.routed);
  read(field(json, "copies"), binding.copies);
  read(field(json, "calls"), binding.calls);
  read(field(json, "refused"), binding.refused);
  read(field(json, "refused_by_condition"), binding.refused_by_condition);
  read(field(json, "refused_by_provider"), binding.refused_by_provider);
  read(field(json, "quarantined"), binding.quarantined);
  read(field(json, "quarantine"), binding.quarantine);
  read(field(json, "errors"), binding.errors);
  read(field(json, "copied"), binding.copied);
  read(field(json, "shadow_calls"), binding.shadow_calls);
  read(field(json, "shadow_differences"), binding.shadow_differences);
  read(field(json, "shadow_errors"), binding.shadow_errors);
}

void read(const Json& json, OperatorReport& report) {
  read(field(json, "name"), report.name);
  read_all(field(json, "bindings"), report.bindings);
}

void read(const Json& json, ModuleReport& module) {
  read(field(json, "path"), module.path);
  read(field(json, "state"), module.state);
  read(field(json, "unloadable"), module.unloadable);
  read(field(json, "calls_inside"), module.calls_inside);
}

void read(const Json& json, ChangeReport& change) {
  read(field(json, "generation"), change.generation);
  read(field(json, "trigger"), change.trigger);
  read(field(json, "outcome"), change.outcome);
  read_all(field(json, "reasons"), change.reasons);
  read(field(json, "time"), change.time);
  read(field(json, "seconds"), change.seconds);
  read(field(json, "publish_seconds"), change.publish_seconds);
}

}  // namespace

ReadReport read_report(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return {std::nullopt, text.empty() ? "it closed without an answer" : "its answer is no report"};
  Report report;
  read(field(json, "version"), report.version);
  const Json& form = field(json, "report");
  if (!form.is_number_integer()) {
    std::string error;
    read(field(json, "error"), error);
    return {std::nullopt,
            error.empty() ? "its answer is no report of opmux" : "it answers: " + printable(error)};
  }
  if (form != kForm) {
    return {std::nullopt, "its report has form " + form.dump() + ", and this opmux reads form " +
                              std::to_string(kForm) + ": use `opmux` of its version, " +
                              (report.version.empty() ? "a newer one" : printable(report.version))};
  }
  read(field(field(json, "process"), "id"), report.process_id);
  read(field(field(json, "process"), "program"), report.program);
  read(field(json, "report_socket"), report.report_socket);
  read(field(json, "generation"), report.generation);
  read(field(json, "ready"), report.ready);
  read(field(json, "strict"), report.strict);
  read(field(json, "config_file"), report.config_file);
  read(field(json, "lock_file"), report.lock_file);
  read(field(json, "trust"), report.trust);
  read(field(field(json, "torch"), "version"), report.torch_version);
  read(field(field(json, "torch"), "path"), report.torch_path);
  read(field(field(json, "torch"), "cuda"), report.cuda_version);
  read_all(field(json, "operators"), report.operators);
  read_all(field(json, "rejections"), report.rejections);
  read_all(field(json, "modules"), report.modules);
  read_all(field(json, "history"), report.history);
  return {std::move(report), {}};
}

}  // namespace opmux::cli
