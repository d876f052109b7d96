// SPDX-License-Identifier: Apache-2.0
//
// State of the whole process that foreign code run by dlopen or by a module's entry point may
// change behind the host's back. Thread safety: signal handlers and locale belong to the process;
// use under the loader's lock.
#pragma once

#include <array>
#include <cfenv>
#include <csignal>
#include <string>

namespace opmux {

// Saves on construction, restores on destruction and logs what had been changed. `cause` names the
// file that ran in between.
class ProcessStateGuard {
 public:
  explicit ProcessStateGuard(std::string cause);
  ~ProcessStateGuard();
  ProcessStateGuard(const ProcessStateGuard&) = delete;
  ProcessStateGuard& operator=(const ProcessStateGuard&) = delete;

 private:
  static constexpr std::array kSignals{SIGABRT, SIGBUS,  SIGCHLD, SIGFPE,  SIGHUP,  SIGILL, SIGINT,
                                       SIGPIPE, SIGQUIT, SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2};

  std::string cause_;
  std::fenv_t floating_point_{};
  std::string locale_;
  std::array<struct sigaction, kSignals.size()> handlers_{};
};

}  // namespace opmux
