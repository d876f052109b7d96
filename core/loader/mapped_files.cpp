// SPDX-License-Identifier: Apache-2.0
#include "core/loader/mapped_files.hpp"

#include <link.h>

#include <cstddef>

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

}  // namespace opmux
