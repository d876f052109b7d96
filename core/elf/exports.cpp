// SPDX-License-Identifier: Apache-2.0
#include "core/elf/exports.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/elf/bytes.hpp"
#include "core/elf/image.hpp"
#include "core/elf/symbols.hpp"

namespace opmux::elf {
namespace {

std::uint32_t gnu_hash_of(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::uint32_t system_v_hash_of(std::string_view name) {
  std::uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4U) + static_cast<unsigned char>(c);
    const std::uint32_t high = hash & 0xf0000000U;
    hash = (hash ^ (high >> 24U)) & ~high;
  }
  return hash;
}

}  // namespace

struct ExportTable::State {
  explicit State(Image opened) : image(std::move(opened)) {}

  Check load() {
    const Dynamic& dynamic = image.dynamic();
    auto count = count_symbols(image);
    if (!count) return count.rejection();
    symbol_count = *count;
    if (symbol_count <= 1) return std::nullopt;  // the null symbol alone
    if (symbol_count > image.bytes().size()) {
      return image.truncated("DT_SYMTAB inside its segment",
                             std::to_string(symbol_count) + " symbols");
    }
    auto table = image.locate(*dynamic.symtab, symbol_count * sizeof(Elf64_Sym), "DT_SYMTAB");
    if (!table) return table.rejection();
    symbols_offset = *table;
    if (dynamic.gnu_hash) {
      auto hash = read_gnu_hash(image);
      if (!hash) return hash.rejection();
      gnu = *hash;
      bloom.resize(gnu.bloom_words);
      buckets.resize(gnu.bucket_count);
      if (!image.bytes().read(gnu.bloom_offset, bloom.data(), bloom.size() * 8) ||
          !image.bytes().read(gnu.buckets_offset, buckets.data(), buckets.size() * 4)) {
        return image.shrunk();
      }
      return std::nullopt;
    }
    auto hash = read_system_v_hash(image);
    if (!hash) return hash.rejection();
    system_v = *hash;
    buckets.resize(system_v.bucket_count);
    if (!image.bytes().read(system_v.buckets_offset, buckets.data(), buckets.size() * 4)) {
      return image.shrunk();
    }
    return std::nullopt;
  }

  bool exports(std::uint64_t index, std::string_view name) const {
    if (index >= symbol_count) return false;
    Elf64_Sym symbol{};
    if (!image.bytes().read(symbols_offset + index * sizeof(symbol), &symbol, sizeof(symbol))) {
      return false;
    }
    if (!is_exported(symbol)) return false;
    const std::uint64_t strings = image.strings_size();
    if (symbol.st_name >= strings || name.size() >= strings - symbol.st_name) return false;
    std::string text(name.size() + 1, '\0');
    return image.bytes().read(image.strings_offset() + symbol.st_name, text.data(), text.size()) &&
           text.back() == '\0' && std::string_view(text).substr(0, name.size()) == name;
  }

  bool contains_by_gnu_hash(std::string_view name) const {
    const std::uint32_t hash = gnu_hash_of(name);
    const std::uint64_t word = bloom[(hash / 64) & (gnu.bloom_words - 1)];
    const std::uint64_t mask = (std::uint64_t{1} << (hash % 64)) |
                               (std::uint64_t{1} << ((hash >> (gnu.bloom_shift & 31U)) % 64));
    if ((word & mask) != mask) return false;
    const std::uint32_t first = buckets[hash % gnu.bucket_count];
    if (first == 0 || first < gnu.first_symbol) return false;
    std::array<std::uint32_t, 16> chain{};
    for (std::uint64_t position = first - gnu.first_symbol; position < gnu.chain_capacity;) {
      const auto step = static_cast<std::size_t>(
          std::min<std::uint64_t>(chain.size(), gnu.chain_capacity - position));
      if (!image.bytes().read(gnu.chains_offset + position * 4, chain.data(), step * 4)) {
        return false;
      }
      for (std::size_t i = 0; i < step; ++i, ++position) {
        if ((chain[i] | 1U) == (hash | 1U) && exports(position + gnu.first_symbol, name)) {
          return true;
        }
        if ((chain[i] & 1U) != 0) return false;
      }
    }
    return false;
  }

  bool contains_by_system_v_hash(std::string_view name) const {
    if (buckets.empty()) return false;
    std::uint32_t index = buckets[system_v_hash_of(name) % buckets.size()];
    // At most one step per symbol: a chain may be a ring.
    for (std::uint32_t steps = 0; index != 0 && index < system_v.chain_count; ++steps) {
      if (steps == system_v.chain_count) return false;
      if (exports(index, name)) return true;
      if (!image.bytes().read(system_v.chains_offset + std::uint64_t{index} * 4, &index,
                              sizeof(index))) {
        return false;
      }
    }
    return false;
  }

  Image image;
  ElfFile file;
  std::uint64_t symbol_count = 0;
  std::uint64_t symbols_offset = 0;
  GnuHash gnu;
  SystemVHash system_v;
  std::vector<std::uint64_t> bloom;
  std::vector<std::uint32_t> buckets;
};

ExportTable::ExportTable(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ExportTable::ExportTable(ExportTable&&) noexcept = default;
ExportTable& ExportTable::operator=(ExportTable&&) noexcept = default;
ExportTable::~ExportTable() = default;

Result<ExportTable> ExportTable::open(const std::filesystem::path& path) {
  auto bytes = Bytes::open(path);
  if (!bytes) return bytes.rejection();
  return open_from(*std::move(bytes), path.string());
}

Result<ExportTable> ExportTable::open_bytes(std::span<const std::byte> bytes,
                                            std::string_view name) {
  return open_from(Bytes(bytes), std::string(name));
}

Result<ExportTable> ExportTable::open_from(Bytes bytes, std::string name) {
  auto image = Image::open(std::move(bytes), std::move(name));
  if (!image) return image.rejection();
  auto state = std::make_unique<State>(*std::move(image));
  auto file = read_image(state->image, Detail::kDependencies);
  if (!file) return file.rejection();
  state->file = *std::move(file);
  if (Check failed = state->load()) return *failed;
  return ExportTable(std::move(state));
}

const ElfFile& ExportTable::file() const noexcept { return state_->file; }

bool ExportTable::contains(std::string_view name) const {
  if (state_->symbol_count <= 1) return false;
  return state_->bloom.empty() ? state_->contains_by_system_v_hash(name)
                               : state_->contains_by_gnu_hash(name);
}

}  // namespace opmux::elf
