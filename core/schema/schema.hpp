// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's operator schema language, without torch. Grammar:
// torch/csrc/jit/frontend/function_schema_parser.cpp as of torch 2.11; the printed forms of alias
// marks by torch (`Tensor($0! -> ) x`) are read too. Thread safety: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.hpp"

namespace opmux::schema {

enum class TypeKind {
  kTensor,
  kInt,
  kSymInt,
  kFloat,
  kBool,
  kString,
  kScalar,
  kScalarType,
  kLayout,
  kDevice,
  kMemoryFormat,
  kGenerator,
  kDimname,
  kStorage,
  kStream,
  kAny,
  kList,      // element in `elements[0]`; `list_size` when written as `int[2]`
  kOptional,  // element in `elements[0]`
  kTuple,     // elements
};

struct Type {
  TypeKind kind = TypeKind::kAny;
  std::vector<Type> elements;
  std::optional<std::int64_t> list_size;
};

struct AliasInfo {
  bool is_write = false;
  // Labels group arguments and returns that alias; they are not compared by name. `*` stands for
  // anything. Empty for a bare `Tensor!`, also when torch printed it as `Tensor($0! -> )`.
  std::vector<std::string> labels;
  // The labels after the call as in `(a! -> a|b)`; empty when they are the same.
  std::vector<std::string> after;
};

struct NoneValue {};
// A default that is a name, e.g. `float32`, `contiguous_format`, `Mean`.
struct NamedValue {
  std::string name;
};
struct DefaultValue;
using DefaultList = std::vector<DefaultValue>;
struct DefaultValue {
  std::variant<NoneValue, bool, std::int64_t, double, std::string, NamedValue, DefaultList> value;
};

struct Argument {
  std::string name;  // may be empty for a return
  Type type;
  std::optional<AliasInfo> alias;
  std::optional<DefaultValue> default_value;
  bool keyword_only = false;
};

struct Schema {
  std::string name_space;  // "_C", empty when there is none
  std::string name;        // "silu_and_mul"
  std::string overload;    // "" or "int"
  std::vector<Argument> arguments;
  std::vector<Argument> returns;
  bool is_variadic = false;           // `...` ends the arguments
  bool has_variadic_returns = false;  // `...` stands for, or ends, the returns

  std::string qualified_name() const;  // namespace::name.overload
};

// Caps of the parser, so that hostile text costs little and no stack.
inline constexpr std::size_t kMaximumLength = std::size_t{64} * 1024;
inline constexpr std::size_t kMaximumArguments = 1024;
inline constexpr int kMaximumDepth = 16;  // of nested types and default lists

// Parses one schema. On failure the rejection (rule manifest.schema) names the 1-based column, what
// was expected there and what stands there; `subject` of the rejection is "column N".
Result<Schema> parse(std::string_view text);

std::string to_string(const Schema& schema);
std::string to_string(const Type& type);
std::string to_string(const DefaultValue& value);

// What differs in meaning, in words, empty when nothing does: `argument 3 `perm`: expected Tensor,
// found SymInt`. Compared: qualified name, argument count, names, types (int is not SymInt), list
// sizes, optional, written or not, return aliasing, keyword-only, defaults by value (1e-6 equals
// 0.000001, `float32` equals torch's code 6, `int[2] x=1` equals [1, 1]), names of returns where
// both sides give one. Not compared: alias labels. Several differences are joined by "; ".
std::string difference(const Schema& expected, const Schema& found);

bool is_optional(const Type& type);
bool is_tensor(const Type& type);  // Tensor or Tensor?
bool is_written(const Argument& argument);

}  // namespace opmux::schema
