// SPDX-License-Identifier: Apache-2.0
#include "core/loader/process_state.hpp"

#include <clocale>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/log.hpp"

namespace opmux {

namespace {

bool same_handler(const struct sigaction& left, const struct sigaction& right) {
  return left.sa_handler == right.sa_handler && left.sa_flags == right.sa_flags;
}

const char* current_locale() {
  const char* locale = std::setlocale(LC_ALL, nullptr);
  return locale == nullptr ? "" : locale;
}

// Rounding mode and the flags that flush denormal numbers to zero; the accrued exceptions, which
// any arithmetic sets, are no change.
bool same_floating_point(const std::fenv_t& left, const std::fenv_t& right) {
#if defined(__x86_64__)
  constexpr unsigned kAccruedExceptions = 0x3f;
  return (left.__mxcsr & ~kAccruedExceptions) == (right.__mxcsr & ~kAccruedExceptions) &&
         left.__control_word == right.__control_word;
#else
  return std::memcmp(&left, &right, sizeof(left)) == 0;
#endif
}

}  // namespace

ProcessStateGuard::ProcessStateGuard(std::string cause)
    : cause_(std::move(cause)), locale_(current_locale()) {
  std::fegetenv(&floating_point_);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &handlers_[i]);
  }
}

ProcessStateGuard::~ProcessStateGuard() {
  std::fenv_t floating_point_now{};
  std::fegetenv(&floating_point_now);
  std::fesetenv(&floating_point_);
  if (!same_floating_point(floating_point_, floating_point_now)) {
    log::warn(cause_ + " changed the floating-point environment; it was restored");
  }
  if (locale_ != current_locale()) {
    std::setlocale(LC_ALL, locale_.c_str());
    log::warn(cause_ + " changed the locale; it was restored");
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    if (sigaction(kSignals[i], nullptr, &now) == 0 && !same_handler(handlers_[i], now)) {
      sigaction(kSignals[i], &handlers_[i], nullptr);
      log::warn(cause_ + " changed the handler of SIG" + sigabbrev_np(kSignals[i]) +
                "; it was restored");
    }
  }
}

}  // namespace opmux
