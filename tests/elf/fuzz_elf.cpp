// SPDX-License-Identifier: Apache-2.0
//
// Any bytes: neither reader ends the process, and both agree about what is exported.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/elf/elf.hpp"
#include "core/elf/exports.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = opmux::elf::read_bytes(bytes, "fuzz");
  const auto table = opmux::elf::ExportTable::open_bytes(bytes, "fuzz");
  // The table reads less, so it may accept more; never the other way round.
  if (file.ok() && !table.ok()) std::abort();
  if (!file.ok()) return 0;
  std::size_t shown = 0;
  for (const opmux::elf::Symbol& symbol : file->symbols) {
    // A damaged hash table may hide a symbol from the linker, so only claims are compared.
    if (table->contains(symbol.name) && file->find_exported(symbol.name) == nullptr) std::abort();
    if (opmux::elf::demangle(symbol.name).empty() != symbol.name.empty()) std::abort();
    if (++shown == 64) break;
  }
  return 0;
}
