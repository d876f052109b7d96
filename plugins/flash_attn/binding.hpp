// SPDX-License-Identifier: Apache-2.0
//
// One operator bound to one of FlashAttention's functions. Made once, read by all threads, never
// destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/flash_attn/functions.hpp"

namespace opmux::flash_attn {

struct Binding {
  std::string name;  // of the function, for messages
  std::int32_t device_type = OPMUX_DEVICE_CUDA;
  VarlenForward* varlen = nullptr;     // flash_attn_varlen_func
  KvcacheForward* kvcache = nullptr;   // flash_attn_with_kvcache
  bool int_lengths = false;            // cache_seqlens is an int
  std::vector<std::string> arguments;  // of the operator
  std::size_t index = 0;               // of this thread's frame
};

OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) noexcept;

// OpmuxBound.call of the operators.
OpmuxStatus call_varlen(void* binding, const OpmuxCall* call) noexcept;
OpmuxStatus call_kvcache(void* binding, const OpmuxCall* call) noexcept;

}  // namespace opmux::flash_attn
