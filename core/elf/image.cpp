// SPDX-License-Identifier: Apache-2.0
#include "core/elf/image.hpp"

#include <elf.h>

#include <bit>
#include <cstring>
#include <utility>

#include "core/base/rules.hpp"
#include "core/elf/form.hpp"

namespace opmux::elf {
namespace {

// No real library comes near; without a cap a sparse file of terabytes would be read for minutes.
constexpr std::uint64_t kMaxSections = 1U << 20;
constexpr std::uint64_t kMaxDynamicEntries = 1U << 16;
constexpr std::uint64_t kMaxTable = std::uint64_t{256} << 20;
constexpr std::size_t kMaxText = 65536;

// offset + size <= limit without overflow
bool fits(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

std::string range(std::uint64_t offset, std::uint64_t size) {
  return "offset " + hexadecimal(offset) + ", size " + hexadecimal(size);
}

}  // namespace

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  do {
    text.insert(text.begin(), "0123456789abcdef"[value & 15U]);
    value >>= 4U;
  } while (value != 0);
  return "0x" + text;
}

Image::Image(Bytes bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)), allowance_(bytes_.size()) {}

Rejection Image::truncated(std::string expected, std::string found) const {
  return reject(rules::kContractTruncated, name_, std::move(expected), std::move(found));
}

Rejection Image::malformed(std::string expected, std::string found) const {
  return reject(rules::kContractMalformed, name_, std::move(expected), std::move(found));
}

Rejection Image::shrunk() const {
  return truncated("a file of " + std::to_string(bytes_.size()) + " bytes",
                   "the file ended earlier while it was read");
}

Result<Image> Image::open(Bytes bytes, std::string name) {
  Image image(std::move(bytes), std::move(name));
  if (Check failed = image.read_headers()) return *failed;
  if (Check failed = image.read_dynamic()) return *failed;
  if (Check failed = image.locate_strings()) return *failed;
  return image;
}

Check Image::read_headers() {
  Elf64_Ehdr header{};
  if (Check failed = check_form(bytes_, name_, header)) return failed;
  machine_ = header.e_machine;

  const std::string size = std::to_string(bytes_.size()) + " bytes";
  if (header.e_phnum == 0) return malformed("program headers", "e_phnum = 0");
  if (header.e_phentsize != sizeof(Elf64_Phdr)) {
    return malformed("e_phentsize = " + std::to_string(sizeof(Elf64_Phdr)),
                     "e_phentsize = " + std::to_string(header.e_phentsize));
  }
  const std::uint64_t segments_size = std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (!fits(header.e_phoff, segments_size, bytes_.size())) {
    return truncated("program headers inside the file's " + size,
                     "e_phoff: " + range(header.e_phoff, segments_size));
  }
  if (header.e_shoff != 0) {
    if (Check failed = read_sections(header.e_shoff, header.e_shnum, header.e_shentsize)) {
      return failed;
    }
  }
  return read_segments(header.e_phoff, header.e_phnum);
}

Check Image::read_sections(std::uint64_t table, std::uint64_t count, std::uint64_t entry_size) {
  const std::string size = std::to_string(bytes_.size()) + " bytes";
  if (entry_size != sizeof(Elf64_Shdr)) {
    return malformed("e_shentsize = " + std::to_string(sizeof(Elf64_Shdr)),
                     "e_shentsize = " + std::to_string(entry_size));
  }
  if (count == 0) {  // 65280 sections or more: the number stands in the first entry's size
    Elf64_Shdr first{};
    if (!bytes_.read(table, &first, sizeof(first))) {
      return truncated("section headers inside the file's " + size,
                       "e_shoff: " + range(table, sizeof(first)));
    }
    count = first.sh_size;
    if (count == 0) return malformed("section headers at e_shoff", "e_shnum = 0");
  }
  if (count > bytes_.size() || !fits(table, count * sizeof(Elf64_Shdr), bytes_.size())) {
    return truncated(
        "section headers inside the file's " + size,
        "e_shoff = " + hexadecimal(table) + ", " + std::to_string(count) + " sections");
  }
  if (count > kMaxSections) {
    return malformed("at most " + std::to_string(kMaxSections) + " sections",
                     std::to_string(count) + " sections");
  }
  Check failed;
  Check unread = each<Elf64_Shdr>(table, count, [&](const Elf64_Shdr& section, std::uint64_t i) {
    if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) return true;
    if (fits(section.sh_offset, section.sh_size, bytes_.size())) return true;
    failed = truncated("section " + std::to_string(i) + " inside the file's " + size,
                       range(section.sh_offset, section.sh_size));
    return false;
  });
  return unread ? unread : failed;
}

