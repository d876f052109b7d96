// SPDX-License-Identifier: Apache-2.0
//
// The parent's side of the protocol, fed by whatever a library made of the probe.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/probe/conversation.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // As one frame, so that the fuzzer need not find out about frames, and as the stream itself.
  opmux::probing::Conversation framed(1, 2, 2);
  framed.take(opmux::probing::encode_frame(R"({"type":"hello","protocol":2,"version":")" +
                                           std::string(opmux::probing::opmux_version()) + "\"}"));
  framed.take(opmux::probing::encode_frame(bytes));
  opmux::probing::Conversation stream(1, 2, 2);
  stream.take(bytes);
  return 0;
}
