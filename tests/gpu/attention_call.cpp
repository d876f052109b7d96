// SPDX-License-Identifier: Apache-2.0
//
// The values of one call of the table, and what must come out.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "core/compare/floats.hpp"
#include "tests/gpu/attention_case.hpp"
#include "tests/gpu/attention_reference.hpp"

namespace opmux::gpu {
namespace {

using Doubles = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

std::size_t count_of(const Sizes& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

cli::HostTensor host_tensor(DType dtype, Sizes shape, const Doubles& values) {
  cli::HostTensor tensor{dtype, std::move(shape), {}};
  const std::size_t item = size_of(dtype);
  tensor.bytes.resize(values.size() * item);
  for (std::size_t at = 0; at < values.size(); ++at)
    store(values[at], tensor.bytes.data() + at * item, dtype);
  return tensor;
}

cli::HostTensor index_tensor(const Sizes& values, Sizes shape, DType dtype = DType::kInt32) {
  return host_tensor(dtype, std::move(shape), Doubles(values.begin(), values.end()));
}

double round_to(double value, DType dtype) {
  std::byte bytes[8];
  store(value, bytes, dtype);
  return load(bytes, dtype);
}

// Physical and logical contents of one call.
class Builder {
 public:
  Builder(const AttentionCase& each, bool with_expected)
      : each_(each),
        with_expected_(with_expected),
        sequences_(each.queries.size()),
        heads_(each.kv_heads * each.group) {
    rule_ = {heads_,
             each.kv_heads,
             each.head_size,
             each.scale.value_or(1.0 / std::sqrt(static_cast<double>(each.head_size))),
             each.causal,
             each.window_left,
             each.window_right,
             each.softcap,
             {}};
    if (each.slopes) {
      for (std::int64_t head = 0; head < heads_; ++head)
        rule_.slopes.push_back(0.25 / static_cast<double>(head + 1));
    }
  }

  AttentionCall varlen() {
    make_keys();
    total_queries_ = std::accumulate(each_.queries.begin(), each_.queries.end(), std::int64_t{0});
    q_ = noise({total_queries_, heads_, each_.head_size}, 3.0);
    AttentionCall call;
    call.operator_name = "flash_attn_varlen_func";
    const DType lengths = each_.wide_lengths ? DType::kInt64 : DType::kInt32;
    const auto offsets = static_cast<std::int64_t>(sequences_ + 1);
    auto& arguments = call.inputs.arguments;
    arguments.emplace_back(host_tensor(each_.dtype, q_shape(), q_));
    arguments.emplace_back(host_tensor(each_.dtype, key_shape_, k_));
    arguments.emplace_back(host_tensor(each_.dtype, key_shape_, v_));
    arguments.emplace_back(index_tensor(starts(each_.queries), {offsets}, lengths));
    arguments.emplace_back(index_tensor(starts(each_.keys), {offsets}, lengths));
    arguments.push_back(slopes());
    arguments.push_back(block_table());
    arguments.emplace_back(*std::max_element(each_.queries.begin(), each_.queries.end()));
    arguments.emplace_back(*std::max_element(each_.keys.begin(), each_.keys.end()));
    arguments.emplace_back(each_.dropout);
    arguments.push_back(scale());
    arguments.emplace_back(each_.causal);
    arguments.emplace_back(Sizes{each_.window_left, each_.window_right});
    arguments.emplace_back(each_.softcap);
    arguments.emplace_back(false);  // deterministic
    arguments.emplace_back(false);  // return_attn_probs
    call.out = arguments.size();
    arguments.emplace_back(garbage(each_.dtype, q_shape()));
    call.lse = arguments.size();
    arguments.emplace_back(garbage(DType::kFloat32, {heads_, total_queries_}));
    arguments.emplace_back(NoneLiteral{});  // s_dmask
    if (with_expected_) expect_varlen(call);
    return call;
  }

  AttentionCall kvcache() {
    make_keys();
    make_appended();
    const std::int64_t tokens = each_.queries.front();
    q_ = noise({batch(), tokens, heads_, each_.head_size}, 3.0);
    AttentionCall call;
    call.operator_name =
        each_.one_length ? "flash_attn_with_kvcache.int" : "flash_attn_with_kvcache";
    const Sizes shape{batch(), tokens, heads_, each_.head_size};
    auto& arguments = call.inputs.arguments;
    arguments.emplace_back(host_tensor(each_.dtype, shape, q_));
    call.k_cache = arguments.size();
    arguments.emplace_back(host_tensor(each_.dtype, key_shape_, k_));
    call.v_cache = arguments.size();
    arguments.emplace_back(host_tensor(each_.dtype, key_shape_, v_));
    arguments.push_back(appended(new_k_));
    arguments.push_back(appended(new_v_));
    arguments.push_back(angles(cosines_));
    arguments.push_back(angles(sines_));
    arguments.push_back(lengths());
    arguments.push_back(each_.cache_rows ? cli::ExampleArgument(index_tensor(rows_, {batch()}))
                                         : NoneLiteral{});
    arguments.push_back(each_.left_padding ? cli::ExampleArgument(index_tensor(padding_, {batch()}))
                                           : NoneLiteral{});
    arguments.push_back(block_table());
    arguments.push_back(slopes());
    arguments.push_back(scale());
    arguments.emplace_back(each_.causal);
    arguments.emplace_back(Sizes{each_.window_left, each_.window_right});
    arguments.emplace_back(each_.softcap);
    arguments.emplace_back(each_.interleaved);
    arguments.emplace_back(std::int64_t{each_.num_splits});
    arguments.emplace_back(true);  // return_softmax_lse
    call.out = arguments.size();
    arguments.emplace_back(garbage(each_.dtype, shape));
    call.lse = arguments.size();
    arguments.emplace_back(garbage(DType::kFloat32, {batch(), heads_, tokens}));
    call.slack = each_.rotary_pairs > 0 ? 4.0 : 1.0;
    if (with_expected_) expect_kvcache(call);
    return call;
  }

 private:
  std::int64_t batch() const { return static_cast<std::int64_t>(sequences_); }
  std::int64_t row_size() const { return heads_ * each_.head_size; }
  std::int64_t key_row_size() const { return each_.kv_heads * each_.head_size; }
  Sizes q_shape() const { return {total_queries_, heads_, each_.head_size}; }

  static Sizes starts(const Sizes& lengths) {
    Sizes result{0};
    for (const std::int64_t length : lengths) result.push_back(result.back() + length);
    return result;
  }

  // Rounded to the dtype. With q three times as large as k scores spread enough for a few keys to
  // decide, so that a wrong mask shows. Zeros where no result is asked for.
  Doubles noise(const Sizes& shape, double deviation = 1.0) {
    Doubles values(count_of(shape));
    if (!with_expected_) return values;
    // Evenly distributed, the same with every library.
    const double width = 2.0 * std::sqrt(3.0) * deviation;
    for (double& value : values)
      value =
          round_to(width * (static_cast<double>(generator_() >> 11) * 0x1p-53 - 0.5), each_.dtype);
    return values;
  }

  // What an output holds that nobody wrote.
  static cli::HostTensor garbage(DType dtype, const Sizes& shape) {
    return host_tensor(dtype, shape, Doubles(count_of(shape), 77.0));
  }

  // Keys and values where the call finds them, everything else noise too.
  void make_keys() {
    const std::int64_t longest =
        *std::max_element(each_.keys.begin(), each_.keys.end()) + each_.appended;
    for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
      rows_.push_back(each_.cache_rows ? batch() - sequence : sequence);
      const std::int64_t length = each_.keys[static_cast<std::size_t>(sequence)];
      padding_.push_back(each_.left_padding ? std::min(length, sequence) : 0);
    }
    if (each_.page_size > 0) {
      columns_ = std::max<std::int64_t>((longest + each_.page_size - 1) / each_.page_size, 1);
      const std::int64_t pages = columns_ * batch() + 1;
      for (std::int64_t page = 0; page < columns_ * batch(); ++page) pages_.push_back(page + 1);
      for (std::size_t at = pages_.size() - 1; at > 0; --at)
        std::swap(pages_[at], pages_[generator_() % (at + 1)]);
      key_shape_ = {pages, each_.page_size, each_.kv_heads, each_.head_size};
    } else if (each_.varlen) {
      const std::int64_t total =
          std::accumulate(each_.keys.begin(), each_.keys.end(), std::int64_t{0});
      key_shape_ = {total, each_.kv_heads, each_.head_size};
    } else {
      slots_ = each_.no_lengths ? longest : longest + 7;
      key_shape_ = {batch() + (each_.cache_rows ? 1 : 0), slots_, each_.kv_heads, each_.head_size};
    }
    k_ = noise(key_shape_);
    v_ = noise(key_shape_);
  }

  void make_appended() {
    if (each_.appended == 0) return;
    const Sizes shape{batch(), each_.appended, each_.kv_heads, each_.head_size};
    new_k_ = noise(shape);
    new_v_ = noise(shape);
    if (each_.rotary_pairs == 0) return;
    // One row for each slot, as FlashAttention demands.
    positions_ = each_.page_size > 0 ? columns_ * each_.page_size : slots_;
    for (std::int64_t position = 0; position < positions_; ++position) {
      for (std::int64_t pair = 0; pair < each_.rotary_pairs; ++pair) {
        const double angle =
            static_cast<double>(position) *
            std::pow(10000.0, -static_cast<double>(pair) / static_cast<double>(each_.rotary_pairs));
        cosines_.push_back(round_to(std::cos(angle), each_.dtype));
        sines_.push_back(round_to(std::sin(angle), each_.dtype));
      }
    }
  }

  // Where token `position` of a sequence is, counted in rows of keys.
  std::int64_t key_row(std::int64_t sequence, std::int64_t position) const {
    if (each_.page_size > 0) {
      const auto entry = static_cast<std::size_t>(sequence * columns_ + position / each_.page_size);
      return pages_[entry] * each_.page_size + position % each_.page_size;
    }
    if (!each_.varlen) return rows_[static_cast<std::size_t>(sequence)] * slots_ + position;
    return starts(each_.keys)[static_cast<std::size_t>(sequence)] + position;
  }

  Doubles gather(const Doubles& all, std::int64_t sequence, std::int64_t begin,
                 std::int64_t end) const {
    Doubles result;
    for (std::int64_t position = begin; position < end; ++position) {
      const auto from = all.begin() + key_row(sequence, position) * key_row_size();
      result.insert(result.end(), from, from + key_row_size());
    }
    return result;
  }

  void expect_varlen(AttentionCall& call) {
    call.expected_out.resize(q_.size());
    call.expected_lse.resize(static_cast<std::size_t>(heads_ * total_queries_));
    const Sizes begin = starts(each_.queries);
    for (std::size_t at = 0; at < sequences_; ++at) {
      const auto sequence = static_cast<std::int64_t>(at);
      const Doubles q(q_.begin() + begin[at] * row_size(), q_.begin() + begin[at + 1] * row_size());
      const AttentionResult result = attend(rule_, q, gather(k_, sequence, 0, each_.keys[at]),
                                            gather(v_, sequence, 0, each_.keys[at]));
      std::copy(result.out.begin(), result.out.end(),
                call.expected_out.begin() + begin[at] * row_size());
      for (std::int64_t query = 0; query < each_.queries[at]; ++query) {
        for (std::int64_t head = 0; head < heads_; ++head) {
          call.expected_lse[static_cast<std::size_t>(head * total_queries_ + begin[at] + query)] =
              result.lse[static_cast<std::size_t>(query * heads_ + head)];
        }
      }
    }
  }

  // The new tokens of one sequence, rotated and rounded as they go to the cache.
  void append(std::int64_t sequence, std::int64_t length) {
    for (std::int64_t token = 0; token < each_.appended; ++token) {
      const std::int64_t from = (sequence * each_.appended + token) * key_row_size();
      const std::int64_t to = key_row(sequence, length + token) * key_row_size();
      std::copy_n(new_k_.begin() + from, key_row_size(), k_.begin() + to);
      std::copy_n(new_v_.begin() + from, key_row_size(), v_.begin() + to);
      if (each_.rotary_pairs == 0) continue;
      rotate(k_.data() + to, each_.kv_heads, each_.head_size, length + token, cosines_, sines_,
             each_.rotary_pairs, each_.interleaved);
      for (std::int64_t at = to; at < to + key_row_size(); ++at)
        k_[static_cast<std::size_t>(at)] = round_to(k_[static_cast<std::size_t>(at)], each_.dtype);
    }
  }

  // Queries are rotated by their own positions when their order counts, else by the first one's.
  Doubles rotated_queries(std::int64_t sequence, std::int64_t length) const {
    const std::int64_t tokens = each_.queries.front();
    const auto from = q_.begin() + sequence * tokens * row_size();
    Doubles q(from, from + tokens * row_size());
    if (each_.rotary_pairs == 0) return q;
    const bool ordered = each_.causal || each_.window_left >= 0 || each_.window_right >= 0;
    for (std::int64_t token = 0; token < tokens; ++token) {
      rotate(q.data() + token * row_size(), heads_, each_.head_size, length + (ordered ? token : 0),
             cosines_, sines_, each_.rotary_pairs, each_.interleaved);
    }
    for (double& element : q) element = round_to(element, each_.dtype);
    return q;
  }

  void expect_kvcache(AttentionCall& call) {
    const std::int64_t tokens = each_.queries.front();
    call.expected_lse.resize(static_cast<std::size_t>(batch() * heads_ * tokens));
    for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
      const std::int64_t length = each_.keys[static_cast<std::size_t>(sequence)];
      const std::int64_t begin = padding_[static_cast<std::size_t>(sequence)];
      append(sequence, length);
      const AttentionResult result = attend(rule_, rotated_queries(sequence, length),
                                            gather(k_, sequence, begin, length + each_.appended),
                                            gather(v_, sequence, begin, length + each_.appended));
      call.expected_out.insert(call.expected_out.end(), result.out.begin(), result.out.end());
      for (std::int64_t query = 0; query < tokens; ++query) {
        for (std::int64_t head = 0; head < heads_; ++head) {
          const std::int64_t to = (sequence * heads_ + head) * tokens + query;
          call.expected_lse[static_cast<std::size_t>(to)] =
              result.lse[static_cast<std::size_t>(query * heads_ + head)];
        }
      }
    }
    call.expected_k_cache = k_;
    call.expected_v_cache = v_;
  }

