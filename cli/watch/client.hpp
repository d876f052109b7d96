// SPDX-License-Identifier: Apache-2.0
//
// Asks running programs for their reports. The exchange is in docs/report.md.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "opmux/status.hpp"

namespace opmux::cli {

struct Answer {
  enum class Kind {
    kText,         // everything that was sent until the other end closed
    kNothing,      // nothing has that path
    kGone,         // a socket whose program is gone
    kForbidden,    // it is another user's
    kSilent,       // no whole answer within the deadline
    kInterrupted,  // `interrupt` has something to read
    kFailed,       // anything else
  };
  Kind kind = Kind::kFailed;
  std::string text;     // of kText
  std::string problem;  // in words, of all others
};

// What the program behind `socket` answers: it is believed only when it is this user's or root's,
// but root believes all. `interrupt` is a descriptor, or -1.
Answer ask_for_report(const std::filesystem::path& socket, std::chrono::milliseconds deadline,
                      int interrupt = -1);

struct Offer {
  pid_t process = 0;  // as the socket's name has it
  std::filesystem::path socket;
};

struct Offers {
  std::vector<Offer> offers;          // by process and place
  std::vector<Rejection> rejections;  // of folders that may not be trusted
};

// Sockets of running programs in the folders of `user`.
Offers find_offers(uid_t user);

}  // namespace opmux::cli
