// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/screen.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

bool terminal_size(winsize& size) {
  return ::ioctl(fileno(output()), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
}

// Whether this program may take keys: one that a shell runs in the background would be stopped.
// Nobody is, on a terminal that controls no session of this program.
bool is_in_foreground() {
  const pid_t group = ::tcgetpgrp(STDIN_FILENO);
  return group < 0 || group == ::getpgrp();
}

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), output()); }

}  // namespace

Screen::Screen(bool in_place)
    : is_in_place_(in_place && ::isatty(fileno(output())) == 1 &&
                   environment_variable("TERM").value_or("dumb") != "dumb") {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH})
    sigaddset(&handled, signal);
  sigprocmask(SIG_BLOCK, &handled, &before_);
  signals_ = Descriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  events_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  static_cast<void>(::epoll_ctl(events_.get(), EPOLL_CTL_ADD, signals_.get(), &event));
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
  take_keys();
}

void Screen::leave() {
  if (!is_entered_) return;
  is_entered_ = false;
  give_keys_back();
  put(kLeave);
  std::fflush(output());
}

void Screen::take_keys() {
  if (!is_entered_ || before_keys_ || has_keys_ended_ || !is_in_foreground()) return;
  termios now{};
  if (::tcgetattr(STDIN_FILENO, &now) != 0) return;
  const termios before = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  now.c_cc[VMIN] = 0;  // a read that finds nothing does not wait
  now.c_cc[VTIME] = 0;
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &now) != 0) return;
  epoll_event event{};
  event.events = EPOLLIN;
  static_cast<void>(::epoll_ctl(events_.get(), EPOLL_CTL_ADD, STDIN_FILENO, &event));
  before_keys_ = before;
}

void Screen::give_keys_back() {
  if (!before_keys_) return;
  static_cast<void>(::epoll_ctl(events_.get(), EPOLL_CTL_DEL, STDIN_FILENO, nullptr));
  // In the background the terminal is another program's already.
  if (is_in_foreground()) static_cast<void>(::tcsetattr(STDIN_FILENO, TCSANOW, &*before_keys_));
  before_keys_.reset();
}

// Reads the keys that wait.
bool Screen::is_leaving_asked() {
  if (!before_keys_) return false;
  if (!is_in_foreground()) {
    give_keys_back();
    return false;
  }
  pollfd polled{STDIN_FILENO, POLLIN, 0};
  if (::poll(&polled, 1, 0) <= 0) return false;
  std::array<char, 64> keys{};
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count > 0) {
    const auto end = keys.begin() + count;
    return std::any_of(keys.begin(), end, [](char key) { return key == 'q' || key == 'Q'; });
  }
  // A terminal that has gone would be readable for ever.
  if (count == 0 || errno != EINTR) {
    give_keys_back();
    has_keys_ended_ = true;
  }
  return false;
}

std::size_t Screen::width() const {
  winsize size{};
  return terminal_size(size) ? size.ws_col : 0;
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
    take_keys();  // those of a program that came back to the foreground
    pollfd polled{events_.get(), POLLIN, 0};
    (void)::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (is_leaving_asked()) return Event::kStop;
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