  cli::ExampleArgument slopes() const {
    if (!each_.slopes) return NoneLiteral{};
    return host_tensor(DType::kFloat32, {heads_}, rule_.slopes);
  }
  cli::ExampleArgument scale() const {
    return each_.scale ? cli::ExampleArgument(*each_.scale) : NoneLiteral{};
  }
  cli::ExampleArgument block_table() const {
    if (each_.page_size == 0) return NoneLiteral{};
    return index_tensor(pages_, {batch(), columns_});
  }
  cli::ExampleArgument appended(const Doubles& values) const {
    if (each_.appended == 0) return NoneLiteral{};
    return host_tensor(each_.dtype, {batch(), each_.appended, each_.kv_heads, each_.head_size},
                       values);
  }
  cli::ExampleArgument angles(const Doubles& values) const {
    if (each_.rotary_pairs == 0) return NoneLiteral{};
    return host_tensor(each_.dtype, {positions_, each_.rotary_pairs}, values);
  }
  cli::ExampleArgument lengths() const {
    if (each_.one_length) return each_.keys.front();
    if (each_.no_lengths) return NoneLiteral{};
    return index_tensor(each_.keys, {batch()});
  }

  const AttentionCase& each_;
  bool with_expected_;
  std::size_t sequences_;
  std::int64_t heads_;
  AttentionRule rule_;
  std::mt19937_64 generator_{20'24};
  std::int64_t total_queries_ = 0;
  std::int64_t columns_ = 0;    // of the block table
  std::int64_t slots_ = 0;      // of a sequence in a contiguous cache
  std::int64_t positions_ = 0;  // of the angles
  Sizes key_shape_;
  Sizes rows_;     // of the cache, per sequence
  Sizes padding_;  // per sequence
  Sizes pages_;
  Doubles q_, k_, v_, new_k_, new_v_, cosines_, sines_;
};

}  // namespace

AttentionCall make_call(const AttentionCase& each, bool with_expected) {
  Builder builder(each, with_expected);
  return each.varlen ? builder.varlen() : builder.kvcache();
}

}  // namespace opmux::gpu
