// SPDX-License-Identifier: Apache-2.0
#include "core/elf/elf.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/text.hpp"
#include "core/elf/bytes.hpp"
#include "core/elf/image.hpp"
#include "core/elf/symbols.hpp"
#include "core/elf/versions.hpp"

namespace opmux::elf {
namespace {

SymbolKind kind_of(unsigned type) {
  switch (type) {
    case STT_NOTYPE:
      return SymbolKind::kNone;
    case STT_OBJECT:
    case STT_COMMON:
      return SymbolKind::kObject;
    case STT_FUNC:
      return SymbolKind::kFunction;
    case STT_TLS:
      return SymbolKind::kThreadLocal;
    case STT_GNU_IFUNC:
      return SymbolKind::kIndirectFunction;
    default:
      return SymbolKind::kOther;
  }
}

// Builds one ElfFile; a class only so that its steps share the image and the file.
class Reader {
 public:
  explicit Reader(Image& image) : image_(image) {
    file_.path = image.name();
    file_.machine = image.machine();
  }

  Result<ElfFile> read(Detail detail) {
    if (Check failed = read_names()) return *failed;
    if (Check failed = read_versions()) return *failed;
    if (detail == Detail::kSymbols) {
      if (Check failed = read_symbols()) return *failed;
    }
    return std::move(file_);
  }

 private:
  Rejection too_large() const {
    return image_.malformed("tables that do not overlap",
                            "tables that together are several times as large as the file");
  }

  Check take_text(std::uint64_t offset, const char* field, std::string& into) {
    auto text = image_.text(offset, field);
    if (!text) return text.rejection();
    if (!image_.allowance().take(text->size())) return too_large();
    into = *std::move(text);
    return std::nullopt;
  }

  Check read_names() {
    const Dynamic& dynamic = image_.dynamic();
    if (dynamic.soname) {
      if (Check failed = take_text(*dynamic.soname, "DT_SONAME", file_.soname)) return failed;
    }
    for (const std::uint64_t offset : dynamic.needed) {
      std::string name;
      if (Check failed = take_text(offset, "DT_NEEDED", name)) return failed;
      if (!image_.allowance().take(sizeof(std::string))) return too_large();
      file_.needed.push_back(std::move(name));
    }
    std::string paths;
    if (dynamic.runpath) {
      if (Check failed = take_text(*dynamic.runpath, "DT_RUNPATH", paths)) return failed;
    } else if (dynamic.rpath) {
      if (Check failed = take_text(*dynamic.rpath, "DT_RPATH", paths)) return failed;
    }
    for (std::string& path : split(paths, ':')) {
      if (!path.empty()) file_.run_paths.push_back(std::move(path));
    }
    return std::nullopt;
  }

  Check read_versions() {
    auto needed = read_needed_versions(image_);
    if (!needed) return needed.rejection();
    for (const NeededVersion& version : *needed) {
      VersionNeed need;
      if (Check failed = take_text(version.library, "DT_VERNEED", need.library)) return failed;
      if (Check failed = take_text(version.version, "DT_VERNEED", need.version)) return failed;
      if (!image_.allowance().take(sizeof(need))) return too_large();
      need.weak = version.weak;
      file_.version_needs.push_back(std::move(need));
      remember_version(version.index, version.version);
    }
    auto defined = read_defined_versions(image_);
    if (!defined) return defined.rejection();
    for (const DefinedVersion& version : *defined) {
      if (version.base) continue;
      std::string name;
      if (Check failed = take_text(version.version, "DT_VERDEF", name)) return failed;
      if (!image_.allowance().take(sizeof(std::string))) return too_large();
      file_.version_definitions.push_back(std::move(name));
      remember_version(version.index, version.version);
    }
    return std::nullopt;
  }

  void remember_version(std::uint16_t index, std::uint64_t name) {
    if (index >= version_names_.size()) version_names_.resize(index + std::size_t{1}, kNoName);
    version_names_[index] = name;
  }

  // The NUL-terminated string at `offset` of the loaded string table. `scanned_` bounds the work of
  // a table whose symbols all point into one long string.
  Check view_text(std::uint64_t offset, const char* field, std::string_view& into) {
    const std::uint64_t size = file_.storage.size();
    if (offset >= size) {
      return image_.malformed(
          std::string(field) + " inside the string table of " + hexadecimal(size) + " bytes",
          "offset " + hexadecimal(offset));
    }
    const char* begin = reinterpret_cast<const char*>(file_.storage.data()) + offset;
    const auto* end = static_cast<const char*>(std::memchr(begin, '\0', size - offset));
    if (end == nullptr) {
      return image_.malformed(std::string(field) + " ended by NUL inside the string table",
                              "no NUL after offset " + hexadecimal(offset));
    }
    into = std::string_view(begin, static_cast<std::size_t>(end - begin));
    scanned_ += into.size();
    if (scanned_ > size * 8 + 65536) {
      return image_.malformed("symbol names that share the string table sensibly",
                              "names that together are 8 times as long as the table");
    }
    return std::nullopt;
  }

