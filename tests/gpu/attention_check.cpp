// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/attention_check.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <variant>

#include "core/compare/floats.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux::gpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double element(const cli::HostTensor& tensor, std::size_t index) {
  return load(tensor.bytes.data() + index * size_of(tensor.dtype), tensor.dtype);
}

std::string fault_at(const char* name, std::size_t index, double expected, double found) {
  return std::string(name) + "[" + std::to_string(index) + "]: expected " +
         std::to_string(expected) + ", found " + std::to_string(found);
}

void check_out(const AttentionCall& call, const cli::HostTensor& out, AttentionCheck& check) {
  const Tolerance tolerance = attention_tolerance(call.operator_name);
  for (std::size_t at = 0; at < call.expected_out.size(); ++at) {
    const double expected = call.expected_out[at];
    const double found = element(out, at);
    const double difference = std::abs(found - expected);
    const double allowed =
        call.slack * (tolerance.absolute + tolerance.ulps * ulp_at(expected, out.dtype));
    // A NaN is outside.
    if (!(difference <= allowed) && check.fault.empty())
      check.fault = fault_at("out", at, expected, found);
    check.max_error = std::fmax(check.max_error, difference);
  }
}

// float32 throughout.
void check_lse(const AttentionCall& call, const cli::HostTensor& lse, AttentionCheck& check) {
  for (std::size_t at = 0; at < call.expected_lse.size() && check.fault.empty(); ++at) {
    const double expected = call.expected_lse[at];
    const bool no_keys = expected == -kInfinity;
    const double found = element(lse, at);
    // Rounding a rotated query to bfloat16 moves each of its scores by up to 2^-9 of what it sums,
    // which the largest score, and so the log-sum-exp, is about the size of.
    const double rounding = call.slack > 1.0 ? 0x1p-8 * std::abs(expected) : 0.0;
    const double allowed = call.slack * (2e-3 + 1e-4 * std::abs(expected)) + rounding;
    if (no_keys ? found != expected : !(std::abs(found - expected) <= allowed))
      check.fault = fault_at("softmax_lse", at, expected, found);
  }
}

// Appended tokens are rotated in float32 and rounded once; everything else is as it was.
void check_cache(const char* name, const std::vector<double>& expected,
                 const cli::HostTensor& cache, AttentionCheck& check) {
  for (std::size_t at = 0; at < expected.size() && check.fault.empty(); ++at) {
    const double found = element(cache, at);
    const double allowed = ulp_at(expected[at], cache.dtype) + 1e-3;
    if (!(std::abs(found - expected[at]) <= allowed))
      check.fault = fault_at(name, at, expected[at], found);
  }
}

}  // namespace

Tolerance attention_tolerance(const std::string& operator_name) {
  static const ManifestSet manifests = [] {
    ManifestSources sources;
    sources.folders = {std::filesystem::path(OPMUX_SOURCE_DIR) / "manifests"};
    return read_manifests(sources);
  }();
  const OperatorDeclaration* declaration = manifests.find_declaration(operator_name);
  return declaration == nullptr
             ? Tolerance{}
             : Tolerance{declaration->tolerance_ulps, declaration->tolerance_absolute};
}

AttentionCheck check_attention(const AttentionCall& call, const cli::ExampleCall& outputs) {
  const auto& tensor = [&](std::size_t argument) -> const cli::HostTensor& {
    return std::get<cli::HostTensor>(outputs.arguments[argument]);
  };
  AttentionCheck check;
  check_out(call, tensor(call.out), check);
  check_lse(call, tensor(call.lse), check);
  if (!call.expected_k_cache.empty()) {
    check_cache("k_cache", call.expected_k_cache, tensor(call.k_cache), check);
    check_cache("v_cache", call.expected_v_cache, tensor(call.v_cache), check);
  }
  return check;
}

}  // namespace opmux::gpu
