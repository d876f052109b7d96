// SPDX-License-Identifier: Apache-2.0
//
// The values of a call where a binding can reach them: in host memory, or copied to a device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cli/example_inputs.hpp"
#include "opmux/opmux.hpp"

namespace opmux::cli {

// Not copyable: the values point into it. One thread at a time.
class PlacedCall {
 public:
  // `services` is null for the CPU. The call's tensors are copied.
  static StatusOr<std::unique_ptr<PlacedCall>> place(const ExampleCall& call, Device device,
                                                     const OpmuxDeviceServices* services);
  PlacedCall(const PlacedCall&) = delete;
  PlacedCall& operator=(const PlacedCall&) = delete;
  ~PlacedCall();

  const OpmuxValue* values() const { return values_.data(); }
  std::size_t count() const { return values_.size(); }
  Stream stream() const { return stream_; }

  // Waits for the device.
  Status synchronize() const;
  // The values as they are now, in host memory.
  StatusOr<ExampleCall> fetch() const;

 private:
  PlacedCall(ExampleCall call, Device device, const OpmuxDeviceServices* services);
  Status build();
  Status place_tensor(HostTensor& tensor, std::size_t index);

  struct Buffer {
    std::size_t argument;
    void* data;
    std::size_t bytes;
  };

  ExampleCall call_;
  Device device_;
  const OpmuxDeviceServices* services_;
  Stream stream_;
  std::vector<Buffer> buffers_;
  std::vector<OpmuxTensor> tensors_;  // one for each argument, so that pointers stay
  std::vector<OpmuxIntList> lists_;
  std::vector<OpmuxValue> values_;
};

}  // namespace opmux::cli
