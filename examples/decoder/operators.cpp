// SPDX-License-Identifier: Apache-2.0
#include "operators.hpp"

#include <utility>

namespace decoder {
namespace {

constexpr double kEpsilon = 1e-6;

const char* name_of(Kind kind) { return kOperatorNames[static_cast<std::size_t>(kind)]; }

}  // namespace

opmux::StatusOr<Operators> Operators::open(const opmux::Runtime& runtime) {
  auto norm = runtime.op<void(opmux::Tensor, opmux::Tensor, double, opmux::Tensor)>(
      name_of(Kind::kRmsNorm));
  if (!norm.ok()) return norm.status();
  auto rotary = runtime.op<void(opmux::Tensor, opmux::Tensor, opmux::OptionalTensor, opmux::Tensor,
                                std::int64_t, bool)>(name_of(Kind::kRotaryEmbedding));
  if (!rotary.ok()) return rotary.status();
  auto attention = runtime.op<void(
      opmux::Tensor, opmux::Tensor, opmux::Tensor, opmux::OptionalTensor, opmux::OptionalTensor,
      opmux::OptionalTensor, opmux::OptionalTensor, std::int64_t, opmux::OptionalTensor,
      opmux::OptionalTensor, opmux::OptionalTensor, opmux::OptionalTensor, std::optional<double>,
      bool, opmux::IntList, double, bool, std::int64_t, bool, opmux::Tensor,
      opmux::OptionalTensor)>(name_of(Kind::kAttention));
  if (!attention.ok()) return attention.status();
  auto silu = runtime.op<void(opmux::Tensor, opmux::Tensor)>(name_of(Kind::kSiluAndMul));
  if (!silu.ok()) return silu.status();
  return Operators(*norm, *rotary, *attention, *silu);
}

opmux::Status Operators::note(Kind kind, const opmux::BoxedOperator& op, opmux::Status status) {
  if (!status.ok()) return status;
  opmux::LastCall call = op.last_call();
  std::vector<Served>& served = served_[static_cast<std::size_t>(kind)];
  if (!served.empty() && served.back().provider == call.provider &&
      served.back().generation == call.generation) {
    ++served.back().calls;
  } else {
    served.push_back({std::move(call.provider), call.generation, 1});
  }
  return status;
}

opmux::Status Operators::rms_norm(const opmux::Tensor& input, const opmux::Tensor& weight,
                                  const opmux::Tensor& out) {
  return note(Kind::kRmsNorm, norm_.boxed(), norm_(input, weight, kEpsilon, out));
}

opmux::Status Operators::rotary_embedding(const opmux::Tensor& positions,
                                          const opmux::Tensor& query, const opmux::Tensor& key,
                                          const opmux::Tensor& cos_sin_cache,
                                          std::int64_t head_size) {
  return note(Kind::kRotaryEmbedding, rotary_.boxed(),
              rotary_(positions, query, key, cos_sin_cache, head_size, /*is_neox=*/true));
}

opmux::Status Operators::attention(const opmux::Tensor& query, const opmux::Tensor& key_cache,
                                   const opmux::Tensor& value_cache, const opmux::Tensor& key,
                                   const opmux::Tensor& value, std::int64_t length,
                                   const opmux::Tensor& out) {
  constexpr std::int64_t kNoWindow[2] = {-1, -1};
  return note(
      Kind::kAttention, attention_.boxed(),
      attention_(query, key_cache, value_cache, key, value, /*rotary_cos=*/std::nullopt,
                 /*rotary_sin=*/std::nullopt, length, /*cache_batch_idx=*/std::nullopt,
                 /*cache_leftpad=*/std::nullopt, /*block_table=*/std::nullopt,
                 /*alibi_slopes=*/std::nullopt, /*softmax_scale=*/std::nullopt, /*causal=*/true,
                 opmux::IntList(kNoWindow, 2), /*softcap=*/0.0, /*rotary_interleaved=*/false,
                 /*num_splits=*/0, /*return_softmax_lse=*/false, out,
                 /*softmax_lse=*/std::nullopt));
}

opmux::Status Operators::silu_and_mul(const opmux::Tensor& input, const opmux::Tensor& out) {
  return note(Kind::kSiluAndMul, silu_.boxed(), silu_(input, out));
}

ServedCalls Operators::take_served() { return std::exchange(served_, {}); }

}  // namespace decoder
