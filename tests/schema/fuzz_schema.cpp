// SPDX-License-Identifier: Apache-2.0
//
// Any text is either refused, or means the same after it was printed and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/schema/schema.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schema = opmux::schema::parse(text);
  if (!schema.ok()) return 0;
  const auto again = opmux::schema::parse(opmux::schema::to_string(*schema));
  // Printing writes escapes and spaces, so a text near the cap may grow past it.
  if (!again.ok()) {
    if (size < opmux::schema::kMaximumLength / 8) std::abort();
    return 0;
  }
  if (!opmux::schema::difference(*schema, *again).empty()) std::abort();
  return 0;
}
