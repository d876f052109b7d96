// SPDX-License-Identifier: Apache-2.0
//
// Asks an NVIDIA driver what it has, through its C functions by name. Only the probe does that:
// cuInit takes memory and threads, and makes a later fork of the process unsafe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/probe/probe.hpp"

namespace opmux::probing {

struct DriverFinding {
  int version = 0;  // as cuDriverGetVersion says
  std::vector<DeviceFinding> devices;
};

// `handle` is the driver's, mapped. A driver without a device is a finding without devices.
Result<DriverFinding> query_driver(void* handle, const std::filesystem::path& path);

}  // namespace opmux::probing
