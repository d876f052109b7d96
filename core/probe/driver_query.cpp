// SPDX-License-Identifier: Apache-2.0
#include "core/probe/driver_query.hpp"

#include <dlfcn.h>

#include <array>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux::probing {

namespace {

// Values of cuda.h, which is not needed to build.
constexpr int kSuccess = 0;
constexpr int kErrorNoDevice = 100;
constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;

template <class Function>
Function symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(dlsym(handle, name));
}

}  // namespace

Result<DriverFinding> query_driver(void* handle, const std::filesystem::path& path) {
  const auto init = symbol<int (*)(unsigned)>(handle, "cuInit");
  const auto version = symbol<int (*)(int*)>(handle, "cuDriverGetVersion");
  const auto count = symbol<int (*)(int*)>(handle, "cuDeviceGetCount");
  const auto device = symbol<int (*)(int*, int)>(handle, "cuDeviceGet");
  const auto name = symbol<int (*)(char*, int, int)>(handle, "cuDeviceGetName");
  const auto attribute = symbol<int (*)(int*, int, int)>(handle, "cuDeviceGetAttribute");
  const auto failed = [&path](std::string found) {
    return reject(rules::kContractNoDriver, printable(path.native()), "an NVIDIA driver",
                  std::move(found), "Repair the driver's installation; nvidia-smi must work.");
  };
  if (init == nullptr || version == nullptr || count == nullptr || device == nullptr ||
      name == nullptr || attribute == nullptr) {
    return failed("a library without the driver's functions");
  }
  DriverFinding finding;
  version(&finding.version);
  const int started = init(0);
  if (started == kErrorNoDevice) return finding;
  int devices = 0;
  if (started != kSuccess) return failed("cuInit fails with error " + std::to_string(started));
  if (const int error = count(&devices); error != kSuccess) {
    return failed("cuDeviceGetCount fails with error " + std::to_string(error));
  }
  for (int i = 0; i < devices; ++i) {
    DeviceFinding found{.index = i, .name = {}, .major = 0, .minor = 0};
    std::array<char, 256> text{};
    int handle_of_device = 0;
    if (device(&handle_of_device, i) != kSuccess ||
        name(text.data(), static_cast<int>(text.size()) - 1, handle_of_device) != kSuccess ||
        attribute(&found.major, kAttributeMajor, handle_of_device) != kSuccess ||
        attribute(&found.minor, kAttributeMinor, handle_of_device) != kSuccess) {
      return failed("device " + std::to_string(i) + " does not answer");
    }
    found.name = printable(text.data());
    finding.devices.push_back(std::move(found));
  }
  return finding;
}

}  // namespace opmux::probing
