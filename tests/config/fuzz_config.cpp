// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a configuration: an answer, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/config/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  const opmux::Result<opmux::Config> result = opmux::parse_config(text, "/etc/opmux/opmux.yaml");
  if (!result.ok() && result.rejection().rule.empty()) std::abort();
  return 0;
}
