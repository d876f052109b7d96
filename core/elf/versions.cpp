// SPDX-License-Identifier: Apache-2.0
#include "core/elf/versions.hpp"

#include <elf.h>

#include <string>

namespace opmux::elf {
namespace {

// An index has 15 bits, and glibc itself, the richest of all, defines about 50 versions. The cap
// keeps a chain that steps by single bytes from taking seconds.
constexpr std::size_t kMaxVersions = 8192;

template <class T>
Check read_entry(const Image& image, std::uint64_t address, const char* field, T& entry) {
  auto offset = image.locate(address, sizeof(entry), field);
  if (!offset) return offset.rejection();
  if (!image.bytes().read(*offset, &entry, sizeof(entry))) return image.shrunk();
  return std::nullopt;
}

Rejection too_many(const Image& image, const char* field) {
  return image.malformed(
      std::string(field) + " with at most " + std::to_string(kMaxVersions) + " entries", "more");
}

}  // namespace

Result<std::vector<NeededVersion>> read_needed_versions(const Image& image) {
  constexpr const char* kField = "DT_VERNEED";
  std::vector<NeededVersion> versions;
  if (!image.dynamic().verneed) return versions;
  std::uint64_t address = *image.dynamic().verneed;
  const std::uint64_t count = image.dynamic().verneednum.value_or(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i == kMaxVersions) return too_many(image, kField);
    Elf64_Verneed need{};
    if (Check failed = read_entry(image, address, kField, need)) return *failed;
    std::uint64_t detail = address + need.vn_aux;
    for (unsigned j = 0; j < need.vn_cnt; ++j) {
      if (versions.size() == kMaxVersions) return too_many(image, kField);
      Elf64_Vernaux version{};
      if (Check failed = read_entry(image, detail, kField, version)) return *failed;
      versions.push_back({need.vn_file, version.vna_name,
                          static_cast<std::uint16_t>(version.vna_other & 0x7fffU),
                          (version.vna_flags & VER_FLG_WEAK) != 0});
      if (version.vna_next == 0) break;
      detail += version.vna_next;
    }
    if (need.vn_next == 0) break;
    address += need.vn_next;
  }
  return versions;
}

Result<std::vector<DefinedVersion>> read_defined_versions(const Image& image) {
  constexpr const char* kField = "DT_VERDEF";
  std::vector<DefinedVersion> versions;
  if (!image.dynamic().verdef) return versions;
  std::uint64_t address = *image.dynamic().verdef;
  const std::uint64_t count = image.dynamic().verdefnum.value_or(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (versions.size() == kMaxVersions) return too_many(image, kField);
    Elf64_Verdef definition{};
    if (Check failed = read_entry(image, address, kField, definition)) return *failed;
    if (definition.vd_cnt != 0) {
      // The first name is the version's own, the others are those it extends.
      Elf64_Verdaux name{};
      if (Check failed = read_entry(image, address + definition.vd_aux, kField, name)) {
        return *failed;
      }
      versions.push_back({name.vda_name, static_cast<std::uint16_t>(definition.vd_ndx & 0x7fffU),
                          (definition.vd_flags & VER_FLG_BASE) != 0});
    }
    if (definition.vd_next == 0) break;
    address += definition.vd_next;
  }
  return versions;
}

}  // namespace opmux::elf
