// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/change.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <deque>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

// Changes that the report remembers.
constexpr std::size_t kHistory = 256;

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts));
  std::string fraction = std::to_string(milliseconds);
  fraction.insert(0, 3 - std::min<std::size_t>(fraction.size(), 3), '0');
  return text + "." + fraction + "Z";
}

}  // namespace

Runtime::State::Change::Change(State& state, const std::string& trigger)
    : state_(state), lock_(state.change_mutex_) {
  state_.changing_thread_ = std::this_thread::get_id();
  report.trigger = trigger;
}

void Runtime::State::Change::unlock() {
  if (!lock_.owns_lock()) return;
  state_.changing_thread_ = std::thread::id();
  lock_.unlock();
}

Status Runtime::State::Change::failed_by(const std::exception& problem) noexcept {
  try {
    Rejection rejection = reject(rules::kRuntimeChange, report.trigger, "new routes and their log",
                                 printable(problem.what()));
    if (report.outcome.empty())
      return Status(StatusCode::kInternal, to_string(rejection), rejection);
    report.reasons.push_back(std::move(rejection));
    return {};
  } catch (const std::exception&) {
    return report.outcome.empty() ? Status::out_of_memory() : Status();
  }
}

void Runtime::State::Change::tell(const Status& status) {
  try {
    finish(status);
  } catch (const abi::__forced_unwind&) {
    throw;  // of a thread that is being cancelled, which cannot be kept
  } catch (const std::exception& problem) {
    tell_problem(problem.what());
  } catch (...) {
    tell_problem("something that is no std::exception was thrown");
  }
}

void Runtime::State::Change::tell_problem(const char* text) const noexcept {
  try {
    log::error(report.trigger + ": " + printable(text));
  } catch (const std::exception&) {
    // Nothing can be told.
  }
}

void Runtime::State::Change::finish(const Status& status) {
  if (!status.ok()) {
    report.outcome = "refused";
    if (report.reasons.empty()) {
      report.reasons.push_back(
          status.rejection() != nullptr
              ? *status.rejection()
              : reject(rules::kRuntimeChange, report.trigger, "new routes", status.message()));
    }
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  report.time = utc_now();
  report.generation = state_.registry_.current().number;
  const bool is_news = remember();
  if (!is_news) {
    // Nothing to tell.
  } else if (status.ok()) {
    log::info("generation " + std::to_string(report.generation) + " " + report.outcome + " (" +
              report.trigger + ")");
  } else {
    log::warn(report.trigger + " refused, generation " + std::to_string(report.generation) +
              " stays:");
    for (const Rejection& reason : report.reasons) log::warn("  " + to_string(reason));
  }
  unlock();
  if (is_news && state_.options_.on_change) state_.options_.on_change(report);
}

bool Runtime::State::Change::remember() {
  const std::lock_guard lock(state_.mutex_);
  std::deque<ChangeReport>& history = state_.history_;
  const bool was_refused = !history.empty() && history.back().outcome == "refused";
  const bool is_refused = report.outcome == "refused";
  const bool is_news =
      report.trigger != "watch" || report.outcome == "published" || was_refused != is_refused ||
      (is_refused &&
       !std::equal(report.reasons.begin(), report.reasons.end(), history.back().reasons.begin(),
                   history.back().reasons.end(), [](const Rejection& a, const Rejection& b) {
                     return to_string(a) == to_string(b);
                   }));
  if (!is_news) return false;
  if (history.size() == kHistory) history.pop_front();
  history.push_back(report);
  return true;
}

}  // namespace opmux
