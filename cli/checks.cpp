// SPDX-License-Identifier: Apache-2.0
#include "cli/checks.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <stdexcept>
#include <variant>
#include <vector>

#include "cli/calling.hpp"
#include "core/compare/floats.hpp"

namespace opmux::cli {
namespace {

// The arguments of a call by name.
class Arguments {
 public:
  Arguments(const OperatorDeclaration& declaration, const ExampleCall& call)
      : schema_(declaration.schema), call_(call) {}

  const HostTensor& tensor(const std::string& name) const {
    return std::get<HostTensor>(argument(name));
  }
  std::int64_t integer(const std::string& name) const {
    return std::get<std::int64_t>(argument(name));
  }
  double real(const std::string& name) const { return std::get<double>(argument(name)); }
  bool flag(const std::string& name) const { return std::get<bool>(argument(name)); }
  bool has_tensor(const std::string& name) const {
    return std::holds_alternative<HostTensor>(argument(name));
  }

 private:
  const ExampleArgument& argument(const std::string& name) const {
    for (std::size_t i = 0; i < schema_.arguments.size(); ++i)
      if (schema_.arguments[i].name == name) return call_.arguments.at(i);
    throw std::out_of_range("no argument " + name);
  }

  const schema::Schema& schema_;
  const ExampleCall& call_;
};

std::size_t last_dim(const HostTensor& tensor) {
  return static_cast<std::size_t>(tensor.shape.back());
}

void put(HostTensor& tensor, std::size_t index, double value) {
  store(value, tensor.bytes.data() + index * size_of(tensor.dtype), tensor.dtype);
}

// `value` as the dtype of `like` holds it.
double rounded(double value, const HostTensor& like) {
  std::array<std::byte, 8> bytes{};
  store(value, bytes.data(), like.dtype);
  return load(bytes.data(), like.dtype);
}

HostTensor gated(const Arguments& in, double (*activation)(double)) {
  const HostTensor& input = in.tensor("input");
  HostTensor out = in.tensor("out");
  const std::size_t width = last_dim(out);
  for (std::size_t i = 0; i < out.count(); ++i) {
    const std::size_t gate = i / width * 2 * width + i % width;
    put(out, i, activation(input.at(gate)) * input.at(gate + width));
  }
  return out;
}

HostTensor normalised(const HostTensor& input, const HostTensor& weight, double epsilon) {
  HostTensor out = input;
  const std::size_t width = last_dim(input);
  for (std::size_t row = 0; width > 0 && row < input.count() / width; ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(input.at(row * width + i), 2.0);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i)
      put(out, row * width + i, input.at(row * width + i) * scale * weight.at(i));
  }
  return out;
}

// Pairs half a rotation apart (neox), turned by the angles of their position.
HostTensor rotated(const Arguments& in, const std::string& name) {
  HostTensor out = in.tensor(name);
  const HostTensor& cache = in.tensor("cos_sin_cache");
  const auto head = static_cast<std::size_t>(in.integer("head_size"));
  const std::size_t half = last_dim(cache) / 2;
  const std::size_t width = last_dim(out);
  for (std::size_t token = 0; token < out.count() / width; ++token) {
    const auto position = static_cast<std::size_t>(in.tensor("positions").at(token));
    for (std::size_t start = token * width; start < (token + 1) * width; start += head) {
      for (std::size_t i = 0; i < half; ++i) {
        const double cosine = cache.at(position * 2 * half + i);
        const double sine = cache.at(position * 2 * half + half + i);
        const double x = in.tensor(name).at(start + i);
        const double y = in.tensor(name).at(start + half + i);
        put(out, start + i, x * cosine - y * sine);
        put(out, start + half + i, y * cosine + x * sine);
      }
    }
  }
  return out;
}

// The k largest of each row, the lower index first among equals, with weights that sum to one.
void largest(const HostTensor& logits, bool softmax, HostTensor& weights, HostTensor& indices) {
  const std::size_t experts = last_dim(logits);
  const std::size_t k = last_dim(weights);
  for (std::size_t token = 0; token < logits.count() / experts; ++token) {
    std::vector<double> score(experts);
    for (std::size_t i = 0; i < experts; ++i) {
      const double logit = logits.at(token * experts + i);
      score[i] = softmax ? std::exp(logit) : 1.0 / (1.0 + std::exp(-logit));
    }
    std::vector<std::size_t> order(experts);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
    double sum = 0.0;
    for (std::size_t i = 0; i < k; ++i) sum += score[order[i]];
    for (std::size_t i = 0; i < k; ++i) {
      put(weights, token * k + i, score[order[i]] / sum);
      put(indices, token * k + i, static_cast<double>(order[i]));
    }
  }
}

// One query row against the keys and values of the given rows.
void attend(const HostTensor& q, std::size_t query, const HostTensor& key, const HostTensor& value,
            const std::vector<std::size_t>& rows, HostTensor& out) {
  const std::size_t size = last_dim(q);
  const auto heads = static_cast<std::size_t>(q.shape.at(q.shape.size() - 2));
  const auto kv_heads = static_cast<std::size_t>(key.shape.at(key.shape.size() - 2));
  for (std::size_t head = 0; head < heads; ++head) {
    const std::size_t kv_head = head / (heads / kv_heads);
    const std::size_t at = (query * heads + head) * size;
    std::vector<double> sums(size, 0.0);
    double total = 0.0;
    for (const std::size_t row : rows) {
      const std::size_t from = (row * kv_heads + kv_head) * size;
      double product = 0.0;
      for (std::size_t i = 0; i < size; ++i) product += q.at(at + i) * key.at(from + i);
      const double weight = std::exp(product / std::sqrt(static_cast<double>(size)));
      total += weight;
      for (std::size_t i = 0; i < size; ++i) sums[i] += weight * value.at(from + i);
    }
    for (std::size_t i = 0; i < size; ++i) put(out, at + i, rows.empty() ? 0.0 : sums[i] / total);
  }
}

HostTensor attended_varlen(const Arguments& in) {
  HostTensor out = in.tensor("out");
  const auto offset = [&in](const char* name, std::size_t index) {
    return static_cast<std::size_t>(in.tensor(name).at(index));
  };
  for (std::size_t i = 0; i + 1 < in.tensor("cu_seqlens_q").count(); ++i) {
    const std::size_t queries = offset("cu_seqlens_q", i + 1);
    const std::size_t keys = offset("cu_seqlens_k", i + 1);
    // The last query sees all keys, each before it one less.
    for (std::size_t query = offset("cu_seqlens_q", i); query < queries; ++query) {
      std::vector<std::size_t> rows;
      for (std::size_t key = offset("cu_seqlens_k", i); key + queries <= keys + query + 1; ++key)
        if (key < keys) rows.push_back(key);
      attend(in.tensor("q"), query, in.tensor("k"), in.tensor("v"), rows, out);
    }
  }
  return out;
}

// One query of each sequence, which sees all of its cache.
HostTensor attended_cache(const Arguments& in) {
  HostTensor out = in.tensor("out");
  const HostTensor& key = in.tensor("k_cache");
  const auto page = static_cast<std::size_t>(key.shape.at(1));
  for (std::size_t i = 0; i < static_cast<std::size_t>(out.shape.at(0)); ++i) {
    const double length = in.has_tensor("cache_seqlens")
                              ? in.tensor("cache_seqlens").at(i)
                              : static_cast<double>(in.integer("cache_seqlens"));
    std::vector<std::size_t> rows;
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(length); ++slot) {
      std::size_t block = i;
      if (in.has_tensor("block_table")) {
        const HostTensor& table = in.tensor("block_table");
        block = static_cast<std::size_t>(table.at(i * last_dim(table) + slot / page));
      }
      rows.push_back(block * page + slot % page);
    }
    attend(in.tensor("q"), i, key, in.tensor("v_cache"), rows, out);
  }
  return out;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); }
