// SPDX-License-Identifier: Apache-2.0
//
// tests/fakes/dispatcher_provider.cpp as built for these tests, mapped once per process.
#pragma once

#include "tests/vllm/dispatcher_world.hpp"

namespace opmux::testing {

inline void* fake_provider() {
  static void* const library = [] {
    vllm_module();
    return load(OPMUX_FAKE_PROVIDER);
  }();
  return library;
}

}  // namespace opmux::testing
