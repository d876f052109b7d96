// SPDX-License-Identifier: Apache-2.0
//
// Devices and streams through libc10's virtual device guards, so that one module serves processes
// with and without CUDA and links nothing of it.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdint>
#include <optional>
#include <string>

#include "opmux/plugin.h"

namespace opmux::torch_shared {

// Torch's CUDA guards when the CUDA part of torch is mapped, else null. Touches no device.
const c10::impl::DeviceGuardImplInterface* cuda_guards() noexcept;

// The stream of `call` as torch numbers it: 0 is the legacy default stream, an even number is the
// cudaStream_t itself. Nothing for OPMUX_STREAM_NONE, a null handle, or the handle 1 (CUDA's name
// for the legacy default stream, which must be asked for by name).
std::optional<c10::StreamId> stream_id(std::uint32_t kind, void* stream) noexcept;

// The numbering above is no interface of torch: on the first CUDA call of the process it is tried
// on the device. Empty when it holds; else what did not. May throw what torch throws (no driver).
const std::string& stream_numbering_fault(const c10::impl::DeviceGuardImplInterface& guards,
                                          c10::Device device);

// Makes device and stream current for this thread, and what was current before again, also when
// the call throws.
class CurrentStream {
 public:
  CurrentStream(const c10::impl::DeviceGuardImplInterface& guards, c10::Device device,
                c10::StreamId stream)
      : guards_(guards),
        device_before_(guards.exchangeDevice(device)),
        stream_before_(exchange_or_restore(device, stream)) {}
  CurrentStream(const CurrentStream&) = delete;
  CurrentStream& operator=(const CurrentStream&) = delete;
  ~CurrentStream() {
    guards_.exchangeStream(stream_before_);
    guards_.uncheckedSetDevice(device_before_);
  }

 private:
  c10::Stream exchange_or_restore(c10::Device device, c10::StreamId stream) {
    try {
      return guards_.exchangeStream(c10::Stream(c10::Stream::UNSAFE, device, stream));
    } catch (...) {
      guards_.uncheckedSetDevice(device_before_);
      throw;
    }
  }

  const c10::impl::DeviceGuardImplInterface& guards_;
  c10::Device device_before_;
  c10::Stream stream_before_;
};

extern const OpmuxDeviceServices kDeviceServices;

}  // namespace opmux::torch_shared
