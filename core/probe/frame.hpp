// SPDX-License-Identifier: Apache-2.0
//
// Frames of the probe's protocol: 8 bytes of magic, the payload's length as 64 bits, little-endian,
// the payload. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace opmux::probing {

inline constexpr std::string_view kFrameMagic = "opmuxfr\1";
inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::uint64_t kFrameCap = std::uint64_t{64} << 20;

std::string encode_frame(std::string_view payload);

// Takes bytes as they come and gives out payloads. The other side may be disturbed by whatever it
// loaded, so anything may stand in the bytes.
class FrameReader {
 public:
  enum class Next { kFrame, kIncomplete, kBroken };

  void append(std::string_view bytes);
  // Once kBroken, always kBroken: there is no way to find the next frame.
  Next next(std::string& payload);
  // What is wrong, after kBroken.
  const std::string& fault() const { return fault_; }

 private:
  std::string buffer_;
  std::size_t consumed_ = 0;
  std::string fault_;
};

}  // namespace opmux::probing
