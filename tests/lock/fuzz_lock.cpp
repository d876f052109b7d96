// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a lock: an answer, never a crash or a hang; and what is read is written and read
// back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/lock/lock.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const opmux::Result<opmux::lock::Lock> lock = opmux::lock::parse(text, "opmux.lock");
  if (!lock.ok()) {
    if (lock.rejection().rule != std::string_view{"lock.form"}) std::abort();
    return 0;
  }
  const opmux::Result<std::string> written = opmux::lock::to_text(*lock);
  if (!written.ok()) std::abort();
  const opmux::Result<opmux::lock::Lock> again = opmux::lock::parse(*written, "opmux.lock");
  if (!again.ok() || !(*again == *lock)) std::abort();
  if (!opmux::lock::compare(*lock, *again, opmux::lock::Scope::kInputs).empty()) std::abort();
  return 0;
}