Check Image::read_segments(std::uint64_t table, std::uint64_t count) {
  const std::string size = std::to_string(bytes_.size()) + " bytes";
  Check failed;
  std::uint64_t previous_end = 0;
  Check unread = each<Elf64_Phdr>(table, count, [&](const Elf64_Phdr& segment, std::uint64_t i) {
    const std::string subject = "program header " + std::to_string(i);
    if (segment.p_type == PT_NULL) return true;
    if (!fits(segment.p_offset, segment.p_filesz, bytes_.size())) {
      failed = truncated(subject + " inside the file's " + size,
                         range(segment.p_offset, segment.p_filesz));
      return false;
    }
    if (segment.p_type == PT_DYNAMIC) {
      if (dynamic_segment_) {
        failed = malformed("one PT_DYNAMIC", "a second one: " + subject);
        return false;
      }
      dynamic_segment_ = Segment{segment.p_offset, segment.p_vaddr, segment.p_filesz};
    }
    if (segment.p_type != PT_LOAD) return true;
    const std::uint64_t end = segment.p_vaddr + segment.p_memsz;
    if (segment.p_filesz > segment.p_memsz || end < segment.p_vaddr) {
      failed = malformed(subject + ": p_filesz <= p_memsz, and p_vaddr + p_memsz below 2^64",
                         "p_vaddr = " + hexadecimal(segment.p_vaddr) +
                             ", p_filesz = " + hexadecimal(segment.p_filesz) +
                             ", p_memsz = " + hexadecimal(segment.p_memsz));
      return false;
    }
    if (segment.p_align > 1 && (!std::has_single_bit(segment.p_align) ||
                                ((segment.p_vaddr - segment.p_offset) & (segment.p_align - 1)))) {
      failed = malformed(subject + ": p_vaddr and p_offset agree modulo p_align, a power of two",
                         "p_vaddr = " + hexadecimal(segment.p_vaddr) +
                             ", p_offset = " + hexadecimal(segment.p_offset) +
                             ", p_align = " + hexadecimal(segment.p_align));
      return false;
    }
    if (segment.p_vaddr < previous_end) {
      failed = malformed("PT_LOAD segments in ascending order without overlap",
                         subject + ": p_vaddr = " + hexadecimal(segment.p_vaddr) +
                             ", the one before ends at " + hexadecimal(previous_end));
      return false;
    }
    previous_end = end;
    loads_.push_back({segment.p_offset, segment.p_vaddr, segment.p_filesz});
    return true;
  });
  if (unread) return unread;
  if (failed) return failed;
  if (loads_.empty()) return malformed("a PT_LOAD program header", "none");
  return std::nullopt;
}

std::uint64_t Image::available(std::uint64_t address) const noexcept {
  // Ascending by address: the last segment that begins at or below.
  auto after = std::upper_bound(loads_.begin(), loads_.end(), address,
                                [](std::uint64_t a, const Segment& s) { return a < s.address; });
  if (after == loads_.begin()) return 0;
  const Segment& segment = *std::prev(after);
  const std::uint64_t inside = address - segment.address;
  return inside < segment.file_size ? segment.file_size - inside : 0;
}

Result<std::uint64_t> Image::locate(std::uint64_t address, std::uint64_t size,
                                    const char* field) const {
  auto after = std::upper_bound(loads_.begin(), loads_.end(), address,
                                [](std::uint64_t a, const Segment& s) { return a < s.address; });
  const std::uint64_t left = available(address);
  if (after == loads_.begin() || left == 0) {
    return malformed(std::string(field) + " at an address inside a PT_LOAD segment's file part",
                     std::string(field) + " = " + hexadecimal(address));
  }
  if (size > left) {
    return truncated(std::string(field) + " inside its segment, which ends after " +
                         hexadecimal(left) + " bytes",
                     "size " + hexadecimal(size));
  }
  if (size > kMaxTable) {
    return malformed(std::string(field) + " of at most " + hexadecimal(kMaxTable) + " bytes",
                     "size " + hexadecimal(size));
  }
  const Segment& segment = *std::prev(after);
  return segment.offset + (address - segment.address);
}

