// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/output.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

constexpr std::size_t kChangesShown = 6;
constexpr std::size_t kReasonsShown = 3;
constexpr std::size_t kModulesShown = 8;

bool serves(const BindingReport& binding) {
  return binding.callable && binding.routed && !binding.quarantine;
}

// The first of its device that takes calls.
bool is_first_to_serve(const OperatorReport& report, const BindingReport& binding) {
  if (!serves(binding)) return false;
  const auto first = std::find_if(
      report.bindings.begin(), report.bindings.end(),
      [&](const BindingReport& each) { return each.device == binding.device && serves(each); });
  return &*first == &binding;
}

bool has_counts(const BindingReport& binding) {
  return binding.calls + binding.refused + binding.errors + binding.quarantined +
                 binding.shadow_calls + binding.shadow_errors >
             0 ||
         binding.quarantine.has_value();
}

std::vector<std::string> serving(const OperatorReport& report) {
  std::vector<std::string> names;
  for (const BindingReport& binding : report.bindings) {
    if (is_first_to_serve(report, binding)) names.push_back(binding.provider + binding.device);
  }
  return names;
}

bool is_shown(const OperatorReport& report, const Report* first) {
  if (std::any_of(report.bindings.begin(), report.bindings.end(), has_counts)) return true;
  const OperatorReport* const was = first == nullptr ? nullptr : first->find(report.name);
  return first != nullptr && (was == nullptr || serving(*was) != serving(report));
}

const BindingReport* same_binding(const Report* report, const OperatorReport& of,
                                  const BindingReport& binding) {
  const OperatorReport* const found = report == nullptr ? nullptr : report->find(of.name);
  if (found == nullptr) return nullptr;
  for (const BindingReport& each : found->bindings) {
    if (each.provider == binding.provider && each.device == binding.device &&
        each.contract == binding.contract)
      return &each;
  }
  return nullptr;
}

class Lines {
 public:
  explicit Lines(std::size_t width) : width_(width) {}

