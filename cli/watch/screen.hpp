// SPDX-License-Identifier: Apache-2.0
//
// The terminal while something on it is refreshed in place, and the signals that end or disturb
// that. One at a time.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "core/base/descriptor.hpp"

namespace opmux::cli {

class Screen {
 public:
  enum class Event { kTimeout, kStop, kResize };

  // `in_place`: on the alternate screen, when stdout is a terminal that has one. Else blocks of
  // lines follow each other.
  explicit Screen(bool in_place);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();  // gives the terminal back as it was

  bool is_in_place() const { return is_in_place_; }
  std::size_t width() const;
  // Lines that fit; 0: no limit.
  std::size_t height() const;

  // False when stdout takes no more.
  bool show(const std::vector<std::string>& lines);
  // Gives the terminal back before the end.
  void leave();

  // Readable when a signal waits for wait().
  int signals() const { return signals_.get(); }
  // Waits for a signal at most so long. A suspension is survived here.
  Event wait(std::chrono::milliseconds time);

 private:
  void enter();

  bool is_in_place_ = false;
  bool is_entered_ = false;
  bool is_first_ = true;
  sigset_t before_{};
  Descriptor signals_;
};

}  // namespace opmux::cli
