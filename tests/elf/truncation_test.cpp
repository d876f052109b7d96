// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "core/elf/bytes.hpp"
#include "core/elf/elf.hpp"
#include "core/elf/image.hpp"
#include "tests/elf/fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using testing::expect_rejected;
using testing::fixture;
using testing::Image;
using testing::TemporaryFolder;

class Cut : public ::testing::TestWithParam<std::string> {};

// Stronger than every 512 bytes: every length.
TEST_P(Cut, AtEveryByteIsRejected) {
  const Image image = Image::of_fixture(GetParam());
  for (std::size_t length = 0; length < image.size(); ++length) {
    const Image cut(std::string_view(reinterpret_cast<const char*>(image.bytes().data()), length));
    const auto result = read(cut);
    ASSERT_FALSE(result.ok()) << "accepted when cut at " << length;
    ASSERT_EQ(result.rejection().rule,
              length < SELFMAG ? rules::kContractNotElf.id : rules::kContractTruncated.id)
        << "cut at " << length << ": " << to_string(result.rejection());
  }
  EXPECT_TRUE(read(image).ok());
}

INSTANTIATE_TEST_SUITE_P(Elf, Cut,
                         ::testing::Values("elf_fixture_gnu", "elf_fixture_sysv",
                                           "elf_fixture_stripped", "elf_fixture_versioned"));

TEST(ElfTruncation, FileCutInPlaceIsRejected) {
  const TemporaryFolder folder;
  const auto path = folder / "cut.so";
  std::filesystem::copy_file(fixture("elf_fixture_gnu"), path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, 512);
  const auto whole = elf::read(fixture("elf_fixture_gnu"));
  ASSERT_TRUE(whole.ok());
  const auto result = elf::read(path);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.rejection().rule, rules::kContractTruncated.id);
  EXPECT_EQ(result.rejection().subject, path.string());
  EXPECT_GT(size, 512U);
}

TEST(ElfTruncation, FileThatShrinksWhileReadIsRejectedWithoutSignal) {
  const TemporaryFolder folder;
  const auto path = folder / "shrinks.so";
  std::filesystem::copy_file(fixture("elf_fixture_gnu"), path);
  auto bytes = elf::Bytes::open(path);
  ASSERT_TRUE(bytes.ok());
  const std::string size = std::to_string(bytes->size());
  auto image = elf::Image::open(*std::move(bytes), path.string());
  ASSERT_TRUE(image.ok());
  std::filesystem::resize_file(path, 0);
  expect_rejected(elf::read_image(*image, elf::Detail::kSymbols), rules::kContractTruncated,
                  "a file of " + size + " bytes", "the file ended earlier while it was read");
}

TEST(ElfTruncation, SectionHeadersPastTheEndAreNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::string size = std::to_string(image.size());
  image.put(offsetof(Elf64_Ehdr, e_shoff), std::uint64_t{image.size() - 64});
  image.put(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{2});
  std::stringstream offset;
  offset << std::hex << image.size() - 64;
  expect_rejected(read(image), rules::kContractTruncated,
                  "section headers inside the file's " + size + " bytes",
                  "e_shoff = 0x" + offset.str() + ", 2 sections");
}

TEST(ElfTruncation, SectionPastTheEndIsNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::string size = std::to_string(image.size());
  const std::size_t section = image.header().e_shoff + sizeof(Elf64_Shdr);
  image.put(section + offsetof(Elf64_Shdr, sh_offset), std::uint64_t{0x7ffffffffffff000});
  image.put(section + offsetof(Elf64_Shdr, sh_size), std::uint64_t{0x10});
  expect_rejected(read(image), rules::kContractTruncated,
                  "section 1 inside the file's " + size + " bytes",
                  "offset 0x7ffffffffffff000, size 0x10");
}

TEST(ElfTruncation, ProgramHeadersPastTheEndAreNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::string size = std::to_string(image.size());
  image.put(offsetof(Elf64_Ehdr, e_phoff), ~std::uint64_t{0});
  image.put(offsetof(Elf64_Ehdr, e_phnum), std::uint16_t{2});
  expect_rejected(read(image), rules::kContractTruncated,
                  "program headers inside the file's " + size + " bytes",
                  "e_phoff: offset 0xffffffffffffffff, size 0x70");
}

TEST(ElfTruncation, SegmentPastTheEndIsNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const std::string size = std::to_string(image.size());
  const std::size_t load = image.segment(PT_LOAD);
  ASSERT_EQ(load, image.header().e_phoff);
  image.put(load + offsetof(Elf64_Phdr, p_filesz), std::uint64_t{0x100000});
  expect_rejected(read(image), rules::kContractTruncated,
                  "program header 0 inside the file's " + size + " bytes",
                  "offset 0x0, size 0x100000");
}

}  // namespace
}  // namespace opmux
