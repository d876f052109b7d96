// SPDX-License-Identifier: Apache-2.0
//
// What a host does to reach the Dispatcher, by hand: libtorch by absolute path, the plugin module,
// then provider libraries, in a process without Python.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "opmux/plugin.h"
#include "tests/support/plugin_module.hpp"

namespace opmux::testing {

// Loads torch and the module once per process and starts listening.
const OpmuxModule& vllm_module();
// The empty library that providers need by name beside libtorch_cpu. It brings torch's CUDA part
// into the process where torch was built with one.
void load_libtorch();

// Schema text -> keys, of the registrations of one library.
std::map<std::string, std::vector<std::string>> registrations_of(const std::string& real_path);

struct BindOptions {
  std::string dispatch_key = "CPU";
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::vector<std::int32_t> results = {};
  std::uint32_t result_flags = 0;
};

// A binding, or the reason why there is none.
class Bound {
 public:
  Bound(const std::string& operator_schema, const std::string& provider_schema,
        const std::vector<OpmuxCallSource>& sources, const BindOptions& options = {});

  OpmuxStatus status() const { return status_; }
  const std::string& reason() const { return reason_; }
  std::uint32_t copies() const { return bound_.copies; }

  // With TensorViews as values; an error's text is in take_error().
  OpmuxStatus operator()(std::initializer_list<OpmuxValue> values) const {
    return call(values, OPMUX_CALL_OWNED_TENSORS, {OPMUX_DEVICE_CPU, 0}, OPMUX_STREAM_NONE);
  }
  OpmuxStatus call(std::initializer_list<OpmuxValue> values, std::uint32_t flags,
                   OpmuxDevice device, std::uint32_t stream_kind, void* stream = nullptr) const;

 private:
  OpmuxStatus status_ = OPMUX_OK;
  std::string reason_;
  OpmuxBound bound_{};
};

}  // namespace opmux::testing
