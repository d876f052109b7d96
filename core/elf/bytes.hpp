// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a file under examination: an open descriptor, or memory for tests and fuzzing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/base/descriptor.hpp"
#include "core/base/result.hpp"

namespace opmux::elf {

// Moved, not copied. read() may be called from several threads at once.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> memory) noexcept;
  // Only a regular file is opened; anything else is contract.not_elf.
  static Result<Bytes> open(const std::filesystem::path& path);

  // As it was when opened.
  std::uint64_t size() const noexcept { return size_; }
  // All of `count` bytes, or false: the file ends before, or shrank since it was opened.
  bool read(std::uint64_t offset, void* into, std::size_t count) const noexcept;

 private:
  Bytes(Descriptor descriptor, std::uint64_t size) noexcept;

  Descriptor descriptor_;
  const std::byte* memory_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace opmux::elf
