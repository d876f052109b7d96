// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "cli/output.hpp"
#include "cli/rejections.hpp"
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

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kShortestPath = 12;
constexpr const char* kEllipsis = "…";

class Lines {
 public:
  explicit Lines(std::size_t width) : width_(width == 0 ? kNoLimit : width) {}

  std::size_t width() const { return width_; }
  void add(std::string_view line, std::size_t indent = 2) {
    for (std::string& part : folded(line, width_, indent)) lines_.push_back(std::move(part));
  }
  // What follows the first line is indented as the text.
  void add_behind(std::string_view head, std::string_view text, Style style = Style::kPlain) {
    add(styled(style, std::string(head) + std::string(text)), columns_of(head));
  }
  void add_path(std::string_view head, const std::string& path) {
    const std::size_t used = columns_of(head);
    add(std::string(head) + room_for(path, used), used);
  }
  // The path, so that `used` columns beside it still fit.
  std::string room_for(const std::string& path, std::size_t used) const {
    if (width_ == kNoLimit) return path;
    return shortened(path, width_ > used + kShortestPath ? width_ - used : kShortestPath);
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
  const std::string behind =
      fmt::format("  pid {}  opmux {}", report.process_id, printable(report.version));
  lines.add(styled(Style::kBold, lines.room_for(printable(report.program), columns_of(behind))) +
            behind);
  std::string state = fmt::format("generation {}", report.generation);
  if (earlier.before != nullptr && earlier.before->generation != report.generation)
    state = styled(Style::kWarning, state + ", new");
  state += report.ready ? ", ready" : styled(Style::kWarning, ", preparing providers");
  if (report.strict) state += ", strict";
  lines.add(state);
  if (report.torch_version.empty()) {
    lines.add("torch       none in use");
  } else {
    const std::string torch =
        "torch       " + printable(report.torch_version) +
        (report.cuda_version.empty() ? "" : ", CUDA " + printable(report.cuda_version)) + ", ";
    lines.add(torch + lines.room_for(printable(report.torch_path), columns_of(torch)), 12);
  }
  lines.add_path("config      ",
                 report.config_file.empty() ? "none" : printable(report.config_file));
  for (const Rejection& rejection : report.rejections)
    lines.add_behind("refused     ", printable_line(in_short(rejection)), Style::kWarning);
}

std::string counted_long(std::uint64_t count, std::string_view noun) {
  return counted(static_cast<std::size_t>(count), noun);
}

void add_notes(Lines& lines, const BindingReport& binding, bool all) {
  const auto note = [&](std::string_view text, Style style = Style::kPlain) {
    lines.add_behind("      ", text, style);
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
    note("in quarantine: " + printable_line(in_short(*binding.quarantine)), Style::kBad);
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
    note("rejected: " + printable_line(in_short(*binding.rejection)), Style::kFaint);
  else if (!binding.routed)
    note("not routed", Style::kFaint);
}

// Which columns the rows of bindings have, and how wide: in a narrow terminal the device goes
// first, then the rate, and names are shortened, so that the counts stay.
struct Columns {
  std::size_t provider = 16;
  std::size_t rate = 9;
  std::size_t calls = 14;
  bool has_device = true;
  bool has_rate = true;

  std::size_t width() const {
    return 4 + provider + (has_device ? 2U + 6U : 0U) + (has_rate ? 1 + rate : 0) + 1 + calls;
  }
};

constexpr std::size_t kShortestProvider = 3;
// "CALLS/S" and "CALLS" themselves are no narrower.
constexpr std::size_t kNarrowRate = 7;
constexpr std::size_t kNarrowCalls = 5;

Columns fitting(std::size_t provider, std::size_t calls, std::size_t width) {
  Columns columns;
  columns.provider = std::max(columns.provider, provider);
  columns.calls = std::max(columns.calls, calls);
  if (columns.width() <= width) return columns;
  columns.rate = kNarrowRate;
  columns.calls = std::max(kNarrowCalls, calls);
  if (columns.width() <= width) return columns;
  const auto shorten = [&] {
    const std::size_t over = columns.width() - std::min(columns.width(), width);
    columns.provider -= std::min(over, columns.provider - kShortestProvider);
  };
  columns.provider = std::max(kShortestProvider, provider);
  if (columns.width() <= width) return columns;
  columns.has_device = false;
  if (columns.width() > width) columns.has_rate = false;
  if (columns.width() > width) shorten();
  return columns;
}

std::string row_of(const Columns& columns, std::string_view mark, std::string_view provider,
                   Style style, std::string_view device, std::string_view rate,
                   std::string_view calls) {
  const std::string name = shortened(std::string(provider), columns.provider);
  std::string row = std::string(mark) + styled(style, name) +
                    std::string(columns.provider - columns_of(name), ' ');
  if (columns.has_device) row += fmt::format("  {:<6}", device);
  if (columns.has_rate) row += fmt::format(" {:>{}}", rate, columns.rate);
  return row + fmt::format(" {:>{}}", calls, columns.calls);
}

void add_operators(Lines& lines, const Report& report, const EarlierReport& earlier, bool all) {
  std::vector<const OperatorReport*> shown;
  std::size_t provider_width = 0;
  std::size_t calls_width = 0;
  for (const OperatorReport& each : report.operators) {
    if (!all && !is_shown(each, earlier.first)) continue;
    shown.push_back(&each);
    for (const BindingReport& binding : each.bindings) {
      provider_width = std::max(provider_width, columns_of(printable(binding.provider)));
      calls_width = std::max(calls_width, std::to_string(binding.calls).size());
    }
  }
  const std::size_t hidden = report.operators.size() - shown.size();
  const Columns columns = fitting(provider_width, calls_width, lines.width());
  Columns titles = columns;  // operators' names begin where the marks of bindings do
  titles.provider += 4;
  lines.heading(row_of(titles, "", "OPERATOR", Style::kPlain, "DEVICE", "CALLS/S", "CALLS"));
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
      const Style style = is_first                        ? Style::kGood
                          : binding.rejection.has_value() ? Style::kFaint
                                                          : Style::kPlain;
      lines.add(row_of(columns, is_first ? "  > " : "    ", printable(binding.provider), style,
                       printable(binding.device), rate, std::to_string(binding.calls)),
                6);
      add_notes(lines, binding, all);
    }
    if (rows == 0) lines.add(styled(Style::kBad, "    nobody serves it"), 4);
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
    const std::string padded = fmt::format("{:<10}", state);
    lines.add(fmt::format("  {}  {}", styled(style, padded),
                          lines.room_for(printable(module.path), columns_of(padded) + 4)),
              4);
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
                          change.seconds),
              10);
    const std::size_t reasons =
        all ? change.reasons.size() : std::min(change.reasons.size(), kReasonsShown);
    for (std::size_t reason = 0; reason < reasons; ++reason)
      lines.add_behind("          ", printable_line(in_short(change.reasons[reason])),
                       Style::kWarning);
    if (reasons < change.reasons.size())
      lines.add(fmt::format("          and {} more: --all", change.reasons.size() - reasons), 10);
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

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\033') {
      at = std::min(text.find('m', at), text.size() - 1) + 1;
      continue;
    }
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U) ++columns;
    ++at;
  }
  return columns;
}

