// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

namespace decoder {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& json) {
  // Names of providers and paths are foreign bytes.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

// That of the step's last call: generations only grow.
std::uint64_t generation_of(const Step& step) {
  std::uint64_t generation = 0;
  for (const std::vector<Served>& served : step.served)
    for (const Served& each : served)
      if (each.generation > generation) generation = each.generation;
  return generation;
}

ordered_json served_in(const Step& step) {
  ordered_json operators = ordered_json::object();
  for (std::size_t i = 0; i < kOperatorNames.size(); ++i) {
    ordered_json list = ordered_json::array();
    for (const Served& each : step.served[i])
      list.push_back(
          {{"provider", each.provider}, {"generation", each.generation}, {"calls", each.calls}});
    operators[kOperatorNames[i]] = std::move(list);
  }
  return operators;
}

ordered_json as_json(const opmux::Rejection& rejection) {
  return {{"stage", rejection.stage},     {"rule", rejection.rule},
          {"subject", rejection.subject}, {"expected", rejection.expected},
          {"found", rejection.found},     {"hint", rejection.hint}};
}

void add_error(ordered_json& json, const opmux::Status& status) {
  json["error"] = status.message();
  json["rejection"] = nullptr;
  if (const opmux::Rejection* rejection = status.rejection())
    json["rejection"] = as_json(*rejection);
}

ordered_json changes_in(const opmux::Report& report) {
  ordered_json changes = ordered_json::array();
  for (const opmux::ChangeReport& change : report.history) {
    ordered_json reasons = ordered_json::array();
    for (const opmux::Rejection& reason : change.reasons) reasons.push_back(as_json(reason));
    changes.push_back({{"generation", change.generation},
                       {"trigger", change.trigger},
                       {"outcome", change.outcome},
                       {"reasons", std::move(reasons)}});
  }
  return changes;
}

}  // namespace

std::string to_line(std::size_t index, const Step& step) {
  std::string line = format("step %4zu  token %4lld  margin %.6f  generation %llu ", index,
                            static_cast<long long>(step.token), step.margin,
                            static_cast<unsigned long long>(generation_of(step)));
  for (std::size_t i = 0; i < kOperatorNames.size(); ++i) {
    line += std::string{" "} + kOperatorNames[i] + "=";
    for (const Served& each : step.served[i])
      line += (&each == &step.served[i].front() ? "" : ",") + each.provider;
  }
  return line;
}

std::string to_line(const opmux::ChangeReport& change) {
  std::string line = "change: generation " + std::to_string(change.generation) + ", " +
                     change.trigger + ", " + change.outcome;
  for (const opmux::Rejection& reason : change.reasons) line += "; " + opmux::to_string(reason);
  return line;
}

std::string to_text(const Run& run, const std::optional<Comparison>& comparison) {
  std::string text = "tokens";
  std::set<std::int64_t> distinct;
  for (const Step& step : run.steps) {
    text += ' ' + std::to_string(step.token);
    distinct.insert(step.token);
  }
  const std::size_t smallest = run.smallest_margin();
  text += format("\n%zu tokens, %zu of them distinct; smallest top-1 margin %.6g, at step %zu",
                 run.steps.size(), distinct.size(), run.steps[smallest].margin, smallest);
  if (!comparison) return text;
  text += "\ncompared ";
  for (const std::string& provider : comparison->providers)
    text += (&provider == &comparison->providers.front() ? "" : ", ") + provider;
  if (comparison->providers.size() < 2) text += "; no other provider serves here";
  text += format("\nlargest difference of a logit %.6g, at step %zu", comparison->difference,
                 comparison->step);
  if (const auto ratio = comparison->ratio())
    text += format("; the margin is %.4g times as large", *ratio);
  return text;
}

std::string to_json(const Model& model, std::uint64_t seed, const Run& run,
                    const std::optional<Comparison>& comparison, const opmux::Report& report,
                    const opmux::Status& status) {
  ordered_json tokens = ordered_json::array();
  ordered_json steps = ordered_json::array();
  for (const Step& step : run.steps) {
    tokens.push_back(step.token);
    steps.push_back({{"token", step.token},
                     {"margin", step.margin},
                     {"generation", generation_of(step)},
                     {"operators", served_in(step)}});
  }
  ordered_json margin;
  if (!run.steps.empty()) {
    const std::size_t smallest = run.smallest_margin();
    margin = {{"value", run.steps[smallest].margin}, {"step", smallest}};
  }
  ordered_json json{{"seed", seed},
                    {"layers", model.shape.layers},
                    {"hidden", model.shape.hidden},
                    {"vocabulary", model.shape.vocabulary},
                    {"tokens", std::move(tokens)},
                    {"smallest_margin", std::move(margin)},
                    {"comparison", nullptr},
                    {"changes", changes_in(report)},
                    {"steps", std::move(steps)}};
  if (comparison) {
    const auto ratio = comparison->ratio();
    json["comparison"] = {{"providers", comparison->providers},
                          {"largest_difference", comparison->difference},
                          {"step", comparison->step},
                          {"ratio", ratio ? ordered_json(*ratio) : ordered_json()},
                          {"least_ratio", kLeastRatio},
                          {"holds", comparison->holds()}};
  }
  if (!status.ok()) add_error(json, status);
  return dump(json);
}

std::string to_json(const opmux::Status& status) {
  ordered_json json;
  add_error(json, status);
  return dump(json);
}

}  // namespace decoder
