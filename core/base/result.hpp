// SPDX-License-Identifier: Apache-2.0
//
// The return type of every stage: a value, or the rejection that says why there is none.
#pragma once

#include <cassert>
#include <optional>
#include <utility>
#include <variant>

#include "opmux/status.hpp"

namespace opmux {

template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Rejection rejection) : state_(std::in_place_index<1>, std::move(rejection)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& value() & {
    assert(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    assert(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    assert(ok());
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

  const Rejection& rejection() const& {
    assert(!ok());
    return std::get<1>(state_);
  }
  Rejection&& rejection() && {
    assert(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Rejection> state_;
};

// A check that yields nothing but its verdict.
using Check = std::optional<Rejection>;

}  // namespace opmux
