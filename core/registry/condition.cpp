// SPDX-License-Identifier: Apache-2.0
#include "core/registry/condition.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <string_view>

#include "core/base/text.hpp"

namespace opmux {
namespace {

struct NamedDtype {
  const char* name;
  OpmuxDataType dtype;
};

constexpr std::array kDtypes{
    NamedDtype{"float32", {OPMUX_DTYPE_FLOAT, 32, 1}},
    NamedDtype{"float16", {OPMUX_DTYPE_FLOAT, 16, 1}},
    NamedDtype{"bfloat16", {OPMUX_DTYPE_BFLOAT, 16, 1}},
    NamedDtype{"float64", {OPMUX_DTYPE_FLOAT, 64, 1}},
    NamedDtype{"int8", {OPMUX_DTYPE_INT, 8, 1}},
    NamedDtype{"int16", {OPMUX_DTYPE_INT, 16, 1}},
    NamedDtype{"int32", {OPMUX_DTYPE_INT, 32, 1}},
    NamedDtype{"int64", {OPMUX_DTYPE_INT, 64, 1}},
    NamedDtype{"uint8", {OPMUX_DTYPE_UINT, 8, 1}},
    NamedDtype{"bool", {OPMUX_DTYPE_BOOL, 8, 1}},
    NamedDtype{"float8_e4m3fn", {OPMUX_DTYPE_FLOAT8_E4M3FN, 8, 1}},
    NamedDtype{"float8_e5m2", {OPMUX_DTYPE_FLOAT8_E5M2, 8, 1}},
};

constexpr bool same_dtype(OpmuxDataType a, OpmuxDataType b) noexcept {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// Index into kDtypes, -1 for a dtype that manifests cannot name.
int dtype_index(OpmuxDataType dtype) noexcept {
  for (std::size_t index = 0; index < kDtypes.size(); ++index) {
    if (same_dtype(kDtypes[index].dtype, dtype)) return static_cast<int>(index);
  }
  return -1;
}

// As torch has it: strides of a tensor without elements mean nothing.
bool contiguous(const OpmuxTensor& tensor) noexcept {
  if (tensor.strides == nullptr || element_count(tensor) == 0) return true;
  std::int64_t step = 1;
  for (std::int32_t dim = tensor.rank - 1; dim >= 0; --dim) {
    if (tensor.shape[dim] != 1 && tensor.strides[dim] != step) return false;
    step *= tensor.shape[dim];
  }
  return true;
}

bool last_dim_contiguous(const OpmuxTensor& tensor) noexcept {
  if (tensor.strides == nullptr || tensor.rank == 0) return true;
  const std::int32_t last = tensor.rank - 1;
  return tensor.shape[last] <= 1 || tensor.strides[last] == 1;
}

// The greatest common divisor of `wanted`, the address of the first element and the distances
// between rows, in bytes; `wanted` for a tensor without elements.
std::int64_t row_alignment(const OpmuxTensor& tensor, std::int64_t wanted) noexcept {
  if (element_count(tensor) == 0) return wanted;
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  std::int64_t alignment =
      std::gcd(wanted, static_cast<std::int64_t>(address % static_cast<std::uint64_t>(wanted)));
  const std::int64_t bytes = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  std::int64_t step = tensor.rank > 0 ? tensor.shape[tensor.rank - 1] : 1;
  for (std::int32_t dim = tensor.rank - 2; dim >= 0; --dim) {
    const std::int64_t stride = tensor.strides == nullptr ? step : tensor.strides[dim];
    if (tensor.shape[dim] > 1) alignment = std::gcd(alignment, stride % wanted * bytes);
    step *= tensor.shape[dim];
  }
  return alignment;
}

// Resolves a negative dim; false when the tensor has no such dim.
bool dim_size(const OpmuxTensor& tensor, std::int32_t dim, std::int64_t& size) noexcept {
  const std::int32_t at = dim < 0 ? dim + tensor.rank : dim;
  if (at < 0 || at >= tensor.rank) return false;
  size = tensor.shape[at];
  return true;
}

bool is_one_of(const std::vector<std::int64_t>& allowed, std::int64_t number) noexcept {
  return std::find(allowed.begin(), allowed.end(), number) != allowed.end();
}

double real_of(const OpmuxValue& value) noexcept {
  return value.tag == OPMUX_VALUE_FLOAT ? value.payload.real
                                        : static_cast<double>(value.payload.integer);
}

bool tensor_holds(const CompiledCondition& condition, const OpmuxTensor& tensor,
                  const OpmuxValue* values) noexcept {
  std::int64_t size = 0;
  switch (condition.kind) {
    case ConditionKind::kTensorEmpty:
      return element_count(tensor) == 0;
    case ConditionKind::kTensorNotEmpty:
      return element_count(tensor) != 0;
    case ConditionKind::kDtype: {
      const int index = dtype_index(tensor.dtype);
      return index >= 0 && ((condition.dtype_mask >> index) & 1u) != 0;
    }
    case ConditionKind::kSameDtype: {
      const OpmuxValue& other = values[condition.other];
      return other.tag != OPMUX_VALUE_TENSOR ||
             same_dtype(tensor.dtype, other.payload.tensor->dtype);
    }
    case ConditionKind::kRank:
      return is_one_of(condition.integers, tensor.rank);
    case ConditionKind::kContiguous:
      return contiguous(tensor);
    case ConditionKind::kLastDimContiguous:
      return last_dim_contiguous(tensor);
    case ConditionKind::kRowAlignment:
      return row_alignment(tensor, condition.integers[0]) == condition.integers[0];
    case ConditionKind::kDimMultipleOf:
      return dim_size(tensor, condition.dim, size) && size % condition.integers[0] == 0;
    case ConditionKind::kDimRange:
      return dim_size(tensor, condition.dim, size) && size >= condition.low &&
             size <= condition.high;
    case ConditionKind::kDimIn:
      return dim_size(tensor, condition.dim, size) && is_one_of(condition.integers, size);
    default:
      return false;
  }
}

std::string shape_text(const OpmuxTensor& tensor) {
  std::string text = "[";
  for (std::int32_t dim = 0; dim < tensor.rank; ++dim) {
    if (dim > 0) text += ", ";
    text += std::to_string(tensor.shape[dim]);
  }
  return text + "]";
}

}  // namespace

std::int64_t element_count(const OpmuxTensor& tensor) noexcept {
  std::int64_t count = 1;
  for (std::int32_t dim = 0; dim < tensor.rank; ++dim) count *= tensor.shape[dim];
  return count;
}

std::string dtype_name(OpmuxDataType dtype) {
  const int index = dtype_index(dtype);
  if (index >= 0) return kDtypes[static_cast<std::size_t>(index)].name;
  return "code " + std::to_string(dtype.code) + " bits " + std::to_string(dtype.bits);
}

bool dtype_from_name(const std::string& name, OpmuxDataType& dtype) {
  for (const NamedDtype& known : kDtypes) {
    if (name == known.name) {
      dtype = known.dtype;
      return true;
    }
  }
  return false;
}

CompiledCondition compile_condition(const Condition& condition) {
  CompiledCondition compiled;
  compiled.kind = condition.kind;
  compiled.argument = condition.argument;
  compiled.other = condition.other;
  compiled.dim = condition.dim;
  compiled.low = condition.low;
  compiled.high = condition.high;
  compiled.real_low = condition.real_low;
  compiled.real_high = condition.real_high;
  compiled.integers = condition.integers;
  compiled.reals = condition.reals;
  compiled.names = condition.names;
  compiled.text = condition.text;
  for (const std::vector<Condition>& branch : condition.branches) {
    std::vector<CompiledCondition>& compiled_branch = compiled.branches.emplace_back();
    for (const Condition& part : branch) compiled_branch.push_back(compile_condition(part));
  }
  if (condition.kind == ConditionKind::kDtype) {
    for (const std::string& name : condition.names) {
      OpmuxDataType dtype{};
      if (dtype_from_name(name, dtype))
        compiled.dtype_mask |= std::uint64_t{1} << dtype_index(dtype);
    }
  }
  return compiled;
}

bool holds(const CompiledCondition& condition, const OpmuxValue* values) noexcept {
  if (condition.kind == ConditionKind::kAnyOf) {
    return std::any_of(condition.branches.begin(), condition.branches.end(),
                       [&](const std::vector<CompiledCondition>& branch) {
                         return std::all_of(
                             branch.begin(), branch.end(),
                             [&](const CompiledCondition& part) { return holds(part, values); });
                       });
  }
  const OpmuxValue& value = values[condition.argument];
  if (condition.kind == ConditionKind::kNone) return value.tag == OPMUX_VALUE_NONE;
  if (condition.kind == ConditionKind::kGiven) return value.tag != OPMUX_VALUE_NONE;
  if (value.tag == OPMUX_VALUE_NONE) return true;
  if (value.tag == OPMUX_VALUE_TENSOR)
    return tensor_holds(condition, *value.payload.tensor, values);
  switch (condition.kind) {
    case ConditionKind::kIntIn:
      return is_one_of(condition.integers, value.payload.integer);
    case ConditionKind::kIntRange:
      return value.payload.integer >= condition.low && value.payload.integer <= condition.high;
    case ConditionKind::kIntMultipleOf:
      return value.payload.integer % condition.integers[0] == 0;
    case ConditionKind::kBoolIs:
      return std::find(condition.integers.begin(), condition.integers.end(),
                       value.payload.integer != 0 ? 1 : 0) != condition.integers.end();
    case ConditionKind::kFloatIn:
      return std::find(condition.reals.begin(), condition.reals.end(), real_of(value)) !=
             condition.reals.end();
    case ConditionKind::kFloatRange: {
      const double number = real_of(value);
      return number >= condition.real_low && number <= condition.real_high;
    }
    case ConditionKind::kStringIn:
      return value.tag == OPMUX_VALUE_STRING &&
             std::find(condition.names.begin(), condition.names.end(),
                       std::string_view(value.payload.string)) != condition.names.end();
    case ConditionKind::kListSize:
      return value.tag == OPMUX_VALUE_INT_LIST &&
             is_one_of(condition.integers, static_cast<std::int64_t>(value.payload.int_list->size));
    default:
      return false;
  }
}

std::string describe_value(const CompiledCondition& condition, const OpmuxValue* values) {
  // The first condition that fails of each branch.
  if (condition.kind == ConditionKind::kAnyOf) {
    std::vector<std::string> texts;
    for (const std::vector<CompiledCondition>& branch : condition.branches) {
      const auto failed =
          std::find_if(branch.begin(), branch.end(),
                       [&](const CompiledCondition& part) { return !holds(part, values); });
      if (failed != branch.end())
        texts.push_back("`" + failed->text + "`: " + describe_value(*failed, values));
    }
    return join(texts, "; ");
  }
  const OpmuxValue& value = values[condition.argument];
  switch (value.tag) {
    case OPMUX_VALUE_NONE:
      return "none";
    case OPMUX_VALUE_INT:
      return std::to_string(value.payload.integer);
    case OPMUX_VALUE_BOOL:
      return value.payload.integer != 0 ? "true" : "false";
    case OPMUX_VALUE_FLOAT: {
      // Not std::to_string, which prints an epsilon of 1e-7 as 0.000000.
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.9g", value.payload.real);
      return text.data();
    }
    case OPMUX_VALUE_STRING:
      return '"' + printable(value.payload.string) + '"';
    case OPMUX_VALUE_INT_LIST:
      return "a list of " + std::to_string(value.payload.int_list->size);
    case OPMUX_VALUE_TENSOR: {
      const OpmuxTensor& tensor = *value.payload.tensor;
      std::string text = dtype_name(tensor.dtype) + " " + shape_text(tensor);
      if (!contiguous(tensor)) text += " strided";
      if (condition.kind == ConditionKind::kRowAlignment)
        text += ", rows at multiples of " +
                std::to_string(row_alignment(tensor, condition.integers[0])) + " bytes";
      return text;
    }
    default:
      return "a value of tag " + std::to_string(value.tag);
  }
}

}  // namespace opmux
