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

// The real path of a libpython that does nothing but tell its version: 3.98, 3.99 or 3.99t.
inline std::filesystem::path libpython(const std::string& version) {
  return std::filesystem::weakly_canonical(std::filesystem::path(OPMUX_FAKE_DIRECTORY) / "python" /
                                           ("libpython" + version + ".so.1.0"));
}

}  // namespace opmux::fakes
