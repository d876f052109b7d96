// SPDX-License-Identifier: Apache-2.0
//
// Files made to crash, hang or exhaust a reader.
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <new>

#include "core/elf/elf.hpp"
#include "core/elf/exports.hpp"
#include "tests/elf/fixtures.hpp"

namespace {

// Bytes that are allocated now, and the most since the last reset. Not thread-safe; the tests of
// this file use one thread.
std::size_t allocated = 0;
std::size_t highest = 0;

void* count_allocation(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  allocated += ::malloc_usable_size(memory);
  if (allocated > highest) highest = allocated;
  return memory;
}

void count_release(void* memory) {
  if (memory != nullptr) allocated -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return count_allocation(size); }
void* operator new[](std::size_t size) { return count_allocation(size); }
void operator delete(void* memory) noexcept { count_release(memory); }
void operator delete[](void* memory) noexcept { count_release(memory); }
void operator delete(void* memory, std::size_t) noexcept { count_release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { count_release(memory); }

namespace opmux {
namespace {

using testing::expect_rejected;
using testing::Image;
using testing::SmallElf;

// A sanitizer or a busy machine makes everything slower, not quadratic.
constexpr std::chrono::milliseconds kSoon{500};

// Reads with the limits that hold for every file: four times its size, and some for messages.
Result<elf::ElfFile> read_within_limits(const Image& image) {
  const std::size_t before = allocated;
  highest = allocated;
  const auto begin = std::chrono::steady_clock::now();
  auto result = read(image);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
  EXPECT_LT(highest - before, 4 * image.size() + 256 * 1024);
  return result;
}

// ---- tables that claim more than there is ----

TEST(ElfHostile, StringTableOfSixGibibytesIsTruncated) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.dynamic(DT_STRSZ), std::uint64_t{6} << 30);
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_TRUE(result.rejection().expected.starts_with("DT_STRTAB inside its segment"))
      << result.rejection().expected;
  EXPECT_EQ(result.rejection().found, "size 0x180000000");
}

TEST(ElfHostile, SectionsThatAreNotThereAreTruncated) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{65535});
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_NE(result.rejection().found.find(", 65535 sections"), std::string::npos);
}

TEST(ElfHostile, ManyEmptySectionsAreReadQuickly) {
  SmallElf small;
  Image image = small.finish();
  const std::uint64_t table = image.size();
  image.grow(std::size_t{65535} * sizeof(Elf64_Shdr));
  image.put(offsetof(Elf64_Ehdr, e_shoff), table);
  image.put(offsetof(Elf64_Ehdr, e_shentsize), static_cast<std::uint16_t>(sizeof(Elf64_Shdr)));
  image.put(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{65535});
  const auto result = read_within_limits(image);
  EXPECT_TRUE(result.ok()) << to_string(result.rejection());
}

TEST(ElfHostile, SectionCountInTheFirstEntryIsChecked) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0});
  image.put(image.header().e_shoff + offsetof(Elf64_Shdr, sh_size), ~std::uint64_t{0} / 64 + 2);
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_NE(result.rejection().found.find("288230376151711745 sections"), std::string::npos)
      << result.rejection().found;
}

// ---- sizes and offsets that make no sense ----

TEST(ElfHostile, EntrySizesOfZeroAreMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.dynamic(DT_SYMENT), std::uint64_t{0});
  expect_rejected(read_within_limits(image), rules::kContractMalformed, "DT_SYMENT = 24",
                  "DT_SYMENT = 0");
  image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_phentsize), std::uint16_t{0});
  expect_rejected(read_within_limits(image), rules::kContractMalformed, "e_phentsize = 56",
                  "e_phentsize = 0");
  image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_shentsize), std::uint16_t{0});
  expect_rejected(read_within_limits(image), rules::kContractMalformed, "e_shentsize = 64",
                  "e_shentsize = 0");
}

TEST(ElfHostile, NoProgramHeadersIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_phnum), std::uint16_t{0});
  expect_rejected(read_within_limits(image), rules::kContractMalformed, "program headers",
                  "e_phnum = 0");
}

TEST(ElfHostile, NegativeAddressesAreMalformed) {
  for (const std::int64_t tag : {DT_STRTAB, DT_SYMTAB, DT_GNU_HASH}) {
    Image image = Image::of_fixture("elf_fixture_gnu");
    image.put(image.dynamic(tag), ~std::uint64_t{7});
    const auto result = read_within_limits(image);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.rejection().rule, rules::kContractMalformed.id);
    EXPECT_NE(result.rejection().found.find("= 0xfffffffffffffff8"), std::string::npos)
        << result.rejection().found;
  }
}

TEST(ElfHostile, SegmentThatWrapsAroundIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.segment(PT_LOAD) + offsetof(Elf64_Phdr, p_memsz), ~std::uint64_t{0});
  image.put(image.segment(PT_LOAD) + offsetof(Elf64_Phdr, p_vaddr), std::uint64_t{0x1000});
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractMalformed.id);
  EXPECT_NE(result.rejection().expected.find("p_vaddr + p_memsz below 2^64"), std::string::npos);
}

