// SPDX-License-Identifier: Apache-2.0
//
// The values of one call, made from the `example` of an operator's declaration. The same seed makes
// the same values on every machine. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "opmux/tensor_view.hpp"

namespace opmux::cli {

using Dims = std::vector<std::pair<std::string, std::int64_t>>;

// A C-contiguous tensor in host memory.
struct HostTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  std::size_t count() const;
  double at(std::size_t index) const;
};

using ExampleArgument = std::variant<NoneLiteral, HostTensor, bool, std::int64_t, double,
                                     std::string, std::vector<std::int64_t>>;

// One value for each argument of the schema.
struct ExampleCall {
  std::vector<ExampleArgument> arguments;
};

// `text` is NAME=VALUE,... or sizes that go to the dims in order, as 4x128 or 4,128. The rejection
// (manifest.example) says what is wrong with it; its subject is the word that is.
Result<Dims> parse_shape(const std::string& text, const Dims& defaults);

// `dtype` stands for $dtype. Beyond 4 GiB in all the rejection is manifest.example.
Result<ExampleCall> make_example(const OperatorDeclaration& declaration, const Dims& dims,
                                 DType dtype, std::uint64_t seed);

}  // namespace opmux::cli
