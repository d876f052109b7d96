// SPDX-License-Identifier: Apache-2.0
#include "core/probe/ending.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux::probing {

namespace {

constexpr std::size_t kQuotedOutput = 600;
constexpr std::size_t kQuotedMessage = 1200;

constexpr std::string_view kTerminate = "terminate called after throwing an instance of '";

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

std::string quoted_output(const std::string& output) {
  const std::string_view text = trim(output);
  if (text.empty()) return "; it printed nothing";
  const std::string_view end = text.substr(text.size() - std::min(text.size(), kQuotedOutput));
  return "; its output ends with \"" + printable(end) + "\"";
}

// What the C++ runtime prints about an exception that nobody caught: its type, and its text.
struct UncaughtException {
  std::string type, text;
};

std::optional<UncaughtException> uncaught_exception(std::string_view output) {
  const auto begin = output.rfind(kTerminate);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = output.substr(begin + kTerminate.size());
  UncaughtException exception{std::string(rest.substr(0, rest.find("'\n"))), ""};
  constexpr std::string_view kWhat = "  what():  ";
  if (const auto what = rest.find(kWhat); what != std::string_view::npos) {
    exception.text = trim(rest.substr(what + kWhat.size()));
  }
  return exception;
}

std::string seconds(std::chrono::milliseconds time) {
  const auto milliseconds = time.count();
  if (milliseconds % 1000 == 0) return std::to_string(milliseconds / 1000) + " s";
  return std::to_string(milliseconds) + " ms";
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Rejection beyond_limit(const Ending& ending, std::string expected, const std::string& found) {
  return reject(rules::kProbeLimit, ending.subject, std::move(expected),
                found + quoted_output(ending.end.output));
}

Rejection explain_signal(const Ending& ending) {
  const Limits& limits = ending.limits;
  const int signal = ending.end.code;
  const std::string cpu_limit = "at most " + std::to_string(limits.cpu_seconds) + " s of CPU time";
  const std::string memory_limit =
      "at most " + mebibytes(limits.memory_bytes) + " of writable memory";
  if (signal == SIGXCPU) return beyond_limit(ending, cpu_limit, "probe ended by SIGXCPU");
  if (signal == SIGXFSZ) {
    return beyond_limit(ending, "files of at most " + mebibytes(limits.file_bytes),
                        "probe ended by SIGXFSZ");
  }
  if (signal == SIGABRT) {
    if (const auto exception = uncaught_exception(ending.end.output)) {
      if (exception->type == "std::bad_alloc" && limits.memory_bytes != 0) {
        return beyond_limit(ending, memory_limit, "std::bad_alloc");
      }
      return reject(
          rules::kProbeException, ending.subject, "static constructors that do not throw",
          printable(exception->type) +
              (exception->text.empty()
                   ? ", without a text"
                   : ": " +
                         printable(std::string_view(exception->text).substr(0, kQuotedMessage))));
    }
  }
  return reject(rules::kProbeSignal, ending.subject, "it is loaded without a signal",
                "probe ended by " + signal_name(signal) + " while loading it" +
                    quoted_output(ending.end.output));
}

std::string text_between(std::string_view text, std::string_view before, std::string_view after) {
  const auto begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = text.substr(begin + before.size());
  return std::string(rest.substr(0, rest.find(after)));
}

}  // namespace

Rejection explain(const Ending& ending) {
  const ChildEnd& end = ending.end;
  if (!ending.limit.empty()) {
    if (ending.limit == "open files") {
      return beyond_limit(ending,
                          "at most " + std::to_string(ending.limits.open_files) + " open files",
                          "no descriptor is left after it was loaded");
    }
    return beyond_limit(ending,
                        "at most " + mebibytes(ending.limits.memory_bytes) + " of writable memory",
                        "no memory is left after it was loaded");
  }
  if (!ending.fault.empty()) {
    return reject(rules::kProbeProtocol, ending.subject, "the probe's own replies",
                  printable(ending.fault));
  }
  switch (end.how) {
    case ChildEnd::How::kSignalled:
      return explain_signal(ending);
    case ChildEnd::How::kDeadline:
      return reject(rules::kProbeDeadline, ending.subject,
                    "it is loaded within the deadline of " + seconds(ending.deadline),
                    "it was still being loaded; the probe was killed" + quoted_output(end.output));
    case ChildEnd::How::kOutputCap:
      return reject(rules::kProbeOutput, ending.subject, "at most 16 MiB of output",
                    "more than that; the probe was killed" + quoted_output(end.output));
    case ChildEnd::How::kExited:
      if (end.code == kProtocolLostExit) {
        return reject(rules::kProbeProtocol, ending.subject, "the probe's own replies",
                      "the descriptor that the probe replies on was closed");
      }
      return reject(rules::kProbeExit, ending.subject, "it is loaded and the process goes on",
                    "probe exited with code " + std::to_string(end.code) + " while loading it" +
                        quoted_output(end.output));
    case ChildEnd::How::kStopped:
    case ChildEnd::How::kUnknown:
    case ChildEnd::How::kNotStarted:
      break;
  }
  return reject(rules::kProbeExit, ending.subject, "it is loaded and the process goes on",
                "the probe ended; how is not known, since this process ignores SIGCHLD or another "
                "part of it took the exit status" +
                    quoted_output(end.output));
}

std::optional<std::string> conflicting_namespace(std::string_view output) {
  std::string name = text_between(
      output, "Only a single TORCH_LIBRARY can be used to register the namespace ", ";");
  if (name.empty()) {
    constexpr std::string_view kTwice = "with the same name and overload name multiple times";
    if (output.find(kTwice) == std::string_view::npos) return std::nullopt;
    name = text_between(output, "Tried to register an operator (", "::");
  }
  if (name.empty()) return std::nullopt;
  return name;
}

std::string earlier_registration(std::string_view output) {
  std::string place =
      text_between(output, "Previous registration of TORCH_LIBRARY was registered at ", ";");
  if (place.empty()) place = text_between(output, "Original registration: registered at ", "\n");
  return place;
}

}  // namespace opmux::probing
