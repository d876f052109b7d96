// SPDX-License-Identifier: Apache-2.0
//
// Fixture libraries as bytes that a test may edit, and small ELF files made from nothing.
#pragma once

#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/rules.hpp"
#include "core/elf/elf.hpp"

namespace opmux::testing {

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(OPMUX_ELF_FIXTURES) / (name + ".so");
}

// Bytes that stand at the end of their allocation, so that a sanitizer sees a read past them.
class Image {
 public:
  Image() = default;
  explicit Image(std::string_view text) { append(text.data(), text.size()); }
  static Image of_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("no file " + path.string());
    return Image(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  static Image of_fixture(const std::string& name) { return of_file(fixture(name)); }

  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const std::byte> first(std::size_t count) const { return bytes().first(count); }

  template <class T>
  T get(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }
  template <class T>
  void put(std::size_t offset, const T& value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(value));
  }
  template <class T>
  std::size_t add(const T& value) {
    return append(&value, sizeof(value));
  }
  std::size_t append(const void* data, std::size_t count) {
    const std::size_t offset = bytes_.size();
    bytes_.resize(offset + count);
    if (count != 0) std::memcpy(bytes_.data() + offset, data, count);
    return offset;
  }
  void grow(std::size_t count) { bytes_.resize(bytes_.size() + count); }

  Elf64_Ehdr header() const { return get<Elf64_Ehdr>(0); }
  // Offset of the n-th program header of this type.
  std::size_t segment(std::uint32_t type, int n = 0) const {
    for (std::size_t i = 0; i < header().e_phnum; ++i) {
      const std::size_t offset = header().e_phoff + i * sizeof(Elf64_Phdr);
      if (get<Elf64_Phdr>(offset).p_type == type && n-- == 0) return offset;
    }
    throw std::runtime_error("no such program header");
  }
  // Offset of the value of a dynamic entry.
  std::size_t dynamic(std::int64_t tag) const {
    const auto table = get<Elf64_Phdr>(segment(PT_DYNAMIC));
    for (std::size_t at = table.p_offset; at < table.p_offset + table.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      if (get<Elf64_Dyn>(at).d_tag == tag) return at + offsetof(Elf64_Dyn, d_un);
    }
    throw std::runtime_error("no such dynamic entry");
  }
  std::uint64_t dynamic_value(std::int64_t tag) const { return get<std::uint64_t>(dynamic(tag)); }
  // File offset of what a dynamic entry's address refers to.
  std::size_t dynamic_target(std::int64_t tag) const {
    const std::uint64_t address = dynamic_value(tag);
    for (int n = 0;; ++n) {
      const auto load = get<Elf64_Phdr>(segment(PT_LOAD, n));
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
  }

 private:
  std::vector<std::byte> bytes_;
};

// An ELF file of one segment in which every address equals its offset. Tables are appended with
// Image's functions; finish() writes the headers. Without section headers.
class SmallElf {
 public:
  SmallElf() { image_.grow(kHeaders); }

  Image& image() { return image_; }
  std::size_t align() {
    image_.grow((16 - image_.size() % 16) % 16);
    return image_.size();
  }
  void dynamic(std::int64_t tag, std::uint64_t value) { dynamic_.push_back({tag, {value}}); }

  Image finish() {
    const std::size_t table = align();
    dynamic(DT_NULL, 0);
    for (const Elf64_Dyn& entry : dynamic_) image_.add(entry);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
#if defined(__aarch64__)
    header.e_machine = EM_AARCH64;
#else
    header.e_machine = EM_X86_64;
#endif
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof(header);
    header.e_ehsize = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    image_.put(0, header);
    Elf64_Phdr load{};
    load.p_type = PT_LOAD;
    load.p_filesz = load.p_memsz = image_.size();
    load.p_align = 0x1000;
    image_.put(sizeof(header), load);
    Elf64_Phdr segment{};
    segment.p_type = PT_DYNAMIC;
    segment.p_offset = segment.p_vaddr = table;
    segment.p_filesz = segment.p_memsz = dynamic_.size() * sizeof(Elf64_Dyn);
    image_.put(sizeof(header) + sizeof(load), segment);
    return std::move(image_);
  }

 private:
  static constexpr std::size_t kHeaders = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  Image image_;
  std::vector<Elf64_Dyn> dynamic_;
};

inline Result<elf::ElfFile> read(const Image& image) {
  return elf::read_bytes(image.bytes(), "fixture.so");
}

// Expects the exact rejection.
inline void expect_rejected(const Result<elf::ElfFile>& result, const Rule& rule,
                            const std::string& expected, const std::string& found) {
  ASSERT_FALSE(result.ok()) << "accepted";
  EXPECT_EQ(result.rejection().rule, rule.id);
  EXPECT_EQ(result.rejection().stage, "contract");
  EXPECT_EQ(result.rejection().expected, expected);
  EXPECT_EQ(result.rejection().found, found);
  EXPECT_EQ(result.rejection().hint, rule.remedy);
}

}  // namespace opmux::testing
