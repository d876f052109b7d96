// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/elf/elf.hpp"
#include "tests/elf/fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using testing::expect_rejected;
using testing::Image;
using testing::TemporaryFolder;
using namespace std::string_literals;

struct Foreign {
  std::string content;
  std::string found;
};
class ForeignFile : public ::testing::TestWithParam<Foreign> {};

TEST_P(ForeignFile, IsNamedByWhatItLooksLike) {
  const TemporaryFolder folder;
  const auto path = folder.write("_C.abi3.so", GetParam().content);
  const auto result = elf::read(path);
  expect_rejected(result, rules::kContractNotElf, "an ELF shared object", GetParam().found);
  EXPECT_EQ(result.rejection().subject, path.string());
}

INSTANTIATE_TEST_SUITE_P(
    Elf, ForeignFile,
    ::testing::Values(
        Foreign{"", "an empty file"},
        Foreign{"not a library\n", "a text file that begins with \"not a library\\x0a\""},
        Foreign{"#!/bin/sh\nexit 1\n", "a script"}, Foreign{"!<arch>\nfoo.o/", "a static archive"},
        Foreign{"MZ\x90\0\x03"s, "a PE (Windows) file"},
        Foreign{"\xcf\xfa\xed\xfe\x07\0\0\x01"s, "a Mach-O file"},
        Foreign{"\xca\xfe\xba\xbe\0\0\0\x02"s, "a Mach-O file"},
        Foreign{"PK\x03\x04....", "a zip archive"}, Foreign{"\x1f\x8b\x08\0"s, "a gzip archive"},
        Foreign{"version https://git-lfs.github.com/spec/v1\n",
                "a Git LFS pointer, not the file itself"},
        Foreign{"/* GNU ld script */\nGROUP ( libc.so.6 )", "a linker script"},
        Foreign{"\x7f"
                "EL",
                "a file that begins with \"\\x7fEL\""},
        Foreign{std::string(32, '\0'), "a file that begins with \"" + [] {
                  std::string text;
                  for (int i = 0; i < 16; ++i) text += "\\x00";
                  return text;
                }() + "\""}));

TEST(ElfForm, AbsentFileIsRejectedWithTheSystemsReason) {
  expect_rejected(elf::read("/nonexistent/lib.so"), rules::kContractNotElf, "an ELF shared object",
                  "cannot be opened: No such file or directory");
}

TEST(ElfForm, FolderPipeAndSocketAreRefusedWithoutBlocking) {
  const TemporaryFolder folder;
  expect_rejected(elf::read(folder.path()), rules::kContractNotElf, "an ELF shared object",
                  "a folder");
  const auto pipe = folder / "pipe.so";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_rejected(elf::read(pipe), rules::kContractNotElf, "an ELF shared object", "a pipe");
  expect_rejected(elf::read("/dev/null"), rules::kContractNotElf, "an ELF shared object",
                  "a device");
}

TEST(ElfForm, ThirtyTwoBitClassIsNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(EI_CLASS, static_cast<unsigned char>(ELFCLASS32));
  expect_rejected(read(image), rules::kContractWrongMachine, "EI_CLASS = 2 (64-bit)",
                  "EI_CLASS = 1 (32-bit)");
}

TEST(ElfForm, BigEndianByteOrderIsNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(EI_DATA, static_cast<unsigned char>(ELFDATA2MSB));
  expect_rejected(read(image), rules::kContractWrongMachine, "EI_DATA = 1 (little-endian)",
                  "EI_DATA = 2 (big-endian)");
}

#if defined(__x86_64__)
TEST(ElfForm, OtherMachineIsNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_machine), std::uint16_t{EM_AARCH64});
  expect_rejected(read(image), rules::kContractWrongMachine, "e_machine = 62 (x86-64)",
                  "e_machine = 183 (AArch64)");
  image.put(offsetof(Elf64_Ehdr, e_machine), std::uint16_t{0x1234});
  expect_rejected(read(image), rules::kContractWrongMachine, "e_machine = 62 (x86-64)",
                  "e_machine = 4660 (another machine)");
}
#endif

TEST(ElfForm, OtherSystemAbiIsNamed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(EI_OSABI, static_cast<unsigned char>(ELFOSABI_FREEBSD));
  expect_rejected(read(image), rules::kContractWrongMachine, "EI_OSABI = 0 (System V) or 3 (GNU)",
                  "EI_OSABI = 9");
}

TEST(ElfForm, UnknownElfVersionIsMalformed) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_version), std::uint32_t{2});
  expect_rejected(read(image), rules::kContractMalformed, "EI_VERSION = 1, e_version = 1",
                  "EI_VERSION = 1, e_version = 2");
}

TEST(ElfForm, ExecutableTypeIsNotShared) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  image.put(offsetof(Elf64_Ehdr, e_type), std::uint16_t{ET_EXEC});
  expect_rejected(read(image), rules::kContractNotShared, "e_type = 3 (ET_DYN, a shared object)",
                  "e_type = 2 (ET_EXEC, an executable)");
  image.put(offsetof(Elf64_Ehdr, e_type), std::uint16_t{ET_REL});
  expect_rejected(read(image), rules::kContractNotShared, "e_type = 3 (ET_DYN, a shared object)",
                  "e_type = 1 (ET_REL, an object file)");
}

TEST(ElfForm, PositionIndependentExecutableIsNotShared) {
  const auto program = std::filesystem::path(OPMUX_ELF_FIXTURES) / "elf_fixture_program";
  expect_rejected(elf::read(program), rules::kContractNotShared, "a shared object",
                  "DT_FLAGS_1 has DF_1_PIE: an executable");
}

}  // namespace
}  // namespace opmux
