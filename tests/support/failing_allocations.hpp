// SPDX-License-Identifier: Apache-2.0
//
// Replaces operator new of the program by one that can be told to fail.
#pragma once

#include <cstdint>
#include <functional>

namespace opmux::testing {

// Runs `what` with the n-th allocation of this thread, counted from 0, failing. Whether it came so
// far.
bool fails_at(std::uint64_t n, const std::function<void()>& what);

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
