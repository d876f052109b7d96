// SPDX-License-Identifier: Apache-2.0
//
// Asks one file whether it exports a name, as the dynamic linker asks: through the file's own hash
// table. Of a library with 150,000 symbols only the table's buckets are read, and a few bytes per
// question, which makes it some hundred times cheaper than reading all names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/elf/bytes.hpp"
#include "core/elf/elf.hpp"

namespace opmux::elf {

// Holds an open descriptor. Move-only; const functions may be called from several threads at once.
class ExportTable {
 public:
  // Rules as for elf::read.
  static Result<ExportTable> open(const std::filesystem::path& path);
  // `bytes` must outlive the table.
  static Result<ExportTable> open_bytes(std::span<const std::byte> bytes, std::string_view name);

  ExportTable(ExportTable&&) noexcept;
  ExportTable& operator=(ExportTable&&) noexcept;
  ~ExportTable();

  // Everything but symbols.
  const ElfFile& file() const noexcept;
  // Of any version. False too when the file shrank since it was opened.
  bool contains(std::string_view name) const;

 private:
  struct State;
  static Result<ExportTable> open_from(Bytes bytes, std::string name);
  explicit ExportTable(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace opmux::elf
