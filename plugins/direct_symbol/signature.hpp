// SPDX-License-Identifier: Apache-2.0
//
// What a function's demangled name tells about how to call it. Knows no torch.
//
// The name is all there is, so some things cannot be checked and are what the author of a manifest
// vouches for:
//   - The return type is no part of a symbol; the manifest states it. A wrong one is undefined
//     behaviour.
//   - Whether a function writes through an at::Tensor& is not told, nor whether it writes through
//     at::Tensor by value or const&, whose memory is writable all the same.
//   - A member function looks like a function of a namespace unless it is const. It needs an object
//     that nobody has.
//   - The layout of a class behind a name is that of this module's torch; a library that was
//     compiled against other headers and exports the same names is told apart by its other imports
//     only.
//   - Defaults of parameters are no part of a symbol: a mapping gives every value.
// Whatever is not in the list below is refused: other classes and class templates, pointers, rvalue
// references, references to what the caller could not see change, variadic functions, the
// std::string of the old ABI.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace opmux::direct_symbol {

// A parameter's type without const and reference.
enum class ValueKind {
  kTensor,               // at::Tensor
  kOptionalTensor,       // std::optional<at::Tensor>
  kOptionalConstTensor,  // std::optional<at::Tensor const>
  kBool,
  kChar,
  kSignedChar,
  kUnsignedChar,
  kShort,
  kUnsignedShort,
  kInt,
  kUnsignedInt,
  kLong,
  kUnsignedLong,
  kLongLong,
  kUnsignedLongLong,
  kFloat,
  kDouble,
  kOptionalBool,  // std::optional<bool> and so on
  kOptionalInt,
  kOptionalLong,
  kOptionalDouble,
  kLongArray,          // c10::ArrayRef<long>
  kLongVector,         // std::vector<long>
  kString,             // std::string of the new ABI, std::__cxx11::basic_string<char>
  kOptionalGenerator,  // std::optional<at::Generator>
};

enum class Passing { kValue, kReference, kConstReference };

struct Parameter {
  ValueKind kind = ValueKind::kTensor;
  Passing passing = Passing::kValue;
  bool operator==(const Parameter&) const = default;
};

struct Signature {
  std::string name;  // with namespaces, without the parameters
  std::vector<Parameter> parameters;
  bool operator==(const Signature&) const = default;
};

// What a function returns.
enum class ReturnKind {
  kVoid,
  kScalar,       // bool, an integer, float or double: no result of an operator
  kTensor,       // at::Tensor
  kTensorList,   // std::vector<at::Tensor>
  kTensorTuple,  // std::tuple of 2 to 4 at::Tensor
};

struct Return {
  ReturnKind kind = ReturnKind::kVoid;
  std::size_t tensors = 0;              // kTensorTuple
  ValueKind scalar = ValueKind::kBool;  // kScalar
  bool operator==(const Return&) const = default;
};

inline constexpr std::size_t kMaximumLength = 8192;
inline constexpr std::size_t kMaximumParameters = 100;

// Reads a demangled name such as "ns::rms_norm(at::Tensor&, at::Tensor const&, double)". Spaces,
// `const` before or after the type, and default allocators do not matter. False when it is no
// function that can be called; `why` then names the parameter's position from 0, its type, and what
// is supported.
bool parse_signature(std::string_view text, Signature& result, std::string& why);

// Reads the C++ type that a function returns. False with the reason in `why`.
bool parse_return(std::string_view text, Return& result, std::string& why);

// The canonical form, which parses to the same signature.
std::string to_string(const Signature& signature);
std::string to_string(const Parameter& parameter);

}  // namespace opmux::direct_symbol
