// SPDX-License-Identifier: Apache-2.0
//
// Owns a POSIX file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace opmux {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      value_ = std::exchange(other.value_, -1);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  int get() const noexcept { return value_; }
  bool valid() const noexcept { return value_ >= 0; }
  int release() noexcept { return std::exchange(value_, -1); }
  void reset() noexcept {
    if (valid()) ::close(std::exchange(value_, -1));
  }

 private:
  int value_ = -1;
};

}  // namespace opmux
