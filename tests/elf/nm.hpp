// SPDX-License-Identifier: Apache-2.0
//
// What binutils' nm says that a file exports, to compare our own reader with.
#pragma once

#include <stdio.h>

#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>

namespace opmux::testing {

inline std::set<std::string> nm_exports(const std::filesystem::path& path) {
  const std::string command = std::string(OPMUX_NM) + " -D --defined-only '" + path.string() + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string output;
  for (char block[65536]; pipe;) {
    const std::size_t got = ::fread(block, 1, sizeof(block), pipe.get());
    if (got == 0) break;
    output.append(block, got);
  }
  std::set<std::string> names;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string value, type, name;
    words >> value >> type >> name;
    // Lower case stands for a local symbol, but for u (unique) and i (indirect function).
    if (type.size() != 1 || (type[0] >= 'a' && type != "u" && type != "i")) continue;
    names.insert(name.substr(0, name.find('@')));
  }
  return names;
}

}  // namespace opmux::testing
