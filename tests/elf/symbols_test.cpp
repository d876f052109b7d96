// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/elf/elf.hpp"
#include "core/elf/exports.hpp"
#include "tests/elf/fixtures.hpp"
#include "tests/elf/nm.hpp"

namespace opmux {
namespace {

using elf::Symbol;
using elf::SymbolKind;
using testing::fixture;
using testing::Image;
using testing::nm_exports;

const Symbol* find(const elf::ElfFile& file, std::string_view name) {
  const auto found = std::find_if(file.symbols.begin(), file.symbols.end(),
                                  [&](const Symbol& symbol) { return symbol.name == name; });
  return found == file.symbols.end() ? nullptr : &*found;
}

std::set<std::string> exports(const elf::ElfFile& file) {
  std::set<std::string> names;
  for (const Symbol& symbol : file.symbols) {
    if (symbol.exported) names.emplace(symbol.name);
  }
  return names;
}

// Built alike, found through different tables; the result must not differ.
class EveryForm : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryForm, ShowsEachKindOfSymbol) {
  const auto file = elf::read(fixture(GetParam()));
  ASSERT_TRUE(file.ok()) << to_string(file.rejection());

  const Symbol* function = file->find_exported("fixture_function");
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function->kind, SymbolKind::kFunction);
  EXPECT_TRUE(function->defined);
  EXPECT_FALSE(function->weak);
  EXPECT_GT(function->size, 0U);
  EXPECT_NE(function->value, 0U);

  const Symbol* data = file->find_exported("fixture_data");
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->kind, SymbolKind::kObject);
  EXPECT_EQ(data->size, sizeof(int));

  const Symbol* thread_local_data = file->find_exported("fixture_thread_local");
  ASSERT_NE(thread_local_data, nullptr);
  EXPECT_EQ(thread_local_data->kind, SymbolKind::kThreadLocal);

  const Symbol* assembly = file->find_exported("fixture_assembly");
  ASSERT_NE(assembly, nullptr);
  EXPECT_EQ(assembly->kind, SymbolKind::kNone);
  EXPECT_EQ(assembly->size, 0U);

  const Symbol* weak = file->find_exported("fixture_weak");
  ASSERT_NE(weak, nullptr);
  EXPECT_TRUE(weak->weak);

  EXPECT_NE(file->find_exported("fixture_protected"), nullptr);
  const Symbol* add = file->find_exported("_ZN7fixture3addERKNS_5ThingES2_");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(elf::demangle(add->name), "fixture::add(fixture::Thing const&, fixture::Thing const&)");

  const Symbol* imported = find(*file, "fixture_imported");
  ASSERT_NE(imported, nullptr);
  EXPECT_FALSE(imported->defined);
  EXPECT_FALSE(imported->exported);
  EXPECT_FALSE(imported->weak);
  const Symbol* weak_import = find(*file, "fixture_weak_import");
  ASSERT_NE(weak_import, nullptr);
  EXPECT_FALSE(weak_import->defined);
  EXPECT_TRUE(weak_import->weak);

  EXPECT_EQ(file->find_exported("fixture_imported"), nullptr);
  EXPECT_EQ(find(*file, "_ZN7fixture15hidden_functionEi"), nullptr);
  EXPECT_EQ(find(*file, "_ZN7fixtureL14local_functionEi"), nullptr);
}

TEST_P(EveryForm, AgreesWithNm) {
  const auto file = elf::read(fixture(GetParam()));
  ASSERT_TRUE(file.ok());
  const auto expected = nm_exports(fixture(GetParam()));
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(exports(*file), expected);
}

TEST_P(EveryForm, ExportTableAnswersAsTheListDoes) {
  const auto file = elf::read(fixture(GetParam()));
  ASSERT_TRUE(file.ok());
  const auto table = elf::ExportTable::open(fixture(GetParam()));
  ASSERT_TRUE(table.ok()) << to_string(table.rejection());
  const auto names = exports(*file);
  for (const Symbol& symbol : file->symbols) {
    EXPECT_EQ(table->contains(symbol.name), names.contains(std::string(symbol.name)))
        << symbol.name;
  }
  EXPECT_FALSE(table->contains(""));
  EXPECT_FALSE(table->contains("fixture_functio"));
  EXPECT_FALSE(table->contains("fixture_function2"));
  EXPECT_EQ(table->file().needed, file->needed);
  EXPECT_TRUE(table->file().symbols.empty());
}

