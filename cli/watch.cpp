// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/rejections.hpp"
#include "cli/text_table.hpp"
#include "cli/watch/client.hpp"
#include "cli/watch/read_report.hpp"
#include "cli/watch/screen.hpp"
#include "cli/watch/view.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using Kind = Answer::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kDeadline{5000};
// In a list one program that hangs should not hold up the others.
constexpr milliseconds kListDeadline{1000};
constexpr const char* kTurnOn =
    "Start the program with OPMUX_REPORT_SOCKET=1, or set opmux::Options::report_socket.";

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

int failed(const std::string& problem, bool json, int code = kFinding) {
  print_error(problem);
  if (json && code == kFinding) print(to_text(Json{{"error", problem}, {"rejection", nullptr}}, 2));
  return code;
}

// ---- the programs ----

std::string program_of(pid_t process) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/" + std::to_string(process) + "/exe", error);
  return error ? std::string() : program.string();
}

int list_programs(bool json) {
  const Offers found = find_offers(geteuid());
  Json programs = Json::array();
  TextTable table({"PID", "PROGRAM", "OPMUX", "GENERATION", "SOCKET"});
  for (const Offer& offer : found.offers) {
    const Answer answer = ask_for_report(offer.socket, kListDeadline);
    if (answer.kind == Kind::kGone || answer.kind == Kind::kNothing) continue;
    const ReadReport read = answer.kind == Kind::kText ? read_report(answer.text)
                                                       : ReadReport{std::nullopt, answer.problem};
    const std::string socket = offer.socket.string();
    if (read.report) {
      const Report& report = *read.report;
      programs.push_back({{"pid", report.process_id},
                          {"program", report.program},
                          {"version", report.version},
                          {"generation", report.generation},
                          {"socket", socket}});
      table.add({std::to_string(report.process_id), report.program, report.version,
                 std::to_string(report.generation), socket});
    } else {
      programs.push_back({{"pid", offer.process},
                          {"program", program_of(offer.process)},
                          {"socket", socket},
                          {"error", read.problem}});
      table.add({std::to_string(offer.process), program_of(offer.process), "-",
                 Cell{read.problem, Style::kBad}, socket});
    }
  }
  if (json) {
    Json rejections = Json::array();
    for (const Rejection& rejection : found.rejections) rejections.push_back(as_json(rejection));
    print(
        to_text(Json{{"programs", std::move(programs)}, {"rejections", std::move(rejections)}}, 2));
    return kFine;
  }
  if (table.empty())
    print(std::string("No program of this user offers its report. ") + kTurnOn);
  else
    print(table.to_string());
  for (const Rejection& rejection : found.rejections) {
    print("");
    print_rejection(rejection, 0);
  }
  return kFine;
}

// ---- the target ----

struct Target {
  fs::path socket;
  std::string name;              // for messages
  std::optional<pid_t> process;  // as it was asked for
  std::vector<fs::path> others;  // further sockets of the process
};

bool is_number(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The code with which to end where there is no target.
int find_process(const std::string& text, bool json, Target& target) {
  pid_t process = 0;
  struct stat status {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), process);
  const bool is_there = error == std::errc{} && process > 0 &&
                        ::stat(("/proc/" + std::to_string(process)).c_str(), &status) == 0;
  std::vector<uid_t> users{geteuid()};
  // Root watches the programs of others, too.
  if (is_there && status.st_uid != users.front() && geteuid() == 0) users.push_back(status.st_uid);
  std::vector<Rejection> rejections;
  for (const uid_t user : users) {
    const Offers found = find_offers(user);
    rejections.insert(rejections.end(), found.rejections.begin(), found.rejections.end());
    for (const Offer& offer : found.offers) {
      if (error == std::errc{} && offer.process == process) target.others.push_back(offer.socket);
    }
  }
  if (!target.others.empty()) {
    target.socket = target.others.front();
    target.others.erase(target.others.begin());
    target.process = process;
    target.name = "process " + text;
    return kFine;
  }
  if (!is_there) {
    return usage_error("there is no process " + text + ".",
                       "Type `opmux watch` to see the programs that can be watched.");
  }
  for (const Rejection& rejection : rejections) print_error(printable_line(to_string(rejection)));
  const std::string program = program_of(process);
  const std::string name =
      "process " + text + (program.empty() ? "" : " (" + printable(program) + ")");
  if (status.st_uid != geteuid() && geteuid() != 0) {
    return failed(name + " belongs to user " + std::to_string(status.st_uid) +
                      "; only that user and root may see its report.",
                  json);
  }
  return failed(name + " offers no report where it is looked for. " + kTurnOn +
                    " Where it offers it elsewhere, name the socket.",
                json);
}

// What to say of an answer that is none, and how to end.
int no_answer(const Answer& answer, const Target& target, bool json) {
  const std::string text = target.name + ": " + answer.problem + ".";
  switch (answer.kind) {
    case Kind::kNothing:
      return usage_error(text, "Type `opmux watch` to see the programs that can be watched.");
    case Kind::kForbidden:
      return failed(text + " Only the program's own user and root may see its report.", json);
    default:
      return failed(text, json);
  }
}

// ---- watching ----

class Watch {
 public:
  Watch(const CommonOptions& common, const WatchOptions& options, Target target)
      : json_(common.json),
        options_(options),
        target_(std::move(target)),
        screen_(!common.json && options.count != 1),
        is_refreshed_(screen_.is_in_place()) {}

