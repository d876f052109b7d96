// SPDX-License-Identifier: Apache-2.0
//
// Any text is either refused in words, or means the same after it was printed and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "plugins/direct_symbol/signature.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opmux::direct_symbol;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Signature signature;
  std::string why;
  if (parse_signature(text, signature, why)) {
    Signature again;
    // Printing writes spaces, so a text near the cap may grow past it.
    if (parse_signature(to_string(signature), again, why)) {
      if (!(again == signature)) std::abort();
    } else if (size < kMaximumLength / 2) {
      std::abort();
    }
  } else if (why.empty()) {
    std::abort();
  }
  Return returned;
  why.clear();
  if (!parse_return(text, returned, why) && why.empty()) std::abort();
  return 0;
}
