// SPDX-License-Identifier: Apache-2.0
#include "core/elf/symbols.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace opmux::elf {
namespace {

Check check_symbol_entry_size(const Image& image) {
  const std::uint64_t size = image.dynamic().syment.value_or(0);
  if (size == sizeof(Elf64_Sym)) return std::nullopt;
  return image.malformed("DT_SYMENT = " + std::to_string(sizeof(Elf64_Sym)),
                         "DT_SYMENT = " + std::to_string(size));
}

// One more than the highest symbol that a relocation table refers to.
Result<std::uint64_t> count_relocated(const Image& image, std::optional<std::uint64_t> address,
                                      std::optional<std::uint64_t> size, const char* field) {
  if (!address || size.value_or(0) == 0) return std::uint64_t{0};
  auto offset = image.locate(*address, *size, field);
  if (!offset) return offset.rejection();
  std::uint64_t highest = 0;
  Check unread = image.each<Elf64_Rela>(
      *offset, *size / sizeof(Elf64_Rela), [&](const Elf64_Rela& entry, std::uint64_t) {
        highest = std::max<std::uint64_t>(highest, ELF64_R_SYM(entry.r_info));
        return true;
      });
  if (unread) return *unread;
  return highest + 1;
}

Result<std::uint64_t> count_by_gnu_hash(const Image& image) {
  auto hash = read_gnu_hash(image);
  if (!hash) return hash.rejection();
  std::uint32_t highest = 0;
  Check unread = image.each<std::uint32_t>(hash->buckets_offset, hash->bucket_count,
                                           [&](std::uint32_t first, std::uint64_t) {
                                             highest = std::max(highest, first);
                                             return true;
                                           });
  if (unread) return *unread;
  if (highest == 0) {
    // Nothing is exported. GNU ld then writes 1 for the first symbol however many are imported, so
    // the imports are counted by what refers to them.
    auto data = count_relocated(image, image.dynamic().rela, image.dynamic().relasz, "DT_RELA");
    if (!data) return data.rejection();
    auto calls =
        count_relocated(image, image.dynamic().jmprel, image.dynamic().pltrelsz, "DT_JMPREL");
    if (!calls) return calls.rejection();
    return std::max({std::uint64_t{hash->first_symbol}, *data, *calls});
  }
  if (highest < hash->first_symbol) {
    return image.malformed(
        "DT_GNU_HASH buckets at or above its first symbol, " + std::to_string(hash->first_symbol),
        "a bucket that begins at symbol " + std::to_string(highest));
  }
  const std::uint64_t begin = highest - hash->first_symbol;
  // The chain ends at the first odd word; no chain is longer than the symbol table can be.
  const std::uint64_t symbols =
      image.available(image.dynamic().symtab.value_or(0)) / sizeof(Elf64_Sym);
  if (begin >= hash->chain_capacity || highest >= symbols) {
    return image.truncated("DT_GNU_HASH chains and their symbols inside the segment",
                           "a bucket that begins at symbol " + std::to_string(highest));
  }
  const std::uint64_t limit = std::min(hash->chain_capacity - begin, symbols - highest);
  std::uint64_t length = 0;
  unread = image.each<std::uint32_t>(hash->chains_offset + begin * sizeof(std::uint32_t), limit,
                                     [&](std::uint32_t word, std::uint64_t index) {
                                       if ((word & 1U) == 0) return true;
                                       length = index + 1;
                                       return false;
                                     });
  if (unread) return *unread;
  if (length == 0) {
    return image.truncated("the last DT_GNU_HASH chain ended inside the segment",
                           "no end in " + std::to_string(limit) + " symbols");
  }
  return highest + length;
}

}  // namespace

Result<GnuHash> read_gnu_hash(const Image& image) {
  const std::uint64_t address = image.dynamic().gnu_hash.value_or(0);
  std::array<std::uint32_t, 4> header{};
  auto offset = image.locate(address, sizeof(header), "DT_GNU_HASH");
  if (!offset) return offset.rejection();
  if (!image.bytes().read(*offset, header.data(), sizeof(header))) return image.shrunk();
  GnuHash hash;
  hash.bucket_count = header[0];
  hash.first_symbol = header[1];
  hash.bloom_words = header[2];
  hash.bloom_shift = header[3];
  if (hash.bucket_count == 0 || hash.bloom_words == 0 ||
      (hash.bloom_words & (hash.bloom_words - 1)) != 0) {
    return image.malformed("DT_GNU_HASH with buckets and a power of two of filter words",
                           std::to_string(hash.bucket_count) + " buckets, " +
                               std::to_string(hash.bloom_words) + " filter words");
  }
  // 32-bit counts: the sum cannot overflow 64 bits.
  const std::uint64_t size =
      sizeof(header) + std::uint64_t{hash.bloom_words} * 8 + std::uint64_t{hash.bucket_count} * 4;
  if (auto whole = image.locate(address, size, "DT_GNU_HASH"); !whole) return whole.rejection();
  hash.bloom_offset = *offset + sizeof(header);
  hash.buckets_offset = hash.bloom_offset + std::uint64_t{hash.bloom_words} * 8;
  hash.chains_offset = hash.buckets_offset + std::uint64_t{hash.bucket_count} * 4;
  hash.chain_capacity = (image.available(address) - size) / 4;
  return hash;
}

Result<SystemVHash> read_system_v_hash(const Image& image) {
  const std::uint64_t address = image.dynamic().hash.value_or(0);
  std::array<std::uint32_t, 2> header{};
  auto offset = image.locate(address, sizeof(header), "DT_HASH");
  if (!offset) return offset.rejection();
  if (!image.bytes().read(*offset, header.data(), sizeof(header))) return image.shrunk();
  SystemVHash hash;
  hash.bucket_count = header[0];
  hash.chain_count = header[1];
  const std::uint64_t size =
      sizeof(header) + (std::uint64_t{hash.bucket_count} + hash.chain_count) * 4;
  if (auto whole = image.locate(address, size, "DT_HASH"); !whole) return whole.rejection();
  hash.buckets_offset = *offset + sizeof(header);
  hash.chains_offset = hash.buckets_offset + std::uint64_t{hash.bucket_count} * 4;
  return hash;
}

Result<std::uint64_t> count_symbols(const Image& image) {
  const Dynamic& dynamic = image.dynamic();
  if (!dynamic.symtab) return std::uint64_t{0};
  if (Check failed = check_symbol_entry_size(image)) return *failed;
  if (!dynamic.hash && !dynamic.gnu_hash) {
    return image.malformed("DT_HASH or DT_GNU_HASH beside DT_SYMTAB", "neither");
  }
  if (auto first = image.locate(*dynamic.symtab, sizeof(Elf64_Sym), "DT_SYMTAB"); !first) {
    return first.rejection();
  }
  std::uint64_t count = 0;
  if (dynamic.hash) {
    auto hash = read_system_v_hash(image);
    if (!hash) return hash.rejection();
    count = hash->chain_count;
  }
  if (dynamic.gnu_hash) {
    auto by_gnu = count_by_gnu_hash(image);
    if (!by_gnu) return by_gnu.rejection();
    count = std::max(count, *by_gnu);
  }
  return count;
}

}  // namespace opmux::elf
