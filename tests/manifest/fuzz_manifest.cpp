// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a manifest: an answer, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <variant>

#include "core/manifest/manifest.hpp"

namespace {

const std::vector<opmux::OperatorDeclaration>& declarations() {
  static const std::vector<opmux::OperatorDeclaration> read = [] {
    auto result = opmux::parse_manifest(
        "manifest: 1\n"
        "declare:\n"
        "  silu_and_mul: {schema: \"silu_and_mul(Tensor input, Tensor(a!) out) -> ()\"}\n"
        "  repack: {schema: \"repack(Tensor weight, Tensor perm, int size, int num_bits, bool "
        "is_a_8bit, Tensor(a!) out) -> ()\"}\n"
        "  norm: {schema: \"norm(Tensor(a!) input, Tensor? weight, float epsilon, int? groups, str "
        "kind, int[] window, Tensor(b!)? rest) -> ()\"}\n",
        "operators.yaml", {});
    auto* manifest = std::get_if<opmux::Manifest>(&result);
    if (manifest == nullptr) std::abort();
    return manifest->declarations;
  }();
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  const auto result = opmux::parse_manifest(text, "m.yaml", declarations());
  const auto* rejections = std::get_if<std::vector<opmux::Rejection>>(&result);
  if (rejections != nullptr && rejections->empty()) std::abort();
  return 0;
}
