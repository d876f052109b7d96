// SPDX-License-Identifier: Apache-2.0
//
// Replaces operator new of the program by one that can be told to fail.
#pragma once

#include <cstdint>
#include <functional>

namespace opmux::testing {

enum class Failing { kOnce, kFromThenOn };

// Runs `what` with the n-th allocation of this thread, counted from 0, failing, or all from that
// one on. Whether it came so far.
bool fails_at(std::uint64_t n, Failing failing, const std::function<void()>& what);

// For the rest of the run of fails_at() on this thread, none fails.
void stop_failing();

// While it lives, allocations of this thread neither fail nor count.
class AllocationsDoNotFail {
 public:
  AllocationsDoNotFail();
  AllocationsDoNotFail(const AllocationsDoNotFail&) = delete;
  AllocationsDoNotFail& operator=(const AllocationsDoNotFail&) = delete;
  ~AllocationsDoNotFail();

 private:
  std::uint64_t before_;
};

}  // namespace opmux::testing
