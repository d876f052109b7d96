// SPDX-License-Identifier: Apache-2.0
#include "core/elf/bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/base/rules.hpp"

namespace opmux::elf {
namespace {

Rejection not_readable(const std::filesystem::path& path, std::string found) {
  return reject(rules::kContractNotElf, path.string(), "an ELF shared object", std::move(found));
}

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Bytes::Bytes(std::span<const std::byte> memory) noexcept
    : memory_(memory.data()), size_(memory.size()) {}

Bytes::Bytes(Descriptor descriptor, std::uint64_t size) noexcept
    : descriptor_(std::move(descriptor)), size_(size) {}

Result<Bytes> Bytes::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe with no writer would block the open for ever.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!descriptor.valid()) {
    return not_readable(path, "cannot be opened: " + std::generic_category().message(errno));
  }
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    return not_readable(path, "cannot be examined: " + std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) return not_readable(path, kind_of_file(status.st_mode));
  return Bytes(std::move(descriptor), static_cast<std::uint64_t>(status.st_size));
}

bool Bytes::read(std::uint64_t offset, void* into, std::size_t count) const noexcept {
  if (offset > size_ || count > size_ - offset) return false;
  if (count == 0) return true;
  if (!descriptor_.valid()) {
    std::memcpy(into, memory_ + offset, count);
    return true;
  }
  auto* position = static_cast<std::byte*>(into);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_.get(), position, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    position += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace opmux::elf
