// SPDX-License-Identifier: Apache-2.0
//
// A file of the findings cache; the payload alone, too, which the checksum hides from the fuzzer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/probe/cache.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  opmux::probing::Digests digests;
  std::string fault;
  opmux::probing::parse_findings_file(bytes, digests, fault);
  if (const auto findings = opmux::probing::parse_findings(bytes, digests, fault)) {
    opmux::probing::to_json(*findings, digests);
  }
  return 0;
}
