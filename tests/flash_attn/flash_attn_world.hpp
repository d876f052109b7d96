// SPDX-License-Identifier: Apache-2.0
//
// The module bound to a fake of FlashAttention's library on the CPU, and calls whose arguments a
// test changes one at a time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "opmux/tensor_view.hpp"
#include "tests/fakes/flash_attn_functions.hpp"
#include "tests/support/plugin_module.hpp"

namespace opmux::testing {

// As the reference has them, for the demangled names of FlashAttention 2.8.3.
extern const char kVarlenSymbol[];
extern const char kKvcacheSymbol[];
extern const char kVarlenSchema[];
extern const char kKvcacheSchema[];
extern const char kKvcacheIntSchema[];

// Maps torch, the module and the fake once per process.
const OpmuxModule& flash_attn_module();
void* varlen_function();
void* kvcache_function();
const fakes::RecordedCall& recorded();
void clear_record();

struct BindArguments {
  std::string name;
  std::string schema;
  std::vector<std::string> symbol_names;
  std::vector<void*> symbols;
  std::int32_t contract = OPMUX_CONTRACT_DIRECT_SYMBOL;
  std::uint32_t flags = OPMUX_BIND_MODULE_MAPS;
  std::int32_t device_type = OPMUX_DEVICE_CPU;
};
BindArguments bind_arguments(const std::string& name);
// The reason of a refusal is in take_error().
OpmuxStatus bind(const BindArguments& arguments, OpmuxBound& bound);
// Bound to the fake; a failure of the test when that is refused.
OpmuxBound bound_operator(const std::string& name);

// float16 elements: 1.0 is 0x3C00, 2.0 is 0x4000.
inline constexpr std::uint16_t kOne = 0x3C00;
inline constexpr std::uint16_t kTwo = 0x4000;

// A tensor that owns its memory and can be given other dims, strides or dtype before a call.
struct TestTensor {
  TestTensor(DType dtype, std::vector<std::int64_t> dims, std::size_t item_size);

  std::vector<std::uint64_t> memory;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // empty: contiguous
  std::size_t offset = 0;             // bytes
  mutable OpmuxOwnedTensor abi{};

  OpmuxValue value() const;
  void* data() const {
    return reinterpret_cast<char*>(const_cast<std::uint64_t*>(memory.data())) + offset;
  }
  std::vector<std::uint16_t> halves() const;
  std::vector<float> floats() const;
};
TestTensor half_tensor(std::vector<std::int64_t> dims, std::uint16_t fill = kOne);
TestTensor float_tensor(std::vector<std::int64_t> dims, float fill = 0.0F);
TestTensor int_tensor(std::vector<std::int32_t> values);
TestTensor int_tensor(std::vector<std::int64_t> dims, std::int32_t fill);
// Every second element of the last dimension of one that is twice as wide.
TestTensor with_gaps(TestTensor tensor);
// The first row `size` times, by a stride of 0.
TestTensor repeated(TestTensor tensor, std::int64_t size);

inline OpmuxValue value(const std::optional<TestTensor>& tensor) {
  return tensor ? tensor->value() : none();
}

// Sequences of 3 and 2 queries over 4 and 2 keys; 4 heads over 2, head size 16.
struct VarlenCall {
  TestTensor q = half_tensor({5, 4, 16});
  TestTensor k = half_tensor({6, 2, 16});
  TestTensor v = half_tensor({6, 2, 16});
  TestTensor cu_seqlens_q = int_tensor({0, 3, 5});
  TestTensor cu_seqlens_k = int_tensor({0, 4, 6});
  std::optional<TestTensor> alibi_slopes;
  std::optional<TestTensor> block_table;
  OpmuxValue max_seqlen_q = value(3);
  OpmuxValue max_seqlen_k = value(4);
  OpmuxValue dropout_p = value(0.0);
  OpmuxValue softmax_scale = none();
  bool causal = false;
  std::vector<std::int64_t> window_size{-1, -1};
  double softcap = 0.0;
  bool deterministic = false;
  bool return_attn_probs = false;
  TestTensor out = half_tensor({5, 4, 16}, 0);
  std::optional<TestTensor> softmax_lse;
  std::optional<TestTensor> s_dmask;

  OpmuxStatus run() const;
};

// Two sequences with caches of 8 slots; 4 heads over 2, head size 16, 3 tokens each.
struct KvcacheCall {
  TestTensor q = half_tensor({2, 3, 4, 16});
  TestTensor k_cache = half_tensor({2, 8, 2, 16});
  TestTensor v_cache = half_tensor({2, 8, 2, 16});
  std::optional<TestTensor> k;
  std::optional<TestTensor> v;
  std::optional<TestTensor> rotary_cos;
  std::optional<TestTensor> rotary_sin;
  std::optional<TestTensor> cache_seqlens = int_tensor({5, 4});
  std::optional<int> length;  // for the overload with an int
  std::optional<TestTensor> cache_batch_idx;
  std::optional<TestTensor> cache_leftpad;
  std::optional<TestTensor> block_table;
  std::optional<TestTensor> alibi_slopes;
  OpmuxValue softmax_scale = none();
  bool causal = false;
  std::vector<std::int64_t> window_size{-1, -1};
  double softcap = 0.0;
  bool rotary_interleaved = false;
  int num_splits = 0;
  bool return_softmax_lse = false;
  TestTensor out = half_tensor({2, 3, 4, 16}, 0);
  std::optional<TestTensor> softmax_lse;

  // One token per sequence.
  static KvcacheCall decode();
  // Pages of 256 slots, two for each sequence.
  static KvcacheCall paged();
  void append(std::int64_t tokens);

  OpmuxStatus run() const;
};

}  // namespace opmux::testing
