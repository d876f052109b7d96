// SPDX-License-Identifier: Apache-2.0
#include "core/loader/mapped_files.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace opmux {

std::vector<std::filesystem::path> mapped_files(std::string_view prefix) {
  struct Search {
    std::string_view prefix;
    std::vector<std::filesystem::path> found;
  } search{prefix, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* context) {
        auto& state = *static_cast<Search*>(context);
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        if (path.substr(path.rfind('/') + 1).starts_with(state.prefix))
          state.found.emplace_back(path);
        return 0;
      },
      &search);
  return search.found;
}

namespace {

// "08:01 1234": device and inode of the mapping that holds `address`; empty when there is none.
std::string file_mapped_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::string line;
  while (std::getline(maps, line)) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* const last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    if (first.ec != std::errc{} || first.ptr == last || *first.ptr != '-') continue;
    if (std::from_chars(first.ptr + 1, last, end, 16).ec != std::errc{}) continue;
    if (wanted < begin || wanted >= end) continue;
    // address perms offset device inode path
    std::istringstream fields(line);
    std::string range, permissions, offset, device, inode;
    fields >> range >> permissions >> offset >> device >> inode;
    if (inode.empty() || inode == "0") return {};
    return device.append(" ").append(inode);
  }
  return {};
}

}  // namespace

std::optional<bool> is_mapping_of(const void* address, int descriptor) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const own = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (own == MAP_FAILED) return std::nullopt;
  const std::string expected = file_mapped_at(own);
  const std::string found = file_mapped_at(address);
  ::munmap(own, page);
  if (expected.empty() || found.empty()) return std::nullopt;
  return expected == found;
}

}  // namespace opmux