  int run() {
    for (;;) {
      const Answer answer = ask_for_report(target_.socket, kDeadline, screen_.events());
      if (answer.kind == Kind::kText) {
        const ReadReport read = read_report(answer.text);
        if (read.report) {
          if (target_.process && first_ && read.report->process_id != first_->process_id)
            return ended();
          if (!take(answer.text, *read.report)) return kFine;  // main() tells what is wrong
          if (++shown_ == options_.count) return end(kFine);
        } else if (has_gone()) {
          return ended();
        } else {
          screen_.leave();
          return failed(target_.name + ": " + read.problem + ".", json_);
        }
      } else if (answer.kind == Kind::kSilent && first_) {
        if (!show("no answer for " +
                  std::to_string(
                      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - taken_)
                          .count()) +
                  " s"))
          return kFine;
      } else if (answer.kind == Kind::kInterrupted) {
        if (screen_.wait(milliseconds(0)) == Screen::Event::kStop) return end(kFine, false);
        continue;
      } else if (first_ && (answer.kind == Kind::kGone || answer.kind == Kind::kNothing ||
                            (answer.kind == Kind::kFailed && has_gone()))) {
        return ended();
      } else {
        screen_.leave();
        return no_answer(answer, target_, json_);
      }
      if (!pause()) return end(kFine, false);
    }
  }

 private:
  // An answer that was cut short is the program's end when nobody answers any more.
  bool has_gone() {
    if (!first_) return false;
    const Answer again = ask_for_report(target_.socket, kDeadline);
    return again.kind == Kind::kGone || again.kind == Kind::kNothing;
  }

  // False when stdout takes no more.
  bool take(const std::string& text, const Report& report) {
    const Clock::time_point now = Clock::now();
    const bool is_same = latest_ && latest_->process_id == report.process_id;
    before_ = is_same ? std::move(latest_) : std::nullopt;
    seconds_ = std::chrono::duration<double>(now - taken_).count();
    if (!is_same) first_ = report;
    latest_ = report;
    taken_ = now;
    if (json_) {
      print(to_text(Json::parse(text), -1));
      return std::fflush(output()) == 0;
    }
    return show({});
  }

  bool show(const std::string& note) {
    note_ = note;
    if (json_) return true;
    return screen_.show(lines(screen_.width(), screen_.height()));
  }

  // What stands below the view: further sockets, a note, and on a screen of its own how to leave.
  std::vector<std::string> lines_below(std::size_t width) const {
    std::vector<std::string> below;
    const auto add = [&](const std::string& line) {
      for (std::string& part : folded(line, width == 0 ? line.size() + 1 : width, 2))
        below.push_back(std::move(part));
    };
    if (!target_.others.empty()) {
      std::vector<std::string> paths;
      for (const fs::path& other : target_.others) paths.push_back(printable(other.native()));
      add("this process offers more: " + join(paths, ", "));
    }
    if (!note_.empty()) add(styled(Style::kBad, note_));
    if (is_refreshed_) add(footer(screen_.takes_keys(), width));
    return below;
  }

  std::vector<std::string> lines(std::size_t width, std::size_t height) const {
    std::vector<std::string> below = lines_below(width);
    ViewOptions options{width, height > below.size() ? height - below.size() : 0, options_.all};
    std::vector<std::string> all =
        view(*latest_, {&*first_, before_ ? &*before_ : nullptr, seconds_}, options);
    std::move(below.begin(), below.end(), std::back_inserter(all));
    return all;
  }

  // False when a signal or a key ends the watch.
  bool pause() {
    const Clock::time_point end = Clock::now() + milliseconds(options_.interval_ms);
    for (;;) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      switch (screen_.wait(std::max(left, milliseconds(0)))) {
        case Screen::Event::kTimeout:
          return true;
        case Screen::Event::kStop:
          return false;
        case Screen::Event::kResize:
          if (latest_ && !json_ && screen_.is_in_place()) (void)show(note_);
      }
    }
  }

  int ended() {
    const int code = end(kFine);
    const std::string text = target_.name + " has ended.";
    if (json_)
      print_error(text);
    else
      print(text);
    return code;
  }

  // What was last on the screen stays behind, unless whoever watches has seen enough.
  int end(int code, bool is_kept = true) {
    const bool was_in_place = screen_.is_in_place();
    is_refreshed_ = false;
    screen_.leave();
    if (was_in_place && is_kept && latest_) {
      note_.clear();
      for (const std::string& line : lines(screen_.width(), 0)) print(line);
    }
    return code;
  }

  const bool json_;
  const WatchOptions& options_;
  const Target target_;
  Screen screen_;
  bool is_refreshed_;  // on a screen of its own that someone has to leave
  std::optional<Report> first_, before_, latest_;
  Clock::time_point taken_{};
  double seconds_ = 0.0;
  std::uint64_t shown_ = 0;
  std::string note_;
};

}  // namespace

int watch(const CommonOptions& common, const WatchOptions& options) {
  if (options.target.empty()) return list_programs(common.json);
  Target target;
  if (is_number(options.target)) {
    if (const int code = find_process(options.target, common.json, target); target.socket.empty())
      return code;
  } else {
    target.socket = options.target;
    target.name = printable(options.target);
  }
  return Watch(common, options, std::move(target)).run();
}

}  // namespace opmux::cli