TEST(ElfHostile, OverlappingSegmentsAreMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::size_t second = image.segment(PT_LOAD, 1);
  image.put(second + offsetof(Elf64_Phdr, p_vaddr), std::uint64_t{0});
  image.put(second + offsetof(Elf64_Phdr, p_offset), std::uint64_t{0});
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractMalformed.id);
  EXPECT_EQ(result.rejection().expected, "PT_LOAD segments in ascending order without overlap");
}

TEST(ElfHostile, SegmentsThatShowToolsAnotherDynamicTableAreMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::size_t segment = image.segment(PT_DYNAMIC);
  const auto address = image.get<Elf64_Phdr>(segment).p_vaddr;
  image.put(segment + offsetof(Elf64_Phdr, p_vaddr), address + 16);
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().stage, "contract");
}

TEST(ElfHostile, NoDynamicTableIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.segment(PT_DYNAMIC), std::uint32_t{PT_NOTE});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "a PT_DYNAMIC program header", "none");
}

TEST(ElfHostile, DynamicTableWithoutEndIsMalformed) {
  SmallElf small;
  for (int i = 0; i < 100; ++i) small.dynamic(DT_DEBUG, 0);
  Image image = small.finish();
  image.put(image.size() - sizeof(Elf64_Dyn), std::int64_t{DT_DEBUG});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "PT_DYNAMIC ended by DT_NULL", "none in 101 entries");
}

// ---- names ----

TEST(ElfHostile, NamesOutsideTheStringTableAreMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::uint64_t size = image.dynamic_value(DT_STRSZ);
  image.put(image.dynamic(DT_NEEDED), size);
  std::stringstream hex;
  hex << std::hex << size;
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "DT_NEEDED inside the string table of 0x" + hex.str() + " bytes",
                  "offset 0x" + hex.str());
  image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.dynamic_target(DT_SYMTAB) + sizeof(Elf64_Sym), std::uint32_t{0xffffffff});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "st_name inside the string table of 0x" + hex.str() + " bytes",
                  "offset 0xffffffff");
}

TEST(ElfHostile, NameWithoutEndIsMalformed) {
  SmallElf small;
  const std::string name(200'000, 'x');
  const std::size_t strings = small.image().append(name.data(), name.size());
  small.dynamic(DT_STRTAB, strings);
  small.dynamic(DT_STRSZ, name.size());
  small.dynamic(DT_NEEDED, 1);
  expect_rejected(read_within_limits(small.finish()), rules::kContractMalformed,
                  "DT_NEEDED ended by NUL inside the string table, within 65536 bytes",
                  "no NUL in 65537 bytes");
}

// Adds DT_HASH with a given number of symbols and no buckets' content.
void add_hash(SmallElf& small, std::uint32_t symbols) {
  const std::size_t hash = small.align();
  small.image().add(std::uint32_t{1});
  small.image().add(symbols);
  small.image().grow((std::size_t{symbols} + 1) * 4);
  small.dynamic(DT_HASH, hash);
  small.dynamic(DT_SYMENT, sizeof(Elf64_Sym));
}

TEST(ElfHostile, ManySymbolsInOneLongNameTakeNoQuadraticTime) {
  SmallElf small;
  constexpr std::uint32_t kSymbols = 50'000;
  const std::string name(2'000'000, 'x');
  const std::size_t strings = small.image().append(name.data(), name.size() + 1);
  const std::size_t symbols = small.align();
  small.image().grow(kSymbols * sizeof(Elf64_Sym));
  add_hash(small, kSymbols);
  small.dynamic(DT_STRTAB, strings);
  small.dynamic(DT_STRSZ, name.size() + 1);
  small.dynamic(DT_SYMTAB, symbols);
  expect_rejected(read_within_limits(small.finish()), rules::kContractMalformed,
                  "symbol names that share the string table sensibly",
                  "names that together are 8 times as long as the table");
}

TEST(ElfHostile, TablesThatAllOverlapTheWholeFileStayWithinTheLimits) {
  // The string table, the symbol table and the hash table are each the whole file.
  SmallElf small;
  constexpr std::uint32_t kSymbols = 80'000;
  const std::size_t hash = small.align();
  small.image().add(std::uint32_t{1});
  small.image().add(kSymbols);
  small.image().grow(kSymbols * sizeof(Elf64_Sym));
  small.dynamic(DT_HASH, hash);
  small.dynamic(DT_SYMENT, sizeof(Elf64_Sym));
  small.dynamic(DT_SYMTAB, hash);
  small.dynamic(DT_STRTAB, 64);
  small.dynamic(DT_STRSZ, small.image().size() - 64);
  small.dynamic(DT_VERSYM, hash);
  const auto result = read_within_limits(small.finish());
  // Overlapping is no fault that the linker minds; exceeding the limits would be one of ours.
  ASSERT_TRUE(result.ok()) << to_string(result.rejection());
  EXPECT_EQ(result->symbols.size(), kSymbols - 1);
}

TEST(ElfHostile, NeededNamesThatRepeatOneLongNameAreMalformed) {
  SmallElf small;
  const std::string name(60'000, 'x');
  const std::size_t strings = small.image().append(name.data(), name.size() + 1);
  small.dynamic(DT_STRTAB, strings);
  small.dynamic(DT_STRSZ, name.size() + 1);
  for (int i = 0; i < 1'000; ++i) small.dynamic(DT_NEEDED, 0);
  expect_rejected(read_within_limits(small.finish()), rules::kContractMalformed,
                  "tables that do not overlap",
                  "tables that together are several times as large as the file");
}

// ---- hash tables ----

TEST(ElfHostile, SymbolTableWithoutHashTableIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.dynamic(DT_GNU_HASH) - 8, std::int64_t{DT_DEBUG});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "DT_HASH or DT_GNU_HASH beside DT_SYMTAB", "neither");
}

TEST(ElfHostile, GnuHashWithoutBucketsOrWithAnOddFilterIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::size_t hash = image.dynamic_target(DT_GNU_HASH);
  const auto words = image.get<std::uint32_t>(hash + 8);
  image.put(hash, std::uint32_t{0});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "DT_GNU_HASH with buckets and a power of two of filter words",
                  "0 buckets, " + std::to_string(words) + " filter words");
  image.put(hash, std::uint32_t{1});
  image.put(hash + 8, std::uint32_t{3});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "DT_GNU_HASH with buckets and a power of two of filter words",
                  "1 buckets, 3 filter words");
}

