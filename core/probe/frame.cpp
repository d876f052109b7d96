// SPDX-License-Identifier: Apache-2.0
#include "core/probe/frame.hpp"

#include "core/base/text.hpp"

namespace opmux::probing {

std::string encode_frame(std::string_view payload) {
  std::string frame(kFrameMagic);
  for (unsigned shift = 0; shift < 64; shift += 8) {
    frame.push_back(static_cast<char>((std::uint64_t{payload.size()} >> shift) & 0xff));
  }
  frame.append(payload);
  return frame;
}

void FrameReader::append(std::string_view bytes) {
  buffer_.erase(0, consumed_);
  consumed_ = 0;
  buffer_.append(bytes);
}

FrameReader::Next FrameReader::next(std::string& payload) {
  if (!fault_.empty()) return Next::kBroken;
  const std::string_view rest = std::string_view(buffer_).substr(consumed_);
  const std::string_view magic = rest.substr(0, kFrameMagic.size());
  // The part that is there already tells; waiting for the whole header could be waiting for ever.
  if (magic != kFrameMagic.substr(0, magic.size())) {
    fault_ = "bytes that begin no frame: \"" + printable(rest.substr(0, 32)) + "\"";
    return Next::kBroken;
  }
  if (rest.size() < kFrameHeaderBytes) return Next::kIncomplete;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto byte = static_cast<unsigned char>(rest[kFrameMagic.size() + i]);
    length |= std::uint64_t{byte} << (8 * i);
  }
  if (length > kFrameCap) {
    fault_ =
        "a frame of " + std::to_string(length) + " bytes, the cap is " + std::to_string(kFrameCap);
    return Next::kBroken;
  }
  if (rest.size() - kFrameHeaderBytes < length) return Next::kIncomplete;
  payload.assign(rest.substr(kFrameHeaderBytes, static_cast<std::size_t>(length)));
  consumed_ += kFrameHeaderBytes + static_cast<std::size_t>(length);
  return Next::kFrame;
}

}  // namespace opmux::probing
