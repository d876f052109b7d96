// SPDX-License-Identifier: Apache-2.0
//
// Calls of the FlashAttention operators with everything that may be absent absent, and the
// comparison with float64.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/native/attention_reference.hpp"
#include "tests/native/calls.hpp"

namespace opmux::test {

using Shape = std::vector<int64_t>;

inline std::unique_ptr<TestTensor> tensor(Type type, Shape shape, const Layout& layout = {}) {
  return std::make_unique<TestTensor>(type, std::move(shape), layout);
}

inline std::unique_ptr<TestTensor> noisy(Type type, Shape shape, uint64_t seed,
                                         double amplitude = 1.0, const Layout& layout = {}) {
  auto result = tensor(type, std::move(shape), layout);
  result->fill([&](int64_t i) { return amplitude * noise(i, seed); });
  return result;
}

inline std::unique_ptr<TestTensor> indices(std::vector<int64_t> values, Type type = Type::kInt32) {
  auto result = tensor(type, {static_cast<int64_t>(values.size())});
  result->fill([&](int64_t i) { return static_cast<double>(values[static_cast<size_t>(i)]); });
  return result;
}

// [rows, columns]
inline std::unique_ptr<TestTensor> table(const std::vector<std::vector<int64_t>>& rows,
                                         Type type = Type::kInt32) {
  const auto columns = static_cast<int64_t>(rows.front().size());
  auto result = tensor(type, {static_cast<int64_t>(rows.size()), columns});
  result->fill([&](int64_t i) {
    return static_cast<double>(
        rows[static_cast<size_t>(i / columns)][static_cast<size_t>(i % columns)]);
  });
  return result;
}

inline OpmuxValue optional_value(const std::unique_ptr<TestTensor>& tensor) {
  return tensor == nullptr ? none() : value(*tensor);
}

// What both operators take.
struct AttentionArguments {
  std::unique_ptr<TestTensor> q, k, v, out, lse, slopes, blocks;
  std::optional<double> scale;
  bool causal = false;
  int64_t window[2] = {-1, -1};
  double softcap = 0.0;
  OpmuxIntList list = {};

  OpmuxValue window_value() {
    list = {window, 2};
    OpmuxValue result = {};
    result.tag = OPMUX_VALUE_INT_LIST;
    result.payload.int_list = &list;
    return result;
  }
  OpmuxValue scale_value() const { return scale ? value(*scale) : none(); }

  reference::AttentionRule rule(int64_t head_size) const {
    return {scale.value_or(1.0 / std::sqrt(static_cast<double>(head_size))), causal, window[0],
            window[1], softcap};
  }
};

struct VarlenCall : AttentionArguments {
  std::unique_ptr<TestTensor> cu_q, cu_k;
  int64_t max_q = 1 << 20;
  int64_t max_k = 1 << 20;
  double dropout = 0.0;
  bool probabilities = false;
  std::unique_ptr<TestTensor> mask;

  Values values() {
    return {value(*q),
            value(*k),
            value(*v),
            value(*cu_q),
            value(*cu_k),
            optional_value(slopes),
            optional_value(blocks),
            value(max_q),
            value(max_k),
            value(dropout),
            scale_value(),
            value(causal),
            window_value(),
            value(softcap),
            value(false),
            value(probabilities),
            value(*out),
            optional_value(lse),
            optional_value(mask)};
  }
  OpmuxStatus run(const OpmuxHost* host = serial_host()) {
    return test::run("flash_attn_varlen_func", values(), host);
  }
};

struct CacheCall : AttentionArguments {  // k and v are the caches
  std::unique_ptr<TestTensor> new_k, new_v, cos, sin, lengths, rows, padding;
  std::optional<int64_t> length;  // the overload .int
  bool interleaved = true;
  int64_t splits = 0;
  bool return_lse = false;

  const char* name() const {
    return length ? "flash_attn_with_kvcache.int" : "flash_attn_with_kvcache";
  }
  Values values() {
    return {value(*q),
            value(*k),
            value(*v),
            optional_value(new_k),
            optional_value(new_v),
            optional_value(cos),
            optional_value(sin),
            length ? value(*length) : optional_value(lengths),
            optional_value(rows),
            optional_value(padding),
            optional_value(blocks),
            optional_value(slopes),
            scale_value(),
            value(causal),
            window_value(),
            value(softcap),
            value(interleaved),
            value(splits),
            value(return_lse),
            value(*out),
            optional_value(lse)};
  }
  OpmuxStatus run(const OpmuxHost* host = serial_host()) {
    return test::run(name(), values(), host);
  }
};

// The elements from which one sequence's results begin, and how they go on.
struct Results {
  int64_t out_begin = 0;  // of query 0, head 0
  int64_t lse_begin = 0;
  int64_t lse_query = 0;  // from one query to the next
  int64_t lse_head = 0;
};

inline testing::AssertionResult agrees(const reference::AttentionInput& input,
                                       const AttentionArguments& call, const Results& where) {
  const reference::AttentionOutput exact = reference::attention(input);
  for (size_t i = 0; i < exact.out.size(); ++i) {
    const double found = call.out->at(where.out_begin + static_cast<int64_t>(i));
    const auto result = close(call.out->type(), found, exact.out[i], {0.0, exact.out_bound[i]});
    if (!result) return testing::AssertionFailure() << result.message() << " at out " << i;
  }
  for (size_t i = 0; call.lse != nullptr && i < exact.lse.size(); ++i) {
    const auto query = static_cast<int64_t>(i) / input.heads;
    const auto head = static_cast<int64_t>(i) % input.heads;
    const double found =
        call.lse->at(where.lse_begin + query * where.lse_query + head * where.lse_head);
    const auto result = close(Type::kFloat32, found, exact.lse[i], {0.0, exact.lse_bound[i]});
    if (!result) return testing::AssertionFailure() << result.message() << " at lse " << i;
  }
  return testing::AssertionSuccess();
}

}  // namespace opmux::test