INSTANTIATE_TEST_SUITE_P(Elf, EveryForm,
                         ::testing::Values("elf_fixture_gnu", "elf_fixture_sysv",
                                           "elf_fixture_both", "elf_fixture_stripped"));

TEST(ElfSymbols, AreFoundWithoutSectionHeaders) {
  Image image = Image::of_fixture("elf_fixture_gnu");
  const auto whole = read(image);
  image.put(offsetof(Elf64_Ehdr, e_shoff), std::uint64_t{0});
  image.put(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0});
  image.put(offsetof(Elf64_Ehdr, e_shstrndx), std::uint16_t{0});
  const auto result = read(image);
  ASSERT_TRUE(result.ok()) << to_string(result.rejection());
  EXPECT_EQ(exports(*result), exports(*whole));
  EXPECT_EQ(result->symbols.size(), whole->symbols.size());
}

TEST(ElfSymbols, ImportsAreFoundWhereNothingIsExported) {
  const auto file = elf::read(fixture("elf_fixture_no_exports"));
  ASSERT_TRUE(file.ok()) << to_string(file.rejection());
  EXPECT_TRUE(exports(*file).empty());
  EXPECT_NE(find(*file, "first_import"), nullptr);
  EXPECT_NE(find(*file, "second_import"), nullptr);
}

TEST(ElfSymbols, CarryTheirVersions) {
  const auto file = elf::read(fixture("elf_fixture_versioned"));
  ASSERT_TRUE(file.ok()) << to_string(file.rejection());
  EXPECT_EQ(file->version_definitions, (std::vector<std::string>{"FIXTURE_1.0", "FIXTURE_2.0"}));
  std::set<std::string> versions;
  for (const Symbol& symbol : file->symbols) {
    if (symbol.name == "versioned_function") versions.emplace(symbol.version);
  }
  EXPECT_EQ(versions, (std::set<std::string>{"FIXTURE_1.0", "FIXTURE_2.0"}));
  ASSERT_NE(file->find_exported("versioned_print"), nullptr);
  EXPECT_EQ(file->find_exported("versioned_print")->version, "FIXTURE_2.0");
  const Symbol* puts = find(*file, "puts");
  ASSERT_NE(puts, nullptr);
  EXPECT_TRUE(puts->version.starts_with("GLIBC_")) << puts->version;
  EXPECT_TRUE(std::any_of(
      file->version_needs.begin(), file->version_needs.end(), [&](const elf::VersionNeed& need) {
        return need.library == "libc.so.6" && need.version == puts->version && !need.weak;
      }));
}

TEST(ElfSymbols, NamesAndRunPathsAreRead) {
  const auto file = elf::read(fixture("elf_fixture_gnu"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->path, fixture("elf_fixture_gnu").string());
  EXPECT_EQ(file->soname, "libfixture.so.3");
  EXPECT_EQ(file->run_paths, (std::vector<std::string>{"$ORIGIN/../lib", "/opt/fixture"}));
  EXPECT_TRUE(std::count(file->needed.begin(), file->needed.end(), "libc.so.6")) << "NEEDED";
  const auto old = elf::read(fixture("elf_fixture_sysv"));
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->soname, "");
  EXPECT_EQ(old->run_paths, (std::vector<std::string>{"/opt/old"}));
}

TEST(ElfSymbols, DependenciesAloneAreTheSame) {
  const auto whole = elf::read(fixture("elf_fixture_versioned"));
  const auto part = elf::read(fixture("elf_fixture_versioned"), elf::Detail::kDependencies);
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(part.ok());
  EXPECT_TRUE(part->symbols.empty());
  EXPECT_TRUE(part->storage.empty());
  EXPECT_EQ(part->needed, whole->needed);
  EXPECT_EQ(part->version_definitions, whole->version_definitions);
  EXPECT_EQ(part->version_needs.size(), whole->version_needs.size());
}

TEST(ElfSymbols, ViewsOutliveAMove) {
  auto file = elf::read(fixture("elf_fixture_gnu"));
  ASSERT_TRUE(file.ok());
  const elf::ElfFile moved = *std::move(file);
  EXPECT_NE(moved.find_exported("fixture_function"), nullptr);
}

}  // namespace
}  // namespace opmux
