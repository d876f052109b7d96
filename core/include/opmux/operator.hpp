// SPDX-License-Identifier: Apache-2.0
//
// Operator handles: resolved once from a Runtime by name, called often.
//
//   auto silu = runtime.op<void(Tensor, Tensor)>("silu_and_mul");
//   if (silu.ok()) opmux::Status status = (*silu)(input, out);
//
// Signature types and the schema types they fit:
//   Tensor            Tensor              OptionalTensor                 Tensor?
//   std::int64_t      int, SymInt         std::optional<std::int64_t>    int?
//   double            float               std::optional<double>          float?
//   bool              bool                const char*                    str
//   IntList           int[]               std::optional<IntList>         int[]?
// Trailing arguments that have a default in the schema may be left out of the signature.
//
// Thread safety: a handle may be copied and called from any number of threads at the same time,
// also while routes change. It must not outlive the process's last Runtime by use after main(): see
// Runtime. Cost of a call: no lock, no lookup by name, no allocation by opmux unless there is an
// error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "opmux/export.h"
#include "opmux/plugin.h"
#include "opmux/status.hpp"
#include "opmux/tensor_view.hpp"

namespace opmux {

using Tensor = TensorView;

// `Tensor?`: a view that lives until the call returns, or nothing.
class OptionalTensor {
 public:
  OptionalTensor(std::nullopt_t) noexcept {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor)
  OptionalTensor(const TensorView& view) noexcept : view_(&view) {}
  const TensorView* get() const noexcept { return view_; }

 private:
  const TensorView* view_ = nullptr;
};

// `int[]`: numbers that live until the call returns.
class IntList {
 public:
  IntList(const std::int64_t* data, std::size_t size) noexcept : list_{data, size} {}
  IntList(const std::vector<std::int64_t>& values) noexcept  // NOLINT(google-explicit-constructor)
      : list_{values.data(), values.size()} {}
  const OpmuxIntList& abi() const noexcept { return list_; }

 private:
  OpmuxIntList list_;
};

// Where a call's device work goes. CPU calls have none; a CUDA call must name one, the legacy
// default stream included.
struct Stream {
  std::uint32_t kind = OPMUX_STREAM_NONE;
  void* handle = nullptr;

