// SPDX-License-Identifier: Apache-2.0
#include "cli/html/page.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "cli/html/state.hpp"
#include "cli/html/style.hpp"
#include "cli/html/text.hpp"
#include "cli/output.hpp"

namespace opmux::cli {
namespace {

constexpr std::array<BindingState, 5> kStates{BindingState::kCallable, BindingState::kUsable,
                                              BindingState::kStub, BindingState::kNotRouted,
                                              BindingState::kRejected};

std::string style_of(BindingState state) {
  std::string name{word_for(state)};
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string term(std::string_view name, std::string_view html) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, html);
}

std::string path(std::string_view text) {
  return fmt::format("<span class=\"path\">{}</span>", html_breakable(text));
}

// A rejection, closed; `stopped` says what it stops.
std::string rejection_details(const Rejection& rejection, std::string_view stopped) {
  std::string html = fmt::format(
      "<details class=\"rejection\"><summary>{}<code>{}</code> <span class=\"path\">{}</span>"
      "</summary>\n<dl>\n",
      stopped, html_text(rejection.rule), html_breakable(rejection.subject));
  html += term("stage", html_text(rejection.stage));
  html += term("rule", html_text(rejection.rule));
  html += term("subject", html_breakable(rejection.subject));
  html += term("expected", html_breakable(rejection.expected));
  html += term("found", html_breakable(rejection.found));
  html += term("do", html_breakable(rejection.hint));
  return html + "</dl></details>\n";
}

std::string place_in_words(const OperatorReport& report, const BindingReport& binding) {
  const std::size_t place = route_place(report, binding);
  if (place == 0) return html_text(binding.device);
  return fmt::format("{} {}", html_text(binding.device), place);
}

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string facts(const Report& report) {
  std::string html = "<dl>\n" + term("opmux", html_text(report.version));
  html += term("generation", std::to_string(report.generation));
  html += term("configuration", report.config_file.empty() ? "none" : path(report.config_file));
  if (report.strict) html += term("strict", "every fallback is an error");
  html += term("torch", report.torch_version.empty()
                            ? "none in use"
                            : html_text(report.torch_version) + " in " + path(report.torch_path));
  if (!report.python_version.empty())
    html += term("python", html_text(report.python_version) + ", " + path(report.python_path));
  std::string driver = report.driver.empty() ? "none: no libcuda.so.1" : path(report.driver);
  if (report.driver_cuda_version > 0)
    driver += ", CUDA " + cuda_version(report.driver_cuda_version);
  if (report.stub_driver) driver += " (validated against a stub driver)";
  html += term("driver", driver);
  for (const DeviceReport& device : report.devices)
    html +=
        term("device", fmt::format("cuda:{} {}, compute capability {}", device.index,
                                   html_text(device.name), html_text(device.compute_capability)));
  std::string environments;
  for (const EnvironmentReport& environment : report.environments)
    environments += fmt::format("<li>{} <span class=\"faint\">{}</span></li>",
                                path(environment.root), html_text(environment.origin));
  html += term("environments", environments.empty() ? "none" : "<ul>" + environments + "</ul>");
  std::string manifests;
  std::size_t read = 0;
  for (const ManifestFileReport& manifest : report.manifests) {
    if (manifest.state == "read") ++read;
    manifests += fmt::format("<li>{} <span class=\"faint\">{}</span></li>", path(manifest.path),
                             html_text(manifest.state));
  }
  html += term("manifests",
               manifests.empty()
                   ? "none"
                   : fmt::format("<details><summary>{}, {} read</summary><ul>{}</ul></details>",
                                 counted(report.manifests.size(), "file"), read, manifests));
  return html + "</dl>\n";
}

std::vector<std::string> provider_names(const Report& report) {
  std::vector<std::string> names;
  for (const ProviderReport& provider : report.providers) names.push_back(provider.name);
  for (const OperatorReport& each : report.operators)
    for (const BindingReport& binding : each.bindings)
      if (std::find(names.begin(), names.end(), binding.provider) == names.end())
        names.push_back(binding.provider);
  return names;
}

// Anchors are numbers: names are foreign.
std::string anchor(std::size_t row, std::size_t binding) {
  return fmt::format("binding-{}-{}", row, binding);
}

std::string cell(const OperatorReport& report, std::size_t row, const std::string& provider) {
  std::string html;
  for (std::size_t i = 0; i < report.bindings.size(); ++i) {
    const BindingReport& binding = report.bindings[i];
    if (binding.provider != provider) continue;
    const BindingState state = state_of(binding);
    html += fmt::format(
        "<div><a class=\"state {}\" href=\"#{}\">{}</a> <span class=\"place\">{}</span></div>",
        style_of(state), anchor(row, i), word_for(state), place_in_words(report, binding));
  }
  return html.empty() ? "<span class=\"none\">none</span>" : html;
}

std::string matrix(const Report& report) {
  const std::vector<std::string> providers = provider_names(report);
  std::string html =
      "<section class=\"matrix\" aria-labelledby=\"matrix\">\n"
      "<h2 id=\"matrix\">Providers and operators</h2>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"matrix\">\n<table>\n"
      "<caption>A number behind the device is the place in the route: 1 is tried first.</caption>\n"
      "<thead><tr><th scope=\"col\">operator</th>";
  for (const std::string& provider : providers)
    html += fmt::format("<th scope=\"col\">{}</th>", html_text(provider));
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < report.operators.size(); ++row) {
    const OperatorReport& each = report.operators[row];
    html += fmt::format("<tr><th scope=\"row\"><a href=\"#operator-{}\">{}</a></th>", row,
                        html_text(each.name));
    for (const std::string& provider : providers)
      html += "<td>" + cell(each, row, provider) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n</div>\n</section>\n";
}

std::string legend() {
  std::string html = "<div class=\"legend\">\n";
  for (const BindingState state : kStates)
    html += fmt::format("<span><span class=\"state {}\">{}</span></span><span>{}</span>\n",
                        style_of(state), word_for(state), meaning_of(state));
  return html + "</div>\n";
}

std::string alternatives(const BindingReport& binding) {
  if (binding.alternatives.empty()) return {};
  std::string html = fmt::format("<details><summary>{} that lost</summary>\n<ul>\n",
                                 counted(binding.alternatives.size(), "alternative"));
  for (const AlternativeReport& each : binding.alternatives) {
    html += fmt::format("<li>{}, {}: {}", html_text(each.contract),
                        each.library ? path(*each.library) : "no library",
                        each.usable ? "usable, but an earlier one was taken" : "rejected");
    if (each.rejection) html += "\n" + rejection_details(*each.rejection, "");
    html += "</li>\n";
  }
  return html + "</ul></details>\n";
}

std::string binding_item(const OperatorReport& report, std::size_t row, std::size_t index) {
  const BindingReport& binding = report.bindings[index];
  const BindingState state = state_of(binding);
  std::string html = fmt::format(
      "<li id=\"{}\"><div class=\"line\"><strong>{}</strong><span class=\"state {}\">{}</span>"
      "<span class=\"place\">{}{}</span></div>\n",
      anchor(row, index), html_text(binding.provider), style_of(state), word_for(state),
      html_text(binding.device),
      route_place(report, binding) == 0
          ? ""
          : fmt::format(", place {} in the route", route_place(report, binding)));
  if (binding.library)
    html += fmt::format("<div class=\"faint\">{}{}</div>\n",
                        binding.distribution.empty() ? "" : html_text(binding.distribution) + ": ",
                        path(*binding.library));
  else if (binding.usable)
    html += "<div class=\"faint\">part of opmux</div>\n";
  if (binding.rejection) html += rejection_details(*binding.rejection, "");
  html += alternatives(binding);
  if (!binding.conditions.empty()) {
    html += fmt::format("<details><summary>{}</summary><ul>\n",
                        counted(binding.conditions.size(), "condition"));
    for (const std::string& condition : binding.conditions)
      html += "<li>" + html_breakable(condition) + "</li>\n";
    html += "</ul></details>\n";
  }
  return html + "</li>\n";
}

std::string operator_sections(const Report& report) {
  std::string html =
      "<section aria-labelledby=\"operators\">\n<h2 id=\"operators\">Operators</h2>\n";
  for (std::size_t row = 0; row < report.operators.size(); ++row) {
    const OperatorReport& each = report.operators[row];
    html += fmt::format(
        "<article class=\"operator\" id=\"operator-{}\" aria-labelledby=\"name-{}\">\n"
        "<h3 id=\"name-{}\">{}</h3>\n<p class=\"faint\">{}</p>\n"
        "<details><summary>schema</summary><code>{}</code></details>\n",
        row, row, row, html_breakable(each.name), html_text(each.summary),
        html_breakable(each.schema));
    if (each.bindings.empty())
      html += "<p>No provider: no native kernel, and no manifest binds it.</p>\n";
    else
      html += "<ul class=\"bindings\">\n";
    for (std::size_t i = 0; i < each.bindings.size(); ++i) html += binding_item(each, row, i);
    html += each.bindings.empty() ? "</article>\n" : "</ul>\n</article>\n";
  }
  return html + "</section>\n";
}

std::string other_rejections(const Report& report) {
  if (report.rejections.empty()) return {};
  std::string html =
      "<section aria-labelledby=\"rejections\">\n"
      "<h2 id=\"rejections\">Manifests, configuration and environments</h2>\n<ul "
      "class=\"bindings\">\n";
  for (const Rejection& rejection : report.rejections)
    html += "<li>" +
            rejection_details(rejection, "<span class=\"state rejected\">rejected</span> ") +
            "</li>\n";
  return html + "</ul>\n</section>\n";
}

}  // namespace

std::string html_page(const Report& report) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // A browser refuses whatever would come from elsewhere, and every script.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>opmux: providers and operators</title>\n<style>";
  html += kStyle;
  html += "</style>\n</head>\n<body>\n<header>\n<h1>opmux: who serves which operator</h1>\n";
  html += facts(report);
  html += "</header>\n<main>\n";
  html += other_rejections(report);
  html += matrix(report);
  html += legend();
  html += operator_sections(report);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace opmux::cli
