// SPDX-License-Identifier: Apache-2.0
#include "bench/noop.hpp"

namespace opmux::bench {

std::int64_t sink = 0;

[[gnu::noinline]] void direct_2(const OpmuxTensor* input, const OpmuxTensor* out) {
  sink += input->rank + out->rank;
}

[[gnu::noinline]] void direct_12(const OpmuxTensor* a, const OpmuxTensor* b, const OpmuxTensor* c,
                                 const OpmuxTensor* d, std::int64_t e, std::int64_t f,
                                 std::int64_t g, std::int64_t h, double i, double j, bool k,
                                 bool l) {
  sink += a->rank + b->rank + c->rank + d->rank + e + f + g + h + static_cast<std::int64_t>(i + j) +
          k + l;
}

OpmuxStatus plugin_2(void*, const OpmuxCall* call) {
  const OpmuxValue* values = call->values;
  sink += values[0].payload.tensor->rank + values[1].payload.tensor->rank;
  return OPMUX_OK;
}

OpmuxStatus plugin_12(void*, const OpmuxCall* call) {
  const OpmuxValue* v = call->values;
  sink += v[0].payload.tensor->rank + v[1].payload.tensor->rank + v[2].payload.tensor->rank +
          v[3].payload.tensor->rank + v[4].payload.integer + v[5].payload.integer +
          v[6].payload.integer + v[7].payload.integer +
          static_cast<std::int64_t>(v[8].payload.real + v[9].payload.real) + v[10].payload.integer +
          v[11].payload.integer;
  return OPMUX_OK;
}

}  // namespace opmux::bench