  static Stream none() noexcept { return {}; }
  // A cudaStream_t other than the default ones. Null reads as no stream and the call is refused.
  static Stream of(void* cuda_stream) noexcept {
    return {cuda_stream == nullptr ? std::uint32_t{OPMUX_STREAM_NONE}
                                   : std::uint32_t{OPMUX_STREAM_HANDLE},
            cuda_stream};
  }
  static Stream legacy_default() noexcept { return {OPMUX_STREAM_LEGACY_DEFAULT, nullptr}; }
  static Stream per_thread_default() noexcept { return {OPMUX_STREAM_PER_THREAD_DEFAULT, nullptr}; }
};

namespace detail {

// One operator of one Runtime; never freed while the process lives.
struct OperatorState;

enum class ArgumentKind : std::uint8_t {
  kTensor,
  kOptionalTensor,
  kInt,
  kOptionalInt,
  kFloat,
  kOptionalFloat,
  kBool,
  kString,
  kIntList,
  kOptionalIntList,
};

template <class T>
struct ArgumentTraits;

inline OpmuxValue none_value() noexcept { return OpmuxValue{OPMUX_VALUE_NONE, 0, {0}}; }
inline OpmuxValue int_value(std::int64_t number) noexcept {
  OpmuxValue value{OPMUX_VALUE_INT, 0, {0}};
  value.payload.integer = number;
  return value;
}
inline OpmuxValue float_value(double number) noexcept {
  OpmuxValue value{OPMUX_VALUE_FLOAT, 0, {0}};
  value.payload.real = number;
  return value;
}
inline OpmuxValue tensor_value(const TensorView& view) noexcept {
  OpmuxValue value{OPMUX_VALUE_TENSOR, 0, {0}};
  value.payload.tensor = &view.abi().tensor;
  return value;
}
inline OpmuxValue list_value(const IntList& list) noexcept {
  OpmuxValue value{OPMUX_VALUE_INT_LIST, 0, {0}};
  value.payload.int_list = &list.abi();
  return value;
}

template <>
struct ArgumentTraits<TensorView> {
  using Parameter = const TensorView&;
  static constexpr ArgumentKind kKind = ArgumentKind::kTensor;
  static OpmuxValue pack(Parameter view) noexcept { return tensor_value(view); }
};
template <>
struct ArgumentTraits<OptionalTensor> {
  using Parameter = OptionalTensor;
  static constexpr ArgumentKind kKind = ArgumentKind::kOptionalTensor;
  static OpmuxValue pack(Parameter view) noexcept {
    return view.get() == nullptr ? none_value() : tensor_value(*view.get());
  }
};
template <>
struct ArgumentTraits<std::int64_t> {
  using Parameter = std::int64_t;
  static constexpr ArgumentKind kKind = ArgumentKind::kInt;
  static OpmuxValue pack(Parameter number) noexcept { return int_value(number); }
};
template <>
struct ArgumentTraits<std::optional<std::int64_t>> {
  using Parameter = std::optional<std::int64_t>;
  static constexpr ArgumentKind kKind = ArgumentKind::kOptionalInt;
  static OpmuxValue pack(Parameter number) noexcept {
    return number ? int_value(*number) : none_value();
  }
};
template <>
struct ArgumentTraits<double> {
  using Parameter = double;
  static constexpr ArgumentKind kKind = ArgumentKind::kFloat;
  static OpmuxValue pack(Parameter number) noexcept { return float_value(number); }
};
template <>
struct ArgumentTraits<std::optional<double>> {
  using Parameter = std::optional<double>;
  static constexpr ArgumentKind kKind = ArgumentKind::kOptionalFloat;
  static OpmuxValue pack(Parameter number) noexcept {
    return number ? float_value(*number) : none_value();
  }
};
template <>
struct ArgumentTraits<bool> {
  using Parameter = bool;
  static constexpr ArgumentKind kKind = ArgumentKind::kBool;
  static OpmuxValue pack(Parameter flag) noexcept {
    OpmuxValue value = int_value(flag ? 1 : 0);
    value.tag = OPMUX_VALUE_BOOL;
    return value;
  }
};
template <>
struct ArgumentTraits<const char*> {
  using Parameter = const char*;
  static constexpr ArgumentKind kKind = ArgumentKind::kString;
  static OpmuxValue pack(Parameter text) noexcept {
    OpmuxValue value{OPMUX_VALUE_STRING, 0, {0}};
    value.payload.string = text;
    return value;
  }
};
template <>
struct ArgumentTraits<IntList> {
  using Parameter = const IntList&;
  static constexpr ArgumentKind kKind = ArgumentKind::kIntList;
  static OpmuxValue pack(Parameter list) noexcept { return list_value(list); }
};
template <>
struct ArgumentTraits<std::optional<IntList>> {
  using Parameter = const std::optional<IntList>&;
  static constexpr ArgumentKind kKind = ArgumentKind::kOptionalIntList;
  static OpmuxValue pack(Parameter list) noexcept {
    return list ? list_value(*list) : none_value();
  }
};

// Fills in defaults where `count` is smaller than the schema's argument count. `flags`:
// OPMUX_CALL_*.
OPMUX_API Status call(const OperatorState* state, const OpmuxValue* values, std::size_t count,
                      Stream stream, std::uint32_t flags);
// Ok when `kinds` fit the schema's arguments.
OPMUX_API Status check_signature(const OperatorState* state, const ArgumentKind* kinds,
                                 std::size_t count);

}  // namespace detail

// Who served a call.
struct LastCall {
  std::string provider;          // empty: no call yet
  std::uint64_t generation = 0;  // whose routes the call used
};

// An operator without a C++ signature: values in schema order, as opmux/plugin.h lays them out.
class OPMUX_API BoxedOperator {
 public:
  explicit BoxedOperator(const detail::OperatorState* state) noexcept : state_(state) {}

  const std::string& name() const noexcept;
  const std::string& schema() const noexcept;

  // `count` values in schema order; trailing defaults may be left out. Values are checked against
  // the schema's types. `flags`: OPMUX_CALL_OWNED_TENSORS when each tensor value points to an
  // OpmuxOwnedTensor.
  Status call(const OpmuxValue* values, std::size_t count, Stream stream = {},
              std::uint32_t flags = 0) const;

  // The same call on the binding of one provider of the operator's route, whatever its place there;
  // no fallback. For tools and tests.
  Status call_provider(std::string_view provider, const OpmuxValue* values, std::size_t count,
                       Stream stream = {}, std::uint32_t flags = 0) const;

  // Of this thread's last successful call of any operator of the same runtime.
  LastCall last_call() const;
  std::string last_provider() const;

  const detail::OperatorState* state() const noexcept { return state_; }

 private:
  const detail::OperatorState* state_;
};

template <class Signature>
class Operator;

template <class... Arguments>
class Operator<void(Arguments...)> {
 public:
  explicit Operator(const detail::OperatorState* state) noexcept : state_(state) {}

  static Status check(const detail::OperatorState* state) {
    static constexpr std::array<detail::ArgumentKind, sizeof...(Arguments)> kKinds{
        detail::ArgumentTraits<Arguments>::kKind...};
    return detail::check_signature(state, kKinds.data(), kKinds.size());
  }

  // A CPU call.
  Status operator()(typename detail::ArgumentTraits<Arguments>::Parameter... arguments) const {
    return on(Stream{}, arguments...);
  }

  // A call whose device work goes to `stream`.
  Status on(Stream stream,
            typename detail::ArgumentTraits<Arguments>::Parameter... arguments) const {
    const OpmuxValue values[] = {detail::ArgumentTraits<Arguments>::pack(arguments)...};
    return detail::call(state_, values, sizeof...(Arguments), stream, OPMUX_CALL_OWNED_TENSORS);
  }

  BoxedOperator boxed() const noexcept { return BoxedOperator(state_); }

 private:
  const detail::OperatorState* state_;
};

}  // namespace opmux
