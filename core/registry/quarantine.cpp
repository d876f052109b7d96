// SPDX-License-Identifier: Apache-2.0
#include "core/registry/quarantine.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/base/rules.hpp"

namespace opmux {
namespace {

MonotonicTime::rep ticks(MonotonicTime time) { return time.time_since_epoch().count(); }

}  // namespace

BindingHealth::Admission BindingHealth::admit(MonotonicClock clock) noexcept {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::kHealthy) return Admission::kServe;
  if (state == State::kTried || ticks(clock()) < retry_at_.load(std::memory_order_relaxed))
    return Admission::kPass;
  return state_.compare_exchange_strong(state, State::kTried, std::memory_order_acq_rel)
             ? Admission::kTry
         : state == State::kHealthy ? Admission::kServe
                                    : Admission::kPass;
}

bool BindingHealth::note_failure(const QuarantineSettings& settings, std::uint64_t served,
                                 std::string error, MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  // Calls that were inside when another failure was one too many.
  if (state_.load(std::memory_order_relaxed) != State::kHealthy) return false;
  if (served != served_) failures_ = 0;
  served_ = served;
  ++failures_;
  error_ = std::move(error);
  if (failures_ < settings.failures) return false;
  retry_at_.store(ticks(now + settings.retry), std::memory_order_relaxed);
  state_.store(State::kOut, std::memory_order_release);
  return true;
}

void BindingHealth::end_try_served() {
  const std::lock_guard lock(mutex_);
  failures_ = 0;
  state_.store(State::kHealthy, std::memory_order_release);
}

void BindingHealth::end_try_failed(const QuarantineSettings& settings, std::string error,
                                   MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  ++failures_;
  error_ = std::move(error);
  retry_at_.store(ticks(now + settings.retry), std::memory_order_relaxed);
  state_.store(State::kOut, std::memory_order_release);
}

void BindingHealth::end_try_undecided() noexcept {
  state_.store(State::kOut, std::memory_order_release);
}

std::optional<Rejection> BindingHealth::rejection(const std::string& subject,
                                                  MonotonicTime now) const {
  const std::lock_guard lock(mutex_);
  const State state = state_.load(std::memory_order_relaxed);
  if (state == State::kHealthy) return std::nullopt;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      MonotonicTime::duration(retry_at_.load(std::memory_order_relaxed)) - now.time_since_epoch());
  std::string found = fmt::format("{} failures in a row, the last: {}; ", failures_, error_);
  if (state == State::kTried)
    found += "being tried again";
  else if (left.count() <= 0)
    found += "tried again by the next call";
  else
    found += fmt::format("tried again in {:.1f} s", static_cast<double>(left.count()) / 1000.0);
  return reject(rules::kCallQuarantined, subject, "a binding that does not keep failing",
                std::move(found));
}

bool RateLimit::allow(MonotonicTime now) noexcept {
  MonotonicTime::rep next = next_.load(std::memory_order_relaxed);
  return ticks(now) >= next &&
         next_.compare_exchange_strong(next, ticks(now + pause_), std::memory_order_relaxed);
}

}  // namespace opmux
