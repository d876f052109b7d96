// SPDX-License-Identifier: Apache-2.0
//
// Kernels that do nothing but touch their arguments, so that a benchmark measures the way to them.
#pragma once

#include <cstdint>

#include "opmux/plugin.h"

namespace opmux::bench {

// Called directly: what a call costs without any framework. Kept out of line.
void direct_2(const OpmuxTensor* input, const OpmuxTensor* out);
void direct_12(const OpmuxTensor* a, const OpmuxTensor* b, const OpmuxTensor* c,
               const OpmuxTensor* d, std::int64_t e, std::int64_t f, std::int64_t g, std::int64_t h,
               double i, double j, bool k, bool l);

// The same behind opmux's plugin ABI.
OpmuxStatus plugin_2(void* binding, const OpmuxCall* call);
OpmuxStatus plugin_12(void* binding, const OpmuxCall* call);

// What the kernels saw; read so that nothing is optimised away.
extern std::int64_t sink;

inline constexpr const char* kSchema2 = "bench_2(Tensor input, Tensor(a!) out) -> ()";
inline constexpr const char* kSchema12 =
    "bench_12(Tensor a, Tensor b, Tensor c, Tensor(a!) d, int e, int f, int g, int h, float i, "
    "float j, bool k, bool l) "
    "-> ()";

}  // namespace opmux::bench
