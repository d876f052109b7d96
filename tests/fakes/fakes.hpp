// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace opmux::fakes {

// The real path of a fake library or plugin module; names are in tests/fakes/CMakeLists.txt.
inline std::filesystem::path path(const std::string& name) {
  return std::filesystem::weakly_canonical(std::filesystem::path(OPMUX_FAKE_DIRECTORY) /
                                           (name + ".so"));
}

}  // namespace opmux::fakes
