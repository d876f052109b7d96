// SPDX-License-Identifier: Apache-2.0
//
// One attempt to change the routes of a runtime: one at a time, and told to everybody when it is
// over. Thread safety: belongs to the thread that makes the change.
#pragma once

#include <chrono>
#include <exception>
#include <mutex>
#include <string>

#include "core/runtime/state.hpp"

namespace opmux {

class Runtime::State::Change {
 public:
  // Waits for the change that is being made.
  Change(State& state, const std::string& trigger);
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() { unlock(); }

  // Runs `what`, whose exceptions become errors, and tells everybody. What was published when
  // memory ran out stays published, and the change was one.
  template <class What>
  Status run(What what) {
    Status status;
    try {
      status = what();
    } catch (const std::exception& problem) {
      status = failed_by(problem);
    }
    tell(status);
    return status;
  }

  ChangeReport report;

 private:
  void unlock();
  // Without memory even for the reason, the code alone.
  Status failed_by(const std::exception& problem) noexcept;
  // Telling must not undo what was done, nor end a thread of the runtime's own.
  void tell(const Status& status);
  void tell_problem(const char* text) const noexcept;
  void finish(const Status& status);
  // Into the history, unless it is no news: a file that was touched, a folder that is watched from
  // now on, or a fault that still stands.
  bool remember();

  State& state_;
  std::unique_lock<std::mutex> lock_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace opmux
