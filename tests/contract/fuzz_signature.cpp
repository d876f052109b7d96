// SPDX-License-Identifier: Apache-2.0
//
// Two demangled names, one a line, whatever they are: they differ in words exactly when they
// differ, both ways, and one spelling is enough.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/contract/signature.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const std::string first(text.substr(0, line));
  const std::string second(text.substr(std::min(line + 1, text.size())));

  const std::string plain = opmux::plain_spelling(first);
  if (opmux::plain_spelling(plain) != plain) std::abort();
  const opmux::Signature expected = opmux::parse_signature(first);
  const opmux::Signature found = opmux::parse_signature(second);
  if (!opmux::signature_difference(expected, expected).empty()) std::abort();
  if (opmux::signature_difference(expected, found).empty() !=
      opmux::signature_difference(found, expected).empty())
    std::abort();
  const std::vector<std::string> one{first};
  if (opmux::nearest_signature(expected, one) != first) std::abort();
  const std::vector<std::string> both{second, first};
  opmux::nearest_signature(expected, both);
  return 0;
}
