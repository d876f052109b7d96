// SPDX-License-Identifier: Apache-2.0
//
// One input through every reader of foreign bytes; what the fuzz target does and the corpus test
// replays.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/discovery/loader_cache.hpp"
#include "core/discovery/metadata.hpp"

namespace opmux::testing {

// What the readers found, of all kinds together. Each result is at most as long as its input.
inline std::size_t read_all(std::string_view bytes) {
  std::size_t found = 0;
  found += discovery::metadata_field(bytes, "Version").size();
  for (const std::string& path : discovery::record_paths(bytes)) found += path.size();
  if (const auto root = discovery::editable_root(bytes)) found += root->native().size();
  const auto torch = discovery::torch_version(bytes);
  found += torch.version.size() + torch.cuda.size();
  found += discovery::virtual_environment_config(bytes).home.native().size();
  for (const auto& path : discovery::cached_paths(bytes, "libm.so.6"))
    found += path.native().size();
  return found;
}

}  // namespace opmux::testing
