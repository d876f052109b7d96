// SPDX-License-Identifier: Apache-2.0
//
// METADATA, RECORD, direct_url.json, torch/version.py, pyvenv.cfg and ld.so.cache of any content.
#include <cstddef>
#include <cstdint>

#include "tests/discovery/read_all.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  opmux::testing::read_all({reinterpret_cast<const char*>(data), size});
  return 0;
}