double gelu_tanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

using Expected = std::vector<std::pair<std::string, HostTensor>>;

// Empty where no formula is written down.
Expected expected_outputs(const std::string& name, const Arguments& in) {
  if (name == "silu_and_mul") return {{"out", gated(in, silu)}};
  if (name == "gelu_and_mul") return {{"out", gated(in, gelu)}};
  if (name == "gelu_tanh_and_mul") return {{"out", gated(in, gelu_tanh)}};
  if (name == "rms_norm")
    return {{"out", normalised(in.tensor("input"), in.tensor("weight"), in.real("eps"))}};
  if (name == "fused_add_rms_norm") {
    HostTensor sum = in.tensor("residual");
    for (std::size_t i = 0; i < sum.count(); ++i)
      put(sum, i, rounded(sum.at(i) + in.tensor("input").at(i), sum));
    HostTensor normal = normalised(sum, in.tensor("weight"), in.real("epsilon"));
    return {{"input", std::move(normal)}, {"residual", std::move(sum)}};
  }
  if (name == "rotary_embedding" && in.flag("is_neox"))
    return {{"query", rotated(in, "query")}, {"key", rotated(in, "key")}};
  if (name == "flash_attn_varlen_func" && in.flag("causal")) return {{"out", attended_varlen(in)}};
  if (name == "flash_attn_with_kvcache" || name == "flash_attn_with_kvcache.int")
    return {{"out", attended_cache(in)}};
  if (name == "topk_softmax" || name == "topk_sigmoid") {
    const std::string indices_name = name == "topk_softmax" ? "topk_indices" : "topk_ids";
    HostTensor weights = in.tensor("topk_weights");
    HostTensor indices = in.tensor(indices_name);
    largest(in.tensor("gating_output"), name == "topk_softmax", weights, indices);
    return {{"topk_weights", std::move(weights)}, {indices_name, std::move(indices)}};
  }
  return {};
}