std::vector<std::string> folded(std::string_view line, std::size_t width, std::size_t indent) {
  // However narrow the terminal is, something new stands on each line.
  if (indent + 8 > width) indent = 0;
  std::vector<std::string> lines;
  std::string current;
  std::string style;        // the code that holds, if one does
  std::size_t columns = 0;  // of `current`
  std::size_t space = 0;    // where in `current` the last space is that can end the line
  std::string style_at_space;
  const auto begin_line = [&](const std::string& rest, const std::string& style_of_rest) {
    current = std::string(indent, ' ') + style_of_rest + rest;
    columns = indent + columns_of(rest);
    space = 0;
  };
  const auto end_line = [&](const std::string& text, const std::string& style_of_end) {
    lines.push_back(style_of_end.empty() ? text : text + "\033[0m");
  };
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == '\033') {
      const std::size_t end = std::min(line.find('m', at), line.size() - 1) + 1;
      const std::string code(line.substr(at, end - at));
      current += code;
      style = code == "\033[0m" ? "" : code;
      at = end;
      continue;
    }
    std::size_t end = at + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) ++end;
    if (columns == width) {
      if (line[at] == ' ') {
        end_line(current, style);
        begin_line("", style);
        at = end;
        continue;
      }
      if (space > 0) {
        const std::string rest = current.substr(space + 1);
        end_line(current.substr(0, space), style_at_space);
        begin_line(rest, style_at_space);
      } else {
        end_line(current, style);
        begin_line("", style);
      }
    }
    // Spaces that indent a line end none.
    if (line[at] == ' ' && current.find_first_not_of(' ') != std::string::npos &&
        columns > indent) {
      space = current.size();
      style_at_space = style;
    }
    current += line.substr(at, end - at);
    ++columns;
    at = end;
  }
  lines.push_back(std::move(current));
  return lines;
}

std::string shortened(const std::string& path, std::size_t width) {
  const std::size_t whole = columns_of(path);
  if (whole <= width) return path;
  if (width < 2) return width == 0 ? "" : kEllipsis;
  const std::size_t slash = path.rfind('/');
  const std::size_t name = slash == std::string::npos ? 0 : columns_of(path.substr(slash));
  // Names that are too long themselves are shortened as other text: in the middle.
  const std::size_t end = name > 0 && name < width ? name : width / 2;
  const std::size_t begin = width - 1 - end;
  std::string kept;
  std::size_t column = 0;
  bool is_told = false;
  for (const char byte : path) {
    if ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80U) ++column;
    if (column <= begin || column > whole - end) {
      kept += byte;
    } else if (!is_told) {
      kept += kEllipsis;
      is_told = true;
    }
  }
  return kept;
}

std::string footer(bool takes_keys, std::size_t width) {
  std::string text = takes_keys ? "leave with q or Ctrl-C" : "leave with Ctrl-C";
  if (columns_of(text) > width) text = takes_keys ? "leave: q" : "leave: ^C";
  return styled(Style::kFaint, text);
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
    std::string text = counted(hidden, "line") + " below";
    const std::string advice = ": a taller terminal, or --once";
    if (options.width == 0 || columns_of(text) + advice.size() <= options.width) text += advice;
    all.push_back(
        folded(styled(Style::kFaint, text), options.width == 0 ? kNoLimit : options.width, 0)
            .front());
  }
  return all;
}

}  // namespace opmux::cli
