// SPDX-License-Identifier: Apache-2.0
//
// The frame of an ELF file: headers, segments and the dynamic table, checked against the file's
// size. Inside core/elf only. What a manifest's author must never see as a crash is decided here:
// after open() succeeds every segment and section lies inside the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/elf/bytes.hpp"
#include "core/elf/elf.hpp"

namespace opmux::elf {

// What may still be allocated for one file. A sound file's tables are disjoint, so they never need
// this much; one whose tables overlap to multiply their size runs out of it.
class Allowance {
 public:
  explicit Allowance(std::uint64_t file_size) noexcept
      : left_(file_size * 3 + file_size / 2 + 65536) {}
  bool take(std::uint64_t bytes) noexcept {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::uint64_t left_;
};

struct Segment {
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  std::uint64_t file_size = 0;
};

// The entries of PT_DYNAMIC that matter here; of a repeated tag the last counts, as in glibc.
struct Dynamic {
  std::vector<std::uint64_t> needed;
  std::optional<std::uint64_t> soname, rpath, runpath;
  std::optional<std::uint64_t> strtab, strsz, symtab, syment, hash, gnu_hash;
  std::optional<std::uint64_t> versym, verneed, verneednum, verdef, verdefnum;
  std::optional<std::uint64_t> rela, relasz, jmprel, pltrelsz;
};

class Image {
 public:
  static Result<Image> open(Bytes bytes, std::string name);

  const std::string& name() const noexcept { return name_; }
  std::uint16_t machine() const noexcept { return machine_; }
  const Dynamic& dynamic() const noexcept { return dynamic_; }
  const Bytes& bytes() const noexcept { return bytes_; }
  Allowance& allowance() noexcept { return allowance_; }

  // File offset of [address, address + size), which must lie inside the file's part of one segment;
  // `field` names it in the rejection.
  Result<std::uint64_t> locate(std::uint64_t address, std::uint64_t size, const char* field) const;
  // Bytes of the file from `address` to the end of its segment, 0 when it lies in none.
  std::uint64_t available(std::uint64_t address) const noexcept;

  // The string table; absent when the file has none.
  std::uint64_t strings_offset() const noexcept { return strings_offset_; }
  std::uint64_t strings_size() const noexcept { return strings_size_; }
  // The string at `offset` of the string table, read from the file.
  Result<std::string> text(std::uint64_t offset, const char* field) const;

  Rejection truncated(std::string expected, std::string found) const;
  Rejection malformed(std::string expected, std::string found) const;
  Rejection shrunk() const;  // a read inside the checked size failed

  // Calls visit(entry, index) for `count` entries of type T at file offset `offset` until it
  // returns false. The whole range must have been located before.
  template <class T, class Visit>
  Check each(std::uint64_t offset, std::uint64_t count, Visit visit) const;

 private:
  Image(Bytes bytes, std::string name);
  Check read_headers();
  Check read_segments(std::uint64_t table, std::uint64_t count);
  Check read_sections(std::uint64_t table, std::uint64_t count, std::uint64_t entry_size);
  Check read_dynamic();
  Check locate_strings();

  Bytes bytes_;
  std::string name_;
  Allowance allowance_;
  std::uint16_t machine_ = 0;
  std::vector<Segment> loads_;
  std::optional<Segment> dynamic_segment_;
  Dynamic dynamic_;
  std::uint64_t strings_offset_ = 0;
  std::uint64_t strings_size_ = 0;
};

// Everything of the file in the asked detail.
Result<ElfFile> read_image(Image& image, Detail detail);

std::string hexadecimal(std::uint64_t value);

template <class T, class Visit>
Check Image::each(std::uint64_t offset, std::uint64_t count, Visit visit) const {
  constexpr std::uint64_t kBlock = 65536 / sizeof(T);
  std::vector<T> block(static_cast<std::size_t>(std::min(count, kBlock)));
  for (std::uint64_t index = 0; index < count;) {
    const auto step = static_cast<std::size_t>(std::min(count - index, kBlock));
    if (!bytes_.read(offset + index * sizeof(T), block.data(), step * sizeof(T))) return shrunk();
    for (std::size_t i = 0; i < step; ++i, ++index) {
      if (!visit(block[i], index)) return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace opmux::elf
