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
#include "opmux/tensor_view.hpp"

namespace opmux::testing {

// Aborts the test program when a library does not load: nothing can be tested then.
void* load(const std::string& path, bool lazy = false);

template <class Function>
Function symbol(void* library, const char* name);
void* find_symbol(void* library, const char* name);
template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(find_symbol(library, name));
}

// Loads torch and the module once per process and starts listening.
const OpmuxModule& vllm_module();
// The empty library that providers need by name beside libtorch_cpu. It brings torch's CUDA part
// into the process where torch was built with one.
void load_libtorch();
const OpmuxHost& test_host();
// The reason that the module stored last on this thread, moved out.
std::string take_error();

// Schema text -> keys, of the registrations of one library.
std::map<std::string, std::vector<std::string>> registrations_of(const std::string& real_path);

inline OpmuxValue value(std::int64_t integer) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_INT;
  result.payload.integer = integer;
  return result;
}
inline OpmuxValue value(int integer) { return value(std::int64_t{integer}); }
inline OpmuxValue value(double real) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_FLOAT;
  result.payload.real = real;
  return result;
}
inline OpmuxValue value(bool flag) {
  OpmuxValue result = value(flag ? 1 : 0);
  result.tag = OPMUX_VALUE_BOOL;
  return result;
}
inline OpmuxValue value(const char* text) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_STRING;
  result.payload.string = text;
  return result;
}
inline OpmuxValue value(const TensorView& view) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_TENSOR;
  result.payload.tensor = &view.abi().tensor;
  return result;
}
inline OpmuxValue value(const OpmuxIntList& list) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_INT_LIST;
  result.payload.int_list = &list;
  return result;
}
inline OpmuxValue value(const OpmuxFloatList& list) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_FLOAT_LIST;
  result.payload.float_list = &list;
  return result;
}
inline OpmuxValue value(const OpmuxTensorList& list) {
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_TENSOR_LIST;
  result.payload.tensor_list = &list;
  return result;
}
inline OpmuxValue none() { return {}; }

inline OpmuxCallSource from(std::int32_t argument) {
  return {OPMUX_SOURCE_ARGUMENT, argument, OpmuxValue{}};
}
inline OpmuxCallSource constant(OpmuxValue given) { return {OPMUX_SOURCE_CONSTANT, -1, given}; }

struct BindOptions {
  std::string dispatch_key = "CPU";
  std::int32_t device_type = OPMUX_DEVICE_CPU;
  std::vector<std::int32_t> results = {};
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
