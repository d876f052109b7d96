// SPDX-License-Identifier: Apache-2.0
//
// Reads what the dynamic linker would see of an ELF file, through PT_DYNAMIC, without mapping it
// for execution. Hostile files are the normal case: every offset is checked against the file's
// size, nothing is allocated beyond a small multiple of the file, and no input ends the process.
// Thread safety: pure functions and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace opmux::elf {

enum class SymbolKind { kNone, kObject, kFunction, kThreadLocal, kIndirectFunction, kOther };

struct Symbol {
  std::string_view name;     // mangled; points into the ElfFile
  std::string_view version;  // "GLIBC_2.34" or empty
  SymbolKind kind = SymbolKind::kNone;
  bool defined = false;
  bool weak = false;
  bool unique = false;    // one for the whole process: what compilers emit of inline variables
  bool exported = false;  // defined, global, weak or unique, and not hidden
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

struct VersionNeed {
  std::string library;  // "libc.so.6"
  std::string version;  // "GLIBC_2.34"
  bool weak = false;
};

// Move-only; owns the string tables that its views point into.
struct ElfFile {
  ElfFile() = default;
  ElfFile(ElfFile&&) = default;
  ElfFile& operator=(ElfFile&&) = default;
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  std::string path;
  std::uint16_t machine = 0;
  std::string soname;
  std::vector<std::string> needed;
  std::vector<std::string>
      run_paths;  // RUNPATH, or RPATH where there is no RUNPATH, $ORIGIN unexpanded
  std::vector<VersionNeed> version_needs;
  std::vector<std::string> version_definitions;
  std::vector<Symbol> symbols;
  std::vector<std::byte> storage;

  const Symbol* find_exported(std::string_view name) const;
};

enum class Detail {
  kDependencies,  // everything but `symbols`: a few kilobytes are read, whatever the file's size
  kSymbols,
};

// Rules: contract.not_elf, contract.truncated, contract.malformed, contract.wrong_machine,
// contract.not_shared. Program and section headers that reach past the file's end are
// contract.truncated even where dlopen would accept them. The file is read through one descriptor
// with pread, never mapped: a file that shrinks meanwhile is contract.truncated, not SIGBUS.
Result<ElfFile> read(const std::filesystem::path& path, Detail detail = Detail::kSymbols);
Result<ElfFile> read_bytes(std::span<const std::byte> bytes, std::string_view name,
                           Detail detail = Detail::kSymbols);

// The text itself when it is no mangled name, or one whose readable form could be huge: a name of
// 300 bytes can ask for gigabytes of text through back references.
std::string demangle(std::string_view mangled);

}  // namespace opmux::elf
