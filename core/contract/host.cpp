// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>
#include <string>

#include "core/contract/contract.hpp"

namespace opmux {

HostFacts read_host_facts() {
  HostFacts facts;
  std::ifstream file("/proc/cpuinfo");
  // All processors are listed alike; on x86-64 the line is "flags", on AArch64 "Features".
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) facts.cpu_features.insert(word);
    break;
  }
  facts.driver = find_system_library("libcuda.so.1");
  return facts;
}

}  // namespace opmux
