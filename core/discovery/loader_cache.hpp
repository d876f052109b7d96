// SPDX-License-Identifier: Apache-2.0
//
// The reader of /etc/ld.so.cache; private to this folder.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace opmux::discovery {

// The paths that the cache gives for a SONAME, those for every CPU before those for some. Empty
// when it has none, or when the bytes are not a cache of the form "glibc-ld.so.cache1.1" (alone or
// behind the older form), whatever they are.
std::vector<std::filesystem::path> cached_paths(std::string_view bytes, std::string_view soname);

}  // namespace opmux::discovery
