// SPDX-License-Identifier: Apache-2.0
//
// What a host does to reach a plugin module, by hand, in a process without Python; and values and
// sources for its calls.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

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

const OpmuxHost& test_host();
// The reason that a module stored last on this thread, moved out.
std::string take_error();
// Maps libc10 and libtorch_cpu from a torch package's folder.
void load_torch(const std::string& folder);
// Maps and opens a module, which needs torch mapped before where it links torch.
const OpmuxModule& open_module(const char* path);
[[noreturn]] void give_up(const std::string& text);

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

inline OpmuxCallSource source(std::int32_t kind, std::int32_t argument, OpmuxValue given = {},
                              std::int32_t tensor = -1, std::int32_t index = 0) {
  return {kind, argument, given, tensor, index};
}
inline OpmuxCallSource from(std::int32_t argument) {
  return source(OPMUX_SOURCE_ARGUMENT, argument);
}
inline OpmuxCallSource constant(OpmuxValue given) {
  return source(OPMUX_SOURCE_CONSTANT, -1, given);
}
inline OpmuxCallSource item(std::int32_t argument, std::int32_t index) {
  return source(OPMUX_SOURCE_LIST_ITEM, argument, {}, -1, index);
}
inline OpmuxCallSource inverse_sqrt(std::int32_t argument, std::int32_t tensor,
                                    std::int32_t index) {
  return source(OPMUX_SOURCE_INVERSE_SQRT, argument, {}, tensor, index);
}

// One call on the bound function with TensorViews as values.
OpmuxStatus call_bound(const OpmuxBound& bound, std::initializer_list<OpmuxValue> values,
                       std::uint32_t flags = OPMUX_CALL_OWNED_TENSORS,
                       OpmuxDevice device = {OPMUX_DEVICE_CPU, 0},
                       std::uint32_t stream_kind = OPMUX_STREAM_NONE, void* stream = nullptr);

}  // namespace opmux::testing
