// SPDX-License-Identifier: Apache-2.0
//
// The operators that the decoder calls through opmux, and who served each call.
#pragma once

#include <opmux/opmux.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace decoder {

enum class Kind : std::size_t { kRmsNorm, kRotaryEmbedding, kAttention, kSiluAndMul };
inline constexpr std::array<const char*, 4> kOperatorNames{
    "rms_norm", "rotary_embedding", "flash_attn_with_kvcache.int", "silu_and_mul"};

// Who served calls, and in which generation of routes.
struct Served {
  std::string provider;
  std::uint64_t generation = 0;
  std::uint64_t calls = 0;
};

// Of one operator, in the order in which they served; more than one where routes changed between.
using ServedCalls = std::array<std::vector<Served>, kOperatorNames.size()>;

// Handles are resolved once and serve through every change of routes. Thread safety: one thread.
class Operators {
 public:
  // An operator that is not declared, or has another schema than this program was written for.
  static opmux::StatusOr<Operators> open(const opmux::Runtime& runtime);

  opmux::Status rms_norm(const opmux::Tensor& input, const opmux::Tensor& weight,
                         const opmux::Tensor& out);
  opmux::Status rotary_embedding(const opmux::Tensor& positions, const opmux::Tensor& query,
                                 const opmux::Tensor& key, const opmux::Tensor& cos_sin_cache,
                                 std::int64_t head_size);
  // Appends `key` and `value` to the caches, which hold `length` tokens, and attends to all.
  opmux::Status attention(const opmux::Tensor& query, const opmux::Tensor& key_cache,
                          const opmux::Tensor& value_cache, const opmux::Tensor& key,
                          const opmux::Tensor& value, std::int64_t length,
                          const opmux::Tensor& out);
  opmux::Status silu_and_mul(const opmux::Tensor& input, const opmux::Tensor& out);

  // What was served since the last call of this function.
  ServedCalls take_served();

 private:
  using Norm = opmux::Operator<void(opmux::Tensor, opmux::Tensor, double, opmux::Tensor)>;
  using Rotary = opmux::Operator<void(opmux::Tensor, opmux::Tensor, opmux::OptionalTensor,
                                      opmux::Tensor, std::int64_t, bool)>;
  using Attention = opmux::Operator<void(
      opmux::Tensor, opmux::Tensor, opmux::Tensor, opmux::OptionalTensor, opmux::OptionalTensor,
      opmux::OptionalTensor, opmux::OptionalTensor, std::int64_t, opmux::OptionalTensor,
      opmux::OptionalTensor, opmux::OptionalTensor, opmux::OptionalTensor, std::optional<double>,
      bool, opmux::IntList, double, bool, std::int64_t, bool, opmux::Tensor,
      opmux::OptionalTensor)>;
  using Silu = opmux::Operator<void(opmux::Tensor, opmux::Tensor)>;

  Operators(Norm norm, Rotary rotary, Attention attention, Silu silu)
      : norm_(norm), rotary_(rotary), attention_(attention), silu_(silu) {}

  opmux::Status note(Kind kind, const opmux::BoxedOperator& op, opmux::Status status);

  Norm norm_;
  Rotary rotary_;
  Attention attention_;
  Silu silu_;
  ServedCalls served_;
};

}  // namespace decoder
