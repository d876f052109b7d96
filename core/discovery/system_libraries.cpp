// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "core/base/descriptor.hpp"
#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/discovery.hpp"
#include "core/discovery/folders.hpp"
#include "core/discovery/loader_cache.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
constexpr const char* kMultiarch = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
constexpr const char* kMultiarch = "aarch64-linux-gnu";
#else
#error "opmux knows x86-64 and AArch64"
#endif

constexpr std::size_t kCacheCap = 16 * 1024 * 1024;

// The linker passes over a library of another class or machine and goes on.
bool is_for_this_machine(const fs::path& path) {
  if (!discovery::is_file(path)) return false;
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  Elf64_Ehdr header{};
  return file.valid() &&
         ::read(file.get(), &header, sizeof(header)) == static_cast<ssize_t>(sizeof(header)) &&
         std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachine;
}

std::optional<std::uint32_t> read_word(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(value)) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// A string that ends inside the bytes; empty otherwise.
std::string_view read_text(std::string_view bytes, std::size_t offset) {
  if (offset >= bytes.size()) return {};
  const std::string_view rest = bytes.substr(offset);
  const std::size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

namespace discovery {

std::vector<fs::path> cached_paths(std::string_view bytes, std::string_view soname) {
  constexpr std::string_view kOldMagic = "ld.so-1.7.0";
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  if (bytes.substr(0, kOldMagic.size()) == kOldMagic) {
    // The older form: 12 bytes of magic, a count, entries of 12 bytes; the newer follows, aligned.
    const auto count = read_word(bytes, 12);
    if (!count) return {};
    const std::size_t start = (16 + std::size_t{*count} * 12 + 7) / 8 * 8;
    if (start >= bytes.size()) return {};
    bytes.remove_prefix(start);
  }
  if (bytes.substr(0, kMagic.size()) != kMagic) return {};
  constexpr std::size_t kHeaderSize = 48;
  constexpr std::size_t kEntrySize = 24;
  const auto count = read_word(bytes, kMagic.size());
  if (!count) return {};
  std::vector<fs::path> for_every_cpu;
  std::vector<fs::path> for_some;
  for (std::size_t i = 0; i < *count; ++i) {
    // An entry: flags, offset of the name, offset of the path, kernel version, 8 bytes of CPU
    // needs.
    const std::size_t entry = kHeaderSize + i * kEntrySize;
    const auto name = read_word(bytes, entry + 4);
    const auto path = read_word(bytes, entry + 8);
    const auto needs_low = read_word(bytes, entry + 16);
    const auto needs_high = read_word(bytes, entry + 20);
    if (!name || !path || !needs_low || !needs_high) break;
    if (read_text(bytes, *name) != soname) continue;
    const fs::path found(read_text(bytes, *path));
    if (!found.is_absolute()) continue;
    (*needs_low == 0 && *needs_high == 0 ? for_every_cpu : for_some).push_back(found);
  }
  for_every_cpu.insert(for_every_cpu.end(), for_some.begin(), for_some.end());
  return for_every_cpu;
}

}  // namespace discovery

fs::path find_system_library(const std::string& soname) {
  // A name with a slash would be a path, and an empty one a folder.
  if (soname.empty() || soname.find('/') != std::string::npos ||
      soname.find('\0') != std::string::npos)
    return {};
  if (const auto variable = environment_variable("LD_LIBRARY_PATH"))
    for (const std::string& part : split(*variable, ':'))
      for (const std::string& folder : split(part, ';'))
        // The linker reads an empty part as the current folder, which is not trusted here.
        if (!folder.empty() && folder.front() == '/')
          if (fs::path path = fs::path(folder) / soname; is_for_this_machine(path)) return path;

  const auto cache = read_regular_file("/etc/ld.so.cache", kCacheCap, rules::kDiscoveryUnreadable,
                                       rules::kDiscoveryUnreadable);
  if (cache.ok())
    for (fs::path& path : discovery::cached_paths(*cache, soname))
      if (is_for_this_machine(path)) return std::move(path);

  const std::array<fs::path, 9> folders = {fs::path("/lib") / kMultiarch,
                                           fs::path("/usr/lib") / kMultiarch, "/lib64",
                                           "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
                                           // Where container runtimes put the driver.
                                           "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"};
  for (const fs::path& folder : folders)
    if (fs::path path = folder / soname; is_for_this_machine(path)) return path;
  return {};
}

}  // namespace opmux
