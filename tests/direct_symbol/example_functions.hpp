// SPDX-License-Identifier: Apache-2.0
//
// tests/fakes/torch_functions.cpp, and what a host does to bind its functions by hand.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "tests/support/plugin_module.hpp"

namespace opmux::testing {

// Torch and the module, mapped once per process.
const OpmuxModule& direct_symbol_module();
// The library of functions, mapped once per process after them.
void* example_functions();
// What the last describe_* function of the library saw.
std::string description();
// The demangled name of the one exported function of that name, e.g. "example::doubled", with its
// parameters.
std::string example_symbol(const std::string& name);

struct BindOptions {
  std::string returns = "void";
  std::vector<std::int32_t> results = {};
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::uint32_t flags = 0;
  std::uint32_t result_flags = 0;
};

// A binding of a function of the library, or the reason why there is none.
class Bound {
 public:
  // `function` is a name as example_symbol() takes it, or a whole demangled name for the address of
  // example::forget().
  Bound(const std::string& operator_schema, const std::string& function,
        const std::vector<OpmuxCallSource>& sources, const BindOptions& options = {});

  OpmuxStatus status() const { return status_; }
  const std::string& reason() const { return reason_; }
  std::uint32_t copies() const { return bound_.copies; }

  // With TensorViews as values; an error's text is in take_error().
  OpmuxStatus operator()(std::initializer_list<OpmuxValue> values) const;
  const OpmuxBound& bound() const { return bound_; }

 private:
  OpmuxStatus status_ = OPMUX_OK;
  std::string reason_;
  OpmuxBound bound_{};
};

}  // namespace opmux::testing
