// SPDX-License-Identifier: Apache-2.0
//
// The hash tables and the symbol table behind DT_SYMTAB. Inside core/elf only.
#pragma once

#include <elf.h>

#include <cstdint>

#include "core/base/result.hpp"
#include "core/elf/image.hpp"

namespace opmux::elf {

// DT_GNU_HASH, with file offsets of its parts.
struct GnuHash {
  std::uint32_t bucket_count = 0;
  std::uint32_t first_symbol = 0;  // symbols below are not in the table: undefined and local ones
  std::uint32_t bloom_words = 0;
  std::uint32_t bloom_shift = 0;
  std::uint64_t bloom_offset = 0;
  std::uint64_t buckets_offset = 0;
  std::uint64_t chains_offset = 0;
  std::uint64_t chain_capacity = 0;  // words until the segment ends
};
Result<GnuHash> read_gnu_hash(const Image& image);

// DT_HASH, with file offsets of its parts.
struct SystemVHash {
  std::uint32_t bucket_count = 0;
  std::uint32_t chain_count = 0;  // also the number of symbols
  std::uint64_t buckets_offset = 0;
  std::uint64_t chains_offset = 0;
};
Result<SystemVHash> read_system_v_hash(const Image& image);

// Number of entries of DT_SYMTAB, which nothing states outright. 0 without a symbol table.
Result<std::uint64_t> count_symbols(const Image& image);

// Whether the dynamic linker would offer this symbol to others.
inline bool is_exported(const Elf64_Sym& symbol) noexcept {
  const auto binding = ELF64_ST_BIND(symbol.st_info);
  const auto visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  return symbol.st_shndx != SHN_UNDEF &&
         (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE) &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

}  // namespace opmux::elf
