// SPDX-License-Identifier: Apache-2.0
//
// Calls of the native module's operators, through its table, with each target's kernels.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/native.hpp"
#include "tests/native/host.hpp"
#include "tests/native/tensors.hpp"

namespace opmux::test {

inline OpmuxValue none() { return {}; }

inline OpmuxValue value(TestTensor& tensor) {
  OpmuxValue result = {};
  result.tag = OPMUX_VALUE_TENSOR;
  result.payload.tensor = tensor.view();
  return result;
}

inline OpmuxValue value(int64_t number) {
  OpmuxValue result = {};
  result.tag = OPMUX_VALUE_INT;
  result.payload.integer = number;
  return result;
}
inline OpmuxValue value(int number) { return value(static_cast<int64_t>(number)); }

inline OpmuxValue value(bool truth) {
  OpmuxValue result = {};
  result.tag = OPMUX_VALUE_BOOL;
  result.payload.integer = truth ? 1 : 0;
  return result;
}

inline OpmuxValue value(double number) {
  OpmuxValue result = {};
  result.tag = OPMUX_VALUE_FLOAT;
  result.payload.real = number;
  return result;
}

inline const OpmuxModule& native_module() {
  const OpmuxModule* module = nullptr;
  EXPECT_EQ(opmux_native_open(serial_host(), &module), OPMUX_OK);
  return *module;
}

inline const OpmuxOperatorEntry& entry(std::string_view name) {
  const OpmuxModule& module = native_module();
  for (uint32_t i = 0; i < module.operator_count; ++i) {
    if (module.operators[i].name == name) return module.operators[i];
  }
  ADD_FAILURE() << "no operator " << name;
  return module.operators[0];
}

using Values = std::vector<OpmuxValue>;

inline OpmuxCall make_call(const Values& values, const OpmuxHost* host) {
  OpmuxCall call = {};
  call.struct_size = sizeof(OpmuxCall);
  call.device = {OPMUX_DEVICE_CPU, 0};
  call.value_count = static_cast<uint32_t>(values.size());
  call.values = values.data();
  call.host = host;
  return call;
}

// With the kernels of the module's own choice.
inline OpmuxStatus run(std::string_view name, const Values& values,
                       const OpmuxHost* host = serial_host()) {
  const OpmuxCall call = make_call(values, host);
  const OpmuxStatus status = entry(name).call(entry(name).context, &call);
  reset_workspace();
  return status;
}

// With the kernels of one target.
inline OpmuxStatus run_on(const native::KernelTable* kernels, std::string_view name,
                          const Values& values, const OpmuxHost* host = serial_host()) {
  const OpmuxCall call = make_call(values, host);
  const OpmuxStatus status = entry(name).call(const_cast<native::KernelTable*>(kernels), &call);
  reset_workspace();
  return status;
}

inline std::vector<const native::KernelTable*> targets() {
  const native::KernelTables tables = native::kernel_tables();
  return {tables.tables, tables.tables + tables.count};
}

// An error bound: `units` of 2^-24 of the exact value (one rounding to float32 is one), `absolute`
// besides, and what storing as `type` may add: half a unit in the last place of a 16-bit type.
struct Bound {
  double units = 0.0;
  double absolute = 0.0;
};

inline testing::AssertionResult close(Type type, double found, double exact, Bound bound) {
  if (std::isnan(exact)) {
    if (std::isnan(found)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "expected NaN, found " << found;
  }
  const double smallest = std::ldexp(1.0, -149);  // what a subnormal float32 is rounded to
  double allowed = bound.units * std::ldexp(std::abs(exact), -24) + bound.absolute + smallest;
  if (std::isinf(exact)) {
    if (found == exact) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "expected " << exact << ", found " << found;
  }
  if (type != Type::kFloat32) allowed += 0.5 * unit_in_last_place(type, exact);
  if (std::isinf(found)) {
    // Right when a value within the bound rounds to infinity.
    const double beyond = greatest(type) + 0.5 * unit_in_last_place(type, greatest(type));
    if (std::signbit(found) == std::signbit(exact) && std::abs(exact) + allowed >= beyond) {
      return testing::AssertionSuccess();
    }
  }
  if (std::abs(found - exact) <= allowed) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << name_of(type) << ": expected " << exact << ", found " << found << ", off by "
         << std::abs(found - exact) << " where " << allowed << " is allowed";
}

// A repeatable sequence, spread over [-1, 1).
inline double noise(int64_t index, uint64_t seed = 1) {
  uint64_t x = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 29;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1.0;
}

}  // namespace opmux::test