// Renormalised weights sum to the scaling factor, and the experts of a token differ and lie in
// topk_group groups at most.
CheckOutcome check_grouped_topk(const Arguments& in, const Arguments& out) {
  const HostTensor& values = out.tensor("topk_values");
  const HostTensor& indices = out.tensor("topk_indices");
  const std::size_t k = last_dim(values);
  const std::size_t experts = last_dim(in.tensor("scores"));
  const auto group_size = experts / static_cast<std::size_t>(in.integer("num_expert_group"));
  const double factor = in.real("routed_scaling_factor");
  for (std::size_t token = 0; token < values.count() / k; ++token) {
    double sum = 0.0;
    std::set<std::size_t> chosen;
    std::set<std::size_t> groups;
    for (std::size_t i = 0; i < k; ++i) {
      sum += values.at(token * k + i);
      const double index = indices.at(token * k + i);
      if (index < 0.0 || index >= static_cast<double>(experts))
        return {false, fmt::format("token {} has expert {} of {}", token, index, experts)};
      chosen.insert(static_cast<std::size_t>(index));
      groups.insert(static_cast<std::size_t>(index) / group_size);
    }
    if (chosen.size() != k) return {false, fmt::format("token {} has an expert twice", token)};
    if (groups.size() > static_cast<std::size_t>(in.integer("topk_group")))
      return {false, fmt::format("token {} uses {} groups", token, groups.size())};
    if (std::fabs(sum - factor) > 1e-5 * factor)
      return {false,
              fmt::format("weights of token {} sum to {:.9g}, not {:g}", token, sum, factor)};
  }
  return {true, "experts distinct, in range and in the allowed groups; weights sum to the factor"};
}

// Repacking moves 4 bit values and makes none.
CheckOutcome check_repack(const Arguments& in, const Arguments& out) {
  const auto histogram = [](const HostTensor& tensor) {
    std::array<std::size_t, 16> counts{};
    for (const std::byte byte : tensor.bytes) {
      ++counts[std::to_integer<std::size_t>(byte & std::byte{0x0F})];
      ++counts[std::to_integer<std::size_t>(byte >> 4U)];
    }
    return counts;
  };
  const bool same = histogram(in.tensor("b_q_weight")) == histogram(out.tensor("out"));
  const bool moved = in.tensor("b_q_weight").bytes != out.tensor("out").bytes;
  if (!same) return {false, "the output does not hold the same 4 bit values as the input"};
  if (!moved) return {false, "the output is a plain copy of the input"};
  return {true, "every 4 bit value of the input is in the output, in another order"};
}

}  // namespace

CheckOutcome check_numbers(const OperatorDeclaration& declaration, const ExampleCall& inputs,
                           const ExampleCall& outputs) {
  try {
    const Arguments in(declaration, inputs);
    const Arguments out(declaration, outputs);
    if (declaration.name == "grouped_topk") return check_grouped_topk(in, out);
    if (declaration.name.ends_with("_marlin_repack")) return check_repack(in, out);
    const Expected expected = expected_outputs(declaration.name, in);
    if (expected.empty()) return {false, "no formula to check it with"};

    // Only what the formula speaks of is compared; the rest stands in for itself.
    ExampleCall wanted = outputs;
    for (const auto& [name, tensor] : expected)
      for (std::size_t i = 0; i < declaration.schema.arguments.size(); ++i)
        if (declaration.schema.arguments[i].name == name) wanted.arguments[i] = tensor;
    const Comparison comparison =
        compare_written(declaration.schema, wanted, outputs,
                        {declaration.tolerance_ulps, declaration.tolerance_absolute});
    return {comparison.within, in_words(comparison, declaration)};
  } catch (const std::exception& error) {
    return {false, std::string{"its example does not fit the formula: "} + error.what()};
  }
}

}  // namespace opmux::cli