TEST(ElfHostile, GnuHashThatClaimsFourBillionBucketsIsTruncated) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(image.dynamic_target(DT_GNU_HASH), std::uint32_t{0xffffffff});
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_TRUE(result.rejection().expected.starts_with("DT_GNU_HASH inside its segment"));
}

TEST(ElfHostile, GnuHashChainWithoutEndIsTruncated) {
  SmallElf small;
  small.align();
  const std::size_t symbols = small.image().size();
  small.image().grow(4 * sizeof(Elf64_Sym));
  const std::size_t strings = small.image().append("\0", 1);
  const std::size_t hash = small.align();
  for (const std::uint32_t word : {1U, 1U, 1U, 0U, 0U, 0U, 1U}) small.image().add(word);
  small.image().grow(400'000);  // even words: no chain ends
  small.dynamic(DT_STRTAB, strings);
  small.dynamic(DT_STRSZ, 1);
  small.dynamic(DT_SYMTAB, symbols);
  small.dynamic(DT_SYMENT, sizeof(Elf64_Sym));
  small.dynamic(DT_GNU_HASH, hash);
  const auto result = read_within_limits(small.finish());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_EQ(result.rejection().expected, "the last DT_GNU_HASH chain ended inside the segment");
}

TEST(ElfHostile, ClaimOfFourBillionSymbolsIsTruncated) {
  Image image = Image::of_fixture("elf_fixture_sysv");
  image.put(image.dynamic_target(DT_HASH) + 4, std::uint32_t{0xffffffff});
  const auto result = read_within_limits(image);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_TRUE(result.rejection().expected.starts_with("DT_HASH inside its segment"));
}

TEST(ElfHostile, HashChainThatIsARingEndsTheSearch) {
  Image image = Image::of_fixture("elf_fixture_sysv");
  const std::size_t hash = image.dynamic_target(DT_HASH);
  const auto buckets = image.get<std::uint32_t>(hash);
  const auto chains = image.get<std::uint32_t>(hash + 4);
  for (std::uint32_t i = 0; i < buckets; ++i) image.put(hash + 8 + i * 4, std::uint32_t{1});
  for (std::uint32_t i = 0; i < chains; ++i) {
    image.put(hash + 8 + (buckets + i) * 4, std::uint32_t{1});
  }
  const auto table = elf::ExportTable::open_bytes(image.bytes(), "ring.so");
  ASSERT_TRUE(table.ok());
  EXPECT_FALSE(table->contains("fixture_function"));
}

// ---- versions ----

TEST(ElfHostile, VersionChainOfAllTheFileIsMalformed) {
  SmallElf small;
  const std::size_t strings = small.image().append("\0", 1);
  const std::size_t versions = small.align();
  Elf64_Verneed need{};
  need.vn_version = 1;
  need.vn_cnt = 0xffff;
  need.vn_aux = sizeof(need);
  small.image().add(need);
  Elf64_Vernaux detail{};
  detail.vna_next = sizeof(detail);
  for (int i = 0; i < 10'000; ++i) small.image().add(detail);
  small.dynamic(DT_STRTAB, strings);
  small.dynamic(DT_STRSZ, 1);
  small.dynamic(DT_VERNEED, versions);
  small.dynamic(DT_VERNEEDNUM, 1);
  expect_rejected(read_within_limits(small.finish()), rules::kContractMalformed,
                  "DT_VERNEED with at most 8192 entries", "more");
}

TEST(ElfHostile, VersionTableOutsideTheFileIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_versioned");
  image.put(image.dynamic(DT_VERNEED), std::uint64_t{0x7fffffff0000});
  expect_rejected(read_within_limits(image), rules::kContractMalformed,
                  "DT_VERNEED at an address inside a PT_LOAD segment's file part",
                  "DT_VERNEED = 0x7fffffff0000");
}

}  // namespace
}  // namespace opmux