  void add(std::string_view line) { lines_.push_back(cut(line, width_)); }
  // Broken at spaces; what follows the first line is indented.
  void add_wrapped(std::string_view head, std::string_view text, Style style) {
    const std::string whole =
        std::string(head) + wrapped(text, head.size(), std::max(width_, head.size() + 20));
    for (const std::string& line : split(whole, '\n')) add(styled(style, line));
  }
  void heading(std::string_view text) {
    if (!lines_.empty()) add("");
    add(styled(Style::kBold, text));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::size_t width_;
  std::vector<std::string> lines_;
};

void add_header(Lines& lines, const Report& report, const EarlierReport& earlier) {
  lines.add(fmt::format("{}  pid {}  opmux {}", styled(Style::kBold, printable(report.program)),
                        report.process_id, printable(report.version)));
  std::string state = fmt::format("generation {}", report.generation);
  if (earlier.before != nullptr && earlier.before->generation != report.generation)
    state = styled(Style::kWarning, state + ", new");
  state += report.ready ? ", ready" : styled(Style::kWarning, ", preparing providers");
  if (report.strict) state += ", strict";
  lines.add(state);
  if (report.torch_version.empty())
    lines.add("torch       none in use");
  else
    lines.add("torch       " + printable(report.torch_version) +
              (report.cuda_version.empty() ? "" : ", CUDA " + printable(report.cuda_version)) +
              ", " + printable(report.torch_path));
  lines.add("config      " + (report.config_file.empty() ? "none" : printable(report.config_file)));
  if (report.rejections.empty()) return;
  std::vector<std::string> refused;
  for (const Rejection& rejection : report.rejections)
    refused.push_back(printable(rejection.rule + " " + rejection.subject));
  lines.add_wrapped("refused     ", join(refused, ", "), Style::kWarning);
}

std::string counted_long(std::uint64_t count, std::string_view noun) {
  return counted(static_cast<std::size_t>(count), noun);
}

void add_notes(Lines& lines, const BindingReport& binding, bool all) {
  const auto note = [&](std::string_view text, Style style = Style::kPlain) {
    lines.add_wrapped("      ", text, style);
  };
  std::vector<std::string> refused;
  if (binding.refused_by_condition > 0)
    refused.push_back(std::to_string(binding.refused_by_condition) + " by condition");
  if (binding.refused_by_provider > 0)
    refused.push_back(std::to_string(binding.refused_by_provider) + " by provider");
  if (!refused.empty()) note("fell back: " + join(refused, ", "), Style::kWarning);
  if (binding.copied > 0) note(counted_long(binding.copied, "output") + " copied");
  if (binding.errors > 0) note(counted_long(binding.errors, "call") + " failed", Style::kBad);
  if (binding.quarantine)
    note("in quarantine: " + printable(binding.quarantine->found), Style::kBad);
  if (binding.quarantined > 0)
    note(counted_long(binding.quarantined, "call") + " passed it by in quarantine",
         Style::kWarning);
  if (binding.shadow_calls + binding.shadow_errors > 0) {
    const bool is_bad = binding.shadow_differences + binding.shadow_errors > 0;
    note(fmt::format("shadow: {} compared, {} differ, {} failed", binding.shadow_calls,
                     binding.shadow_differences, binding.shadow_errors),
         is_bad ? Style::kBad : Style::kPlain);
  }
  if (!all) return;
  if (binding.rejection)
    note("rejected: " + printable(binding.rejection->rule + ": " + binding.rejection->found),
         Style::kFaint);
  else if (!binding.routed)
    note("not routed", Style::kFaint);
}

void add_operators(Lines& lines, const Report& report, const EarlierReport& earlier, bool all) {
  std::vector<const OperatorReport*> shown;
  std::size_t provider_width = 16;
  for (const OperatorReport& each : report.operators) {
    if (!all && !is_shown(each, earlier.first)) continue;
    shown.push_back(&each);
    for (const BindingReport& binding : each.bindings)
      provider_width = std::max(provider_width, printable(binding.provider).size());
  }
  const std::size_t hidden = report.operators.size() - shown.size();
  lines.heading(fmt::format("{:<{}}  DEVICE {:>9} {:>14}", "OPERATOR", provider_width + 4,
                            "CALLS/S", "CALLS"));
  for (const OperatorReport* each : shown) {
    lines.add(printable(each->name));
    std::size_t rows = 0;
    for (const BindingReport& binding : each->bindings) {
      const bool is_first = is_first_to_serve(*each, binding);
      if (!all && !is_first && !has_counts(binding)) continue;
      ++rows;
      std::string rate = "-";
      const BindingReport* const before = same_binding(earlier.before, *each, binding);
      if (before != nullptr && earlier.seconds > 0.0 && binding.calls >= before->calls)
        rate = rate_in_words(static_cast<double>(binding.calls - before->calls) / earlier.seconds);
      const std::string provider =
          fmt::format("{:<{}}", printable(binding.provider), provider_width);
      const Style style = is_first                        ? Style::kGood
                          : binding.rejection.has_value() ? Style::kFaint
                                                          : Style::kPlain;
      lines.add(fmt::format("  {} {}  {:<6} {:>9} {:>14}", is_first ? ">" : " ",
                            styled(style, provider), printable(binding.device), rate,
                            binding.calls));
      add_notes(lines, binding, all);
    }
    if (rows == 0) lines.add(styled(Style::kBad, "    nobody serves it"));
  }
  if (shown.empty()) lines.add("no operator was called yet");
  if (hidden > 0)
    lines.add(styled(Style::kFaint, counted(hidden, "operator") + " without calls: --all"));
}

void add_modules(Lines& lines, const Report& report, bool all) {
  if (report.modules.empty()) return;
  lines.heading("MODULES");
  // The newest are last and matter most.
  const std::size_t count = report.modules.size();
  const std::size_t shown = all ? count : std::min(count, kModulesShown);
  if (shown < count) lines.add(counted(count - shown, "earlier module") + ": --all");
  for (std::size_t index = count - shown; index < count; ++index) {
    const ModuleReport& module = report.modules[index];
    std::string state = printable(module.state);
    if (module.unloadable) state += fmt::format(", {} inside", module.calls_inside);
    const Style style = module.state == "active"               ? Style::kGood
                        : module.state.starts_with("draining") ? Style::kWarning
                                                               : Style::kFaint;
    lines.add(fmt::format("  {}  {}", styled(style, fmt::format("{:<10}", state)),
                          printable(module.path)));
  }
}

void add_history(Lines& lines, const Report& report, bool all) {
  if (report.history.empty()) return;
  lines.heading("HISTORY");
  const std::size_t count = report.history.size();
  const std::size_t shown = all ? count : std::min(count, kChangesShown);
  if (shown < count) lines.add(counted(count - shown, "earlier change") + ": --all");
  for (std::size_t index = count - shown; index < count; ++index) {
    const ChangeReport& change = report.history[index];
    const bool is_refused = change.outcome == "refused";
    lines.add(fmt::format("  {:>6}  {:<24}  {:<10}  {}  {:.3f} s", change.generation,
                          printable(change.time), printable(change.trigger),
                          styled(is_refused ? Style::kBad : Style::kPlain,
                                 fmt::format("{:<9}", printable(change.outcome))),
                          change.seconds));
    const std::size_t reasons =
        all ? change.reasons.size() : std::min(change.reasons.size(), kReasonsShown);
    for (std::size_t reason = 0; reason < reasons; ++reason) {
      const Rejection& rejection = change.reasons[reason];
      lines.add_wrapped("          ",
                        printable(rejection.rule) + ": " + printable(rejection.subject) +
                            ": expected " + printable(rejection.expected) + ", found " +
                            printable(rejection.found),
                        Style::kWarning);
    }
    if (reasons < change.reasons.size())
      lines.add(fmt::format("          and {} more", change.reasons.size() - reasons));
  }
}

}  // namespace

