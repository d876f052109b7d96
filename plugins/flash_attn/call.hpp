// SPDX-License-Identifier: Apache-2.0
//
// What both operators' calls have in common: the operator's values as C++ has them,
// FlashAttention's demands on them, and results in the caller's memory.
//
// FlashAttention checks its arguments by exceptions that cannot be told from those of a failed
// launch, and leaves alignment and the batch of a cache unchecked. So everything that it takes for
// granted is checked here first: what no provider could take is INVALID_ARGUMENT, what another one
// might take is UNSUPPORTED, and in both cases nothing was touched.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "opmux/plugin.h"
#include "plugins/flash_attn/binding.hpp"
#include "plugins/torch/call.hpp"
#include "plugins/torch/frame.hpp"
#include "plugins/torch/tensor.hpp"

namespace opmux::flash_attn {

// Ends a call with a status whose reason is stored; caught in run_call().
struct Stop {
  OpmuxStatus status;
};
[[noreturn]] void stop(OpmuxStatus status, const std::string& text);

struct Frame {
  explicit Frame(const Binding& binding)
      : slots(binding.arguments.size()), result_slots(binding.arguments.size()) {}
  void clear() {}

  std::vector<torch_shared::TensorSlot> slots;  // one per argument of the operator
  // For results: a slot whose tensor is still held would be made anew.
  std::vector<torch_shared::TensorSlot> result_slots;
};

struct Window {
  int left;
  int right;
};

class Call {
 public:
  Call(const Binding& binding, const OpmuxCall& call, Frame& frame)
      : binding_(binding),
        call_(call),
        frame_(frame),
        tensors_(binding.name, binding.arguments, call) {}

  // Values, by the operator's index of the argument.
  at::Tensor tensor(std::int32_t argument);
  std::optional<at::Tensor> optional_tensor(std::int32_t argument);
  int integer(std::int32_t argument) const;
  float real(std::int32_t argument) const;
  bool boolean(std::int32_t argument) const;
  // softmax_scale, or where it is None 1 / sqrt(head_size).
  float scale(std::int32_t argument, std::int64_t head_size) const;
  Window window(std::int32_t argument) const;
  bool given(std::int32_t argument) const { return tensors_.wants(argument); }

  // Ends the call unless `holds`; the texts follow the argument's name.
  void require(bool holds, OpmuxStatus status, std::int32_t argument, const char* expected,
               const char* found) const {
    if (!holds) {
      refuse_argument(status, argument, expected, found);
    }
  }
  void require(bool holds, OpmuxStatus status, std::int32_t argument, const char* expected,
               std::int64_t found) const {
    if (!holds) {
      refuse_argument(status, argument, expected, std::to_string(found));
    }
  }
  // The shape that the other arguments make it have.
  void require_shape(std::int32_t argument, const at::Tensor& tensor,
                     std::initializer_list<std::int64_t> shape) const {
    if (tensor.sizes() != at::IntArrayRef(shape)) {
      refuse_shape(argument, tensor, shape);
    }
  }
  void require_rank(std::int32_t argument, const at::Tensor& tensor, std::int64_t rank) const {
    if (tensor.dim() != rank) {
      refuse_rank(argument, tensor, rank);
    }
  }
  // Head sizes and dtype that FlashAttention has kernels for.
  void require_query(std::int32_t argument, const at::Tensor& q) const;
  // Query's dtype, and rows that its 16-byte loads can read.
  void require_rows(std::int32_t argument, const at::Tensor& tensor, const at::Tensor& q) const;
  // An int32 tensor without gaps, of this shape.
  void require_indices(std::int32_t argument, const at::Tensor& tensor,
                       std::initializer_list<std::int64_t> shape) const;
  // block_table, alibi_slopes.
  void require_block_table(std::int32_t argument, const at::Tensor& table, std::int64_t batch,
                           std::int64_t page_size) const;
  void require_slopes(std::int32_t argument, const at::Tensor& slopes, std::int64_t batch,
                      std::int64_t heads) const;
  // `out` as q, and softmax_lse, where given, of this shape.
  void require_outputs(std::int32_t out_argument, const at::Tensor& out, const at::Tensor& q,
                       std::int32_t lse_argument, const std::optional<at::Tensor>& lse,
                       std::initializer_list<std::int64_t> lse_shape) const;

  // FlashAttention's results into the caller's tensors.
  void take_results(const std::vector<at::Tensor>& results, std::int32_t out_argument,
                    std::int32_t lse_argument, bool lse);

 private:
  [[noreturn]] void refuse_argument(OpmuxStatus status, std::int32_t argument,
                                    const std::string& expected, const std::string& found) const;
  [[noreturn]] void refuse_value(std::int32_t argument, const char* expected) const;
  [[noreturn]] void refuse_shape(std::int32_t argument, const at::Tensor& tensor,
                                 at::IntArrayRef shape) const;
  [[noreturn]] void refuse_rank(std::int32_t argument, const at::Tensor& tensor,
                                std::int64_t rank) const;
  const at::Tensor* take(std::int32_t argument, bool optional);
  void copy_result(std::size_t index, const at::Tensor& result, std::int32_t argument,
                   bool negative_infinity);

  const Binding& binding_;
  const OpmuxCall& call_;
  Frame& frame_;
  torch_shared::CallTensors tensors_;
};

// Whether FlashAttention can write rows of this tensor.
bool is_writable(const at::Tensor& out);

// What the operators give for no keys at all.
void write_no_keys(const at::Tensor& out, const std::optional<at::Tensor>& lse);

// Runs `body(Call&, launched)` under inference mode on the call's device and stream. `body` sets
// `launched` before it calls FlashAttention: an exception after that may come from before or after
// the launch, so it counts as after, except for what a build was made without, which FlashAttention
// says before it launches anything.
using Body = void (*)(const Binding& binding, Call& call, bool& launched);
OpmuxStatus run_call(void* binding, const OpmuxCall* call, Body body) noexcept;

}  // namespace opmux::flash_attn
