// SPDX-License-Identifier: Apache-2.0
//
// The terminal while something on it is refreshed in place, and the signals and keys that end or
// disturb that. One at a time.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <cstddef>
#include <optional>
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
  // Whether the key q is an Event::kStop: where stdin is the terminal of this very program.
  bool takes_keys() const { return before_keys_.has_value(); }
  // Columns of the terminal; 0, no limit, where stdout is none.
  std::size_t width() const;
  // Lines that fit; 0: no limit.
  std::size_t height() const;

  // False when stdout takes no more.
  bool show(const std::vector<std::string>& lines);
  // Gives the terminal back before the end.
  void leave();

  // Readable when a signal or a key waits for wait().
  int events() const { return events_.get(); }
  // Waits for a signal or a key at most so long. A suspension is survived here.
  Event wait(std::chrono::milliseconds time);

 private:
  void enter();
  void take_keys();
  void give_keys_back();
  bool is_leaving_asked();

  bool is_in_place_ = false;
  bool is_entered_ = false;
  bool is_first_ = true;
  sigset_t before_{};
  std::optional<termios> before_keys_;  // how the terminal took keys, while it is taken over
  bool has_keys_ended_ = false;
  Descriptor signals_;
  Descriptor events_;  // signals_, and stdin while keys are taken
};

}  // namespace opmux::cli
