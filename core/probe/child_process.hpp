// SPDX-License-Identifier: Apache-2.0
//
// Runs a program in a process group of its own, talks to it over one descriptor, reads what it
// prints, and is back by the deadline whatever the program does. posix_spawn only, no code runs
// between fork and exec, so locks that other threads hold do not matter. Thread safety: calls are
// independent of each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace opmux::probing {

// Where the program finds the protocol: a stream socket.
inline constexpr int kProtocolDescriptor = 3;

struct ChildProcess {
  std::filesystem::path executable;
  std::vector<std::string> arguments;    // without the program's name
  std::vector<std::string> environment;  // "NAME=value"; nothing else is there
  std::string input;                     // written to the protocol descriptor
  std::chrono::milliseconds deadline{10000};
  std::size_t output_cap = std::size_t{16} << 20;
  std::size_t output_tail = std::size_t{16} << 10;
};

struct ChildEnd {
  enum class How {
    kExited,      // code
    kSignalled,   // code is the signal
    kDeadline,    // killed
    kOutputCap,   // killed
    kStopped,     // killed since `on_reply` had enough
    kUnknown,     // somebody else took its exit status
    kNotStarted,  // code is errno
  };
  How how = How::kNotStarted;
  int code = 0;
  std::string output;  // the end of stdout and stderr, in the order of writing
};

// `on_reply` gets the bytes from the protocol descriptor and returns false when it wants no more.
// When this returns, the program and what is left of its group are killed, and it is reaped.
ChildEnd run_child(const ChildProcess& child,
                   const std::function<bool(std::string_view)>& on_reply);

}  // namespace opmux::probing
