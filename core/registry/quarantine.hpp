// SPDX-License-Identifier: Apache-2.0
//
// Bindings that keep failing are left out for a while.
//
// A success costs nothing: whether failures stand in a row is seen when the next one is noted, by
// the number of calls that the binding has served since. With several threads "in a row" is
// therefore of all of them together.
//
// Thread safety: all functions may be called from any thread. admit() takes no lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/result.hpp"
#include "core/config/config.hpp"

namespace opmux {

using MonotonicTime = std::chrono::steady_clock::time_point;
using MonotonicClock = MonotonicTime (*)();

// The health of one operator's binding to one provider on one device. Outlives generations, so that
// a new one does not bring a failing binding back.
class BindingHealth {
 public:
  enum class Admission {
    kServe,  // it is healthy
    kPass,   // it is in quarantine: go on with the next binding
    kTry     // its time is over and this caller alone tries it; one of end_try...() must follow
  };
  Admission admit(MonotonicClock clock) noexcept;
  bool is_healthy() const noexcept {
    return state_.load(std::memory_order_acquire) == State::kHealthy;
  }

  // A failure of a healthy binding. `served` are the calls that it has served so far, on all
  // threads. True when this failure was one too many: it is in quarantine from now on.
  bool note_failure(const QuarantineSettings& settings, std::uint64_t served, std::string error,
                    MonotonicTime now);

  void end_try_served();
  void end_try_failed(const QuarantineSettings& settings, std::string error, MonotonicTime now);
  // It was not called after all, or answered what says nothing of its health: the next caller
  // tries.
  void end_try_undecided() noexcept;

  // While it is in quarantine, the rejection that calls and the report repeat; `subject` is
  // "operator: provider".
  std::optional<Rejection> rejection(const std::string& subject, MonotonicTime now) const;

 private:
  enum class State : std::uint32_t { kHealthy, kOut, kTried };

  std::atomic<State> state_{State::kHealthy};
  std::atomic<MonotonicTime::rep> retry_at_{0};
  mutable std::mutex mutex_;  // of what follows
  std::uint32_t failures_ = 0;
  std::uint64_t served_ = 0;  // at the last failure
  std::string error_;         // of the last failure
};

// Lets something through once in a while.
class RateLimit {
 public:
  explicit RateLimit(std::chrono::milliseconds pause) noexcept : pause_(pause) {}
  bool allow(MonotonicTime now) noexcept;

 private:
  const std::chrono::milliseconds pause_;
  std::atomic<MonotonicTime::rep> next_{std::numeric_limits<MonotonicTime::rep>::min()};
};

}  // namespace opmux
