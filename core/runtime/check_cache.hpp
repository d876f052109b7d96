// SPDX-License-Identifier: Apache-2.0
//
// Remembers the outcomes of check_library and find_symbols between processes, so that a warm start
// reads no symbol table. The key holds what the check depends on, but for the folders that needed
// libraries are searched in: a rejection for something missing there is not kept. A broken, foreign
// or writable-by-others cache file is ignored. Thread safety: functions may be called concurrently,
// also by several processes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"

namespace opmux {

struct LibraryCheck {
  Check rejection;                            // nothing when the library passed
  std::vector<std::filesystem::path> needed;  // directly and in turn, of one that passed
  bool needs_cuda = false;  // imports torch's CUDA libraries, the CUDA runtime or the driver
};

// `cache_folder` may be empty: no cache.
LibraryCheck check_library_cached(const std::filesystem::path& path, const LibrarySource& source,
                                  const StaticCheckContext& context,
                                  const std::filesystem::path& cache_folder);

// As find_symbols.
Result<std::vector<std::string>> find_symbols_cached(const DirectSymbolContract& contract,
                                                     const std::filesystem::path& path,
                                                     const LibrarySource& source,
                                                     const StaticCheckContext& context,
                                                     const std::filesystem::path& cache_folder);

}  // namespace opmux