  Check read_symbols() {
    auto count = count_symbols(image_);
    if (!count) return count.rejection();
    if (*count <= 1) return std::nullopt;
    const Dynamic& dynamic = image_.dynamic();
    if (*count > image_.bytes().size()) {
      return image_.truncated("DT_SYMTAB inside its segment", std::to_string(*count) + " symbols");
    }
    auto table = image_.locate(*dynamic.symtab, *count * sizeof(Elf64_Sym), "DT_SYMTAB");
    if (!table) return table.rejection();
    const std::uint64_t strings = image_.strings_size();
    if (!image_.allowance().take(strings + *count * (sizeof(Symbol) + sizeof(std::uint16_t)))) {
      return too_large();
    }
    file_.storage.resize(static_cast<std::size_t>(strings));
    if (!image_.bytes().read(image_.strings_offset(), file_.storage.data(), file_.storage.size())) {
      return image_.shrunk();
    }
    std::vector<std::uint16_t> versions;
    if (Check failed = read_symbol_versions(*count, versions)) return failed;

    // Version names as views, once each.
    std::vector<std::string_view> version_views(version_names_.size());
    for (std::size_t i = 0; i < version_names_.size(); ++i) {
      if (version_names_[i] == kNoName) continue;
      if (Check failed = view_text(version_names_[i], "version name", version_views[i])) {
        return failed;
      }
    }

    file_.symbols.reserve(static_cast<std::size_t>(*count - 1));
    Check failed;
    Check unread =
        image_.each<Elf64_Sym>(*table, *count, [&](const Elf64_Sym& entry, std::uint64_t index) {
          if (index == 0) return true;  // the reserved null symbol
          Symbol symbol;
          failed = view_text(entry.st_name, "st_name", symbol.name);
          if (failed) return false;
          symbol.kind = kind_of(ELF64_ST_TYPE(entry.st_info));
          symbol.defined = entry.st_shndx != SHN_UNDEF;
          symbol.weak = ELF64_ST_BIND(entry.st_info) == STB_WEAK;
          symbol.unique = ELF64_ST_BIND(entry.st_info) == STB_GNU_UNIQUE;
          symbol.exported = is_exported(entry);
          symbol.value = entry.st_value;
          symbol.size = entry.st_size;
          if (!versions.empty()) {
            const std::size_t version = versions[static_cast<std::size_t>(index)] & 0x7fffU;
            if (version < version_views.size()) symbol.version = version_views[version];
          }
          file_.symbols.push_back(symbol);
          return true;
        });
    return unread ? unread : failed;
  }

  Check read_symbol_versions(std::uint64_t count, std::vector<std::uint16_t>& versions) {
    if (!image_.dynamic().versym) return std::nullopt;
    versions.resize(static_cast<std::size_t>(count));
    const std::size_t size = versions.size() * sizeof(versions[0]);
    auto offset = image_.locate(*image_.dynamic().versym, size, "DT_VERSYM");
    if (!offset) return offset.rejection();
    if (!image_.bytes().read(*offset, versions.data(), size)) return image_.shrunk();
    return std::nullopt;
  }

  static constexpr std::uint64_t kNoName = ~std::uint64_t{0};

  Image& image_;
  ElfFile file_;
  std::vector<std::uint64_t> version_names_;  // by version index: offset into the string table
  std::uint64_t scanned_ = 0;
};

Result<ElfFile> read_from(Bytes bytes, std::string name, Detail detail) {
  auto image = Image::open(std::move(bytes), std::move(name));
  if (!image) return image.rejection();
  return read_image(*image, detail);
}

}  // namespace

Result<ElfFile> read_image(Image& image, Detail detail) { return Reader(image).read(detail); }

const Symbol* ElfFile::find_exported(std::string_view name) const {
  const auto found = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& symbol) {
    return symbol.exported && symbol.name == name;
  });
  return found == symbols.end() ? nullptr : &*found;
}

Result<ElfFile> read(const std::filesystem::path& path, Detail detail) {
  auto bytes = Bytes::open(path);
  if (!bytes) return bytes.rejection();
  return read_from(*std::move(bytes), path.string(), detail);
}

Result<ElfFile> read_bytes(std::span<const std::byte> bytes, std::string_view name, Detail detail) {
  return read_from(Bytes(bytes), std::string(name), detail);
}

}  // namespace opmux::elf
