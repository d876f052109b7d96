// SPDX-License-Identifier: Apache-2.0
#include "core/elf/form.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux::elf {
namespace {

static_assert(sizeof(void*) == 8, "the reader speaks ELF64 only, as every supported host does");

#if defined(__x86_64__)
constexpr std::uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kHostMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kHostMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr std::uint16_t kHostMachine = EM_PPC64;
#else
#error "add this host's e_machine"
#endif
constexpr unsigned char kHostData =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

std::string named(unsigned value, std::string_view name) {
  return std::to_string(value) + " (" + std::string(name) + ")";
}

std::string class_name(unsigned char value) {
  return named(value, value == ELFCLASS32   ? "32-bit"
                      : value == ELFCLASS64 ? "64-bit"
                                            : "no known class");
}

std::string data_name(unsigned char value) {
  return named(value, value == ELFDATA2LSB   ? "little-endian"
                      : value == ELFDATA2MSB ? "big-endian"
                                             : "no known byte order");
}

std::string machine_name(std::uint16_t value) {
  switch (value) {
    case EM_386:
      return named(value, "x86");
    case EM_X86_64:
      return named(value, "x86-64");
    case EM_ARM:
      return named(value, "ARM");
    case EM_AARCH64:
      return named(value, "AArch64");
    case EM_PPC64:
      return named(value, "PowerPC64");
    case EM_S390:
      return named(value, "S/390");
    case EM_RISCV:
      return named(value, "RISC-V");
    case EM_CUDA:
      return named(value, "CUDA device code");
    default:
      return named(value, "another machine");
  }
}

std::string type_name(std::uint16_t value) {
  switch (value) {
    case ET_REL:
      return named(value, "ET_REL, an object file");
    case ET_EXEC:
      return named(value, "ET_EXEC, an executable");
    case ET_DYN:
      return named(value, "ET_DYN, a shared object");
    case ET_CORE:
      return named(value, "ET_CORE, a core dump");
    default:
      return named(value, "no known type");
  }
}

// A file that is no ELF file, named by what it looks like.
std::string look_of(std::string_view start) {
  struct Look {
    std::string_view magic;
    const char* name;
  };
  using namespace std::string_view_literals;
  static constexpr std::array kLooks{
      Look{"#!"sv, "a script"},
      Look{"!<arch>\n"sv, "a static archive"},
      Look{"!<thin>\n"sv, "a thin static archive"},
      Look{"MZ"sv, "a PE (Windows) file"},
      Look{"\xfe\xed\xfa\xce"sv, "a Mach-O file"},
      Look{"\xfe\xed\xfa\xcf"sv, "a Mach-O file"},
      Look{"\xce\xfa\xed\xfe"sv, "a Mach-O file"},
      Look{"\xcf\xfa\xed\xfe"sv, "a Mach-O file"},
      Look{"\xca\xfe\xba\xbe"sv, "a Mach-O file"},
      Look{"PK\x03\x04"sv, "a zip archive"},
      Look{"\x1f\x8b"sv, "a gzip archive"},
      Look{"version https://git-lfs"sv, "a Git LFS pointer, not the file itself"},
      Look{"/* GNU ld script"sv, "a linker script"},
  };
  if (start.empty()) return "an empty file";
  for (const Look& look : kLooks) {
    if (start.starts_with(look.magic)) return look.name;
  }
  const bool text = std::all_of(start.begin(), start.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
  const std::string_view shown = start.substr(0, 16);
  if (text) return "a text file that begins with \"" + printable(shown) + "\"";
  return "a file that begins with \"" + printable(shown) + "\"";
}

}  // namespace

Check check_form(const Bytes& bytes, const std::string& name, Elf64_Ehdr& header) {
  std::array<char, 64> start{};
  const std::size_t got =
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), start.size()));
  const bool readable = bytes.read(0, start.data(), got);
  const std::string_view text(start.data(), readable ? got : 0);
  if (!text.starts_with(std::string_view(ELFMAG, SELFMAG))) {
    return reject(rules::kContractNotElf, name, "an ELF shared object", look_of(text));
  }
  const auto wrong = [&](std::string expected, std::string found) {
    return reject(rules::kContractWrongMachine, name, std::move(expected), std::move(found));
  };
  if (text.size() < EI_NIDENT) {
    return reject(rules::kContractTruncated, name,
                  "an ELF header of " + std::to_string(sizeof(header)) + " bytes",
                  "a file of " + std::to_string(bytes.size()) + " bytes");
  }
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  if (byte(EI_CLASS) != ELFCLASS64) {
    return wrong("EI_CLASS = " + class_name(ELFCLASS64),
                 "EI_CLASS = " + class_name(byte(EI_CLASS)));
  }
  if (byte(EI_DATA) != kHostData) {
    return wrong("EI_DATA = " + data_name(kHostData), "EI_DATA = " + data_name(byte(EI_DATA)));
  }
  if (text.size() < sizeof(header)) {
    return reject(rules::kContractTruncated, name,
                  "an ELF header of " + std::to_string(sizeof(header)) + " bytes",
                  "a file of " + std::to_string(bytes.size()) + " bytes");
  }
  std::memcpy(&header, text.data(), sizeof(header));
  if (header.e_machine != kHostMachine) {
    return wrong("e_machine = " + machine_name(kHostMachine),
                 "e_machine = " + machine_name(header.e_machine));
  }
  if (byte(EI_OSABI) != ELFOSABI_SYSV && byte(EI_OSABI) != ELFOSABI_GNU) {
    return wrong("EI_OSABI = 0 (System V) or 3 (GNU)",
                 "EI_OSABI = " + std::to_string(byte(EI_OSABI)));
  }
  if (byte(EI_VERSION) != EV_CURRENT || header.e_version != EV_CURRENT) {
    return reject(rules::kContractMalformed, name, "EI_VERSION = 1, e_version = 1",
                  "EI_VERSION = " + std::to_string(byte(EI_VERSION)) +
                      ", e_version = " + std::to_string(header.e_version));
  }
  if (header.e_type != ET_DYN) {
    return reject(rules::kContractNotShared, name, "e_type = " + type_name(ET_DYN),
                  "e_type = " + type_name(header.e_type));
  }
  return std::nullopt;
}

}  // namespace opmux::elf