std::string rate_in_words(double per_second) {
  const auto short_form = [](double value) {
    return value < 10.0    ? fmt::format("{:.2f}", value)
           : value < 100.0 ? fmt::format("{:.1f}", value)
                           : fmt::format("{:.0f}", value);
  };
  if (per_second <= 0.0) return "0";
  if (per_second < 1000.0)
    return per_second < 100.0 ? fmt::format("{:.1f}", per_second)
                              : fmt::format("{:.0f}", per_second);
  if (per_second < 1e6) return short_form(per_second / 1e3) + "k";
  return short_form(per_second / 1e6) + "M";
}

std::string cut(std::string_view line, std::size_t width) {
  std::string kept;
  std::size_t columns = 0;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == '\033') {
      const std::size_t end = std::min(line.find('m', at), line.size() - 1) + 1;
      kept += line.substr(at, end - at);
      at = end;
      continue;
    }
    std::size_t end = at + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) ++end;
    // Codes that follow, as the one that ends a style, are kept.
    if (columns++ < width) kept += line.substr(at, end - at);
    at = end;
  }
  return kept;
}

std::vector<std::string> view(const Report& report, const EarlierReport& earlier,
                              const ViewOptions& options) {
  Lines lines(options.width);
  add_header(lines, report, earlier);
  add_operators(lines, report, earlier, options.all);
  add_modules(lines, report, options.all);
  add_history(lines, report, options.all);
  std::vector<std::string> all = lines.take();
  if (options.height > 1 && all.size() > options.height) {
    const std::size_t hidden = all.size() - (options.height - 1);
    all.resize(options.height - 1);
    all.push_back(cut(styled(Style::kFaint, fmt::format("{} below: a taller terminal, or --once",
                                                        counted(hidden, "line"))),
                      options.width));
  }
  return all;
}

}  // namespace opmux::cli
