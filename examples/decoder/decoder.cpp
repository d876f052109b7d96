// SPDX-License-Identifier: Apache-2.0
#include "decoder.hpp"

#include <algorithm>
#include <cstddef>

namespace decoder {
namespace {

using opmux::DType;
using opmux::Status;
using opmux::Tensor;

// Views are of memory that is written; only an operator's schema says whether it is.
Tensor floats(const std::vector<float>& values, std::initializer_list<std::int64_t> shape) {
  return {const_cast<float*>(values.data()), DType::kFloat32, shape};
}

void resize(std::vector<float>& values, std::int64_t size) {
  values.resize(static_cast<std::size_t>(size));
}

}  // namespace

Decoder::Decoder(const Model& model, Operators& operators) : model_(model), operators_(operators) {
  const Shape& shape = model.shape;
  resize(keys_, shape.layers * shape.positions * shape.kv_size());
  resize(values_, shape.layers * shape.positions * shape.kv_size());
  for (std::vector<float>* values : {&stream_, &normal_, &query_, &attended_, &added_})
    resize(*values, shape.hidden);
  resize(key_, shape.kv_size());
  resize(value_, shape.kv_size());
  resize(gate_and_up_, 2 * shape.inner());
  resize(gated_, shape.inner());
  resize(logits_, shape.vocabulary);
}

Status Decoder::attend(std::int64_t layer) {
  const Shape& shape = model_.shape;
  const Layer& weights = model_.layers[static_cast<std::size_t>(layer)];
  Status status = operators_.rms_norm(floats(stream_, {1, shape.hidden}),
                                      floats(weights.attention_norm, {shape.hidden}),
                                      floats(normal_, {1, shape.hidden}));
  if (!status.ok()) return status;
  multiply(weights.query, normal_.data(), query_.data());
  multiply(weights.key, normal_.data(), key_.data());
  multiply(weights.value, normal_.data(), value_.data());

  std::int64_t position = length_;
  status = operators_.rotary_embedding(
      Tensor(&position, DType::kInt64, {1}), floats(query_, {1, shape.hidden}),
      floats(key_, {1, shape.kv_size()}),
      floats(model_.cos_sin_cache, {shape.positions, shape.head_size}), shape.head_size);
  if (!status.ok()) return status;

  const std::int64_t offset = layer * shape.positions * shape.kv_size();
  const auto cache = [&](std::vector<float>& caches) {
    return Tensor(caches.data() + offset, DType::kFloat32,
                  {1, shape.positions, shape.kv_heads(), shape.head_size});
  };
  status =
      operators_.attention(floats(query_, {1, 1, shape.heads(), shape.head_size}), cache(keys_),
                           cache(values_), floats(key_, {1, 1, shape.kv_heads(), shape.head_size}),
                           floats(value_, {1, 1, shape.kv_heads(), shape.head_size}), length_,
                           floats(attended_, {1, 1, shape.heads(), shape.head_size}));
  if (!status.ok()) return status;
  multiply(weights.attention_out, attended_.data(), added_.data());
  return status;
}

Status Decoder::feed_forward(std::int64_t layer) {
  const Shape& shape = model_.shape;
  const Layer& weights = model_.layers[static_cast<std::size_t>(layer)];
  Status status = operators_.rms_norm(floats(stream_, {1, shape.hidden}),
                                      floats(weights.mlp_norm, {shape.hidden}),
                                      floats(normal_, {1, shape.hidden}));
  if (!status.ok()) return status;
  multiply(weights.gate_and_up, normal_.data(), gate_and_up_.data());
  status = operators_.silu_and_mul(floats(gate_and_up_, {1, 2 * shape.inner()}),
                                   floats(gated_, {1, shape.inner()}));
  if (!status.ok()) return status;
  multiply(weights.down, gated_.data(), added_.data());
  return status;
}

opmux::StatusOr<const float*> Decoder::step(std::int64_t token) {
  const Shape& shape = model_.shape;
  std::copy_n(model_.embedding.begin() + token * shape.hidden, shape.hidden, stream_.begin());
  const auto add = [&] {
    for (std::size_t i = 0; i < stream_.size(); ++i) stream_[i] += added_[i];
  };
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    Status status = attend(layer);
    if (!status.ok()) return status;
    add();
    status = feed_forward(layer);
    if (!status.ok()) return status;
    add();
  }
  ++length_;
  Status status = operators_.rms_norm(floats(stream_, {1, shape.hidden}),
                                      floats(model_.final_norm, {shape.hidden}),
                                      floats(normal_, {1, shape.hidden}));
  if (!status.ok()) return status;
  multiply(model_.head, normal_.data(), logits_.data());
  return static_cast<const float*>(logits_.data());
}

}  // namespace decoder
