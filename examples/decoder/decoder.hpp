// SPDX-License-Identifier: Apache-2.0
//
// One token through the model, with the keys and values of those before it in a cache.
#pragma once

#include <cstdint>
#include <vector>

#include "model.hpp"
#include "operators.hpp"

namespace decoder {

// Thread safety: one thread. `model` and `operators` outlive it.
class Decoder {
 public:
  Decoder(const Model& model, Operators& operators);

  // The logits of what follows `token`, [vocabulary], valid until the next step.
  opmux::StatusOr<const float*> step(std::int64_t token);

 private:
  opmux::Status attend(std::int64_t layer);
  opmux::Status feed_forward(std::int64_t layer);

  const Model& model_;
  Operators& operators_;
  std::int64_t length_ = 0;    // tokens in the caches
  std::vector<float> keys_;    // [layers, positions, kv_heads, head_size]
  std::vector<float> values_;  // the same
  std::vector<float> stream_;  // [hidden], what the layers add to
  std::vector<float> normal_;  // [hidden]
  std::vector<float> query_, key_, value_;
  std::vector<float> attended_;  // [hidden]
  std::vector<float> gate_and_up_, gated_;
  std::vector<float> added_;  // [hidden]
  std::vector<float> logits_;
};

}  // namespace decoder