Check Image::read_dynamic() {
  if (!dynamic_segment_) return malformed("a PT_DYNAMIC program header", "none");
  const Segment& segment = *dynamic_segment_;
  // The linker reads at the address, tools at the offset: a file that shows them two tables lies.
  auto offset = locate(segment.address, segment.file_size, "PT_DYNAMIC");
  if (!offset) return offset.rejection();
  if (*offset != segment.offset) {
    return malformed("PT_DYNAMIC: p_offset where p_vaddr is mapped from, " + hexadecimal(*offset),
                     "p_offset = " + hexadecimal(segment.offset));
  }
  const std::uint64_t count = segment.file_size / sizeof(Elf64_Dyn);
  bool ended = false;
  bool too_many = count > kMaxDynamicEntries;
  bool pie = false;
  Check unread = each<Elf64_Dyn>(*offset, std::min(count, kMaxDynamicEntries),
                                 [&](const Elf64_Dyn& entry, std::uint64_t) {
                                   const std::uint64_t value = entry.d_un.d_val;
                                   switch (entry.d_tag) {
                                     case DT_NULL:
                                       ended = true;
                                       return false;
                                     case DT_NEEDED:
                                       if (!allowance_.take(sizeof(value))) {
                                         too_many = true;
                                         return false;
                                       }
                                       dynamic_.needed.push_back(value);
                                       break;
                                     case DT_SONAME:
                                       dynamic_.soname = value;
                                       break;
                                     case DT_RPATH:
                                       dynamic_.rpath = value;
                                       break;
                                     case DT_RUNPATH:
                                       dynamic_.runpath = value;
                                       break;
                                     case DT_STRTAB:
                                       dynamic_.strtab = value;
                                       break;
                                     case DT_STRSZ:
                                       dynamic_.strsz = value;
                                       break;
                                     case DT_SYMTAB:
                                       dynamic_.symtab = value;
                                       break;
                                     case DT_SYMENT:
                                       dynamic_.syment = value;
                                       break;
                                     case DT_HASH:
                                       dynamic_.hash = value;
                                       break;
                                     case DT_GNU_HASH:
                                       dynamic_.gnu_hash = value;
                                       break;
                                     case DT_VERSYM:
                                       dynamic_.versym = value;
                                       break;
                                     case DT_VERNEED:
                                       dynamic_.verneed = value;
                                       break;
                                     case DT_VERNEEDNUM:
                                       dynamic_.verneednum = value;
                                       break;
                                     case DT_VERDEF:
                                       dynamic_.verdef = value;
                                       break;
                                     case DT_VERDEFNUM:
                                       dynamic_.verdefnum = value;
                                       break;
                                     case DT_RELA:
                                       dynamic_.rela = value;
                                       break;
                                     case DT_RELASZ:
                                       dynamic_.relasz = value;
                                       break;
                                     case DT_JMPREL:
                                       dynamic_.jmprel = value;
                                       break;
                                     case DT_PLTRELSZ:
                                       dynamic_.pltrelsz = value;
                                       break;
                                     case DT_FLAGS_1:
                                       pie = (value & DF_1_PIE) != 0;
                                       break;
                                     default:
                                       break;
                                   }
                                   return true;
                                 });
  if (unread) return unread;
  if (!ended) {
    return malformed("PT_DYNAMIC ended by DT_NULL",
                     too_many
                         ? "none in the first " + std::to_string(kMaxDynamicEntries) + " entries"
                         : "none in " + std::to_string(count) + " entries");
  }
  if (pie) {
    return reject(rules::kContractNotShared, name_, "a shared object",
                  "DT_FLAGS_1 has DF_1_PIE: an executable");
  }
  return std::nullopt;
}

Check Image::locate_strings() {
  if (!dynamic_.strtab) {
    if (dynamic_.symtab || !dynamic_.needed.empty() || dynamic_.soname) {
      return malformed("DT_STRTAB", "none, but tables that refer to it");
    }
    return std::nullopt;
  }
  if (!dynamic_.strsz) return malformed("DT_STRSZ beside DT_STRTAB", "none");
  auto offset = locate(*dynamic_.strtab, *dynamic_.strsz, "DT_STRTAB");
  if (!offset) return offset.rejection();
  strings_offset_ = *offset;
  strings_size_ = *dynamic_.strsz;
  return std::nullopt;
}

Result<std::string> Image::text(std::uint64_t offset, const char* field) const {
  if (offset >= strings_size_) {
    return malformed(
        std::string(field) + " inside the string table of " + hexadecimal(strings_size_) + " bytes",
        "offset " + hexadecimal(offset));
  }
  const auto limit =
      static_cast<std::size_t>(std::min<std::uint64_t>(strings_size_ - offset, kMaxText + 1));
  std::string text;
  for (std::size_t step = 128; text.size() < limit; step *= 4) {
    const std::size_t had = text.size();
    text.resize(std::min(limit, had + step));
    if (!bytes_.read(strings_offset_ + offset + had, text.data() + had, text.size() - had)) {
      return shrunk();
    }
    if (const auto end = text.find('\0', had); end != std::string::npos) {
      text.resize(end);
      text.shrink_to_fit();
      return text;
    }
  }
  return malformed(std::string(field) + " ended by NUL inside the string table, within " +
                       std::to_string(kMaxText) + " bytes",
                   "no NUL in " + std::to_string(text.size()) + " bytes");
}

}  // namespace opmux::elf
