// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "cli/output.hpp"
#include "core/base/environment.hpp"

namespace opmux::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Escape codes that every terminal of the last decades has.
constexpr const char* kEnter = "\033[?1049h\033[?25l\033[H\033[2J";  // alternate screen, no cursor
constexpr const char* kLeave = "\033[?25h\033[?1049l";
constexpr const char* kHome = "\033[H";
constexpr const char* kClearLine = "\033[K";
constexpr const char* kClearBelow = "\033[J";

constexpr std::size_t kPlainWidth = 100;

bool terminal_size(winsize& size) {
  return ::ioctl(fileno(output()), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
}

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), output()); }

}  // namespace

Screen::Screen(bool in_place)
    : is_in_place_(in_place && ::isatty(fileno(output())) == 1 &&
                   environment_variable("TERM").value_or("dumb") != "dumb") {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH}) sigaddset(&handled, signal);
  sigprocmask(SIG_BLOCK, &handled, &before_);
  signals_ = Descriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  enter();
}

Screen::~Screen() {
  leave();
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void Screen::enter() {
  if (!is_in_place_ || is_entered_) return;
  is_entered_ = true;
  put(kEnter);
  std::fflush(output());
}

void Screen::leave() {
  if (!is_entered_) return;
  is_entered_ = false;
  put(kLeave);
  std::fflush(output());
}

std::size_t Screen::width() const {
  winsize size{};
  return terminal_size(size) ? size.ws_col : kPlainWidth;
}

std::size_t Screen::height() const {
  winsize size{};
  return is_in_place_ && terminal_size(size) ? size.ws_row : 0;
}

bool Screen::show(const std::vector<std::string>& lines) {
  std::string text = is_entered_ ? kHome : is_first_ ? "" : "\n";
  for (std::size_t index = 0; index < lines.size(); ++index) {
    // Before the text: behind a line as wide as the terminal the cursor still stands on its end.
    if (is_entered_) text += kClearLine;
    text += lines[index];
    // A line end in the last line of the terminal would scroll.
    if (!is_entered_ || index + 1 < lines.size()) text += "\n";
  }
  if (is_entered_ && lines.size() < height()) text += std::string("\n") + kClearBelow;
  is_first_ = false;
  put(text);
  return std::fflush(output()) == 0 && std::ferror(output()) == 0;
}

Screen::Event Screen::wait(milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    pollfd polled{signals_.get(), POLLIN, 0};
    (void)::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    signalfd_siginfo signal{};
    if (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo == SIGWINCH) return Event::kResize;
      if (signal.ssi_signo != SIGTSTP) return Event::kStop;
      leave();
      ::raise(SIGSTOP);
      enter();
      return Event::kResize;
    }
    if (Clock::now() >= end) return Event::kTimeout;
  }
}

}  // namespace opmux::cli
