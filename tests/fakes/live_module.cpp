// SPDX-License-Identifier: Apache-2.0
//
// A plugin module of eight operators `live_N(Tensor(a!) x, Tensor(b!) y) -> ()` over int64 tensors
// of two elements. A call writes 8 * LIVE_VERSION + N into x[0], and after a moment into y[0], so
// that a torn call shows. It stays inside for as long as x[1] is 1, and fails before doing anything
// when x[1] is 2.
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "opmux/plugin.h"

namespace {

// In the module's own memory, which is gone when it is unmapped.
volatile std::int64_t version = LIVE_VERSION;
const OpmuxHost* host_services = nullptr;

#if defined(LIVE_THREAD_LOCAL)
// The dynamic linker keeps a module for as long as a thread has a destructor of it to run.
struct Ending {
  ~Ending() { version = 0; }
  std::int64_t calls = 0;
};
thread_local Ending ending;
#endif

OpmuxStatus call(void* number, const OpmuxCall* call) {
#if defined(LIVE_THREAD_LOCAL)
  ++ending.calls;
#endif
  auto* const x = static_cast<std::int64_t*>(call->values[0].payload.tensor->data);
  auto* const y = static_cast<std::int64_t*>(call->values[1].payload.tensor->data);
  if (__atomic_load_n(&x[1], __ATOMIC_SEQ_CST) == 2) {
    host_services->set_error("live: asked to fail");
    return OPMUX_ERROR_BEFORE_LAUNCH;
  }
  const std::int64_t mark = 8 * version + *static_cast<std::int64_t*>(number);
  x[0] = mark;
  while (__atomic_load_n(&x[1], __ATOMIC_SEQ_CST) == 1) std::this_thread::yield();
  y[0] = 8 * version + *static_cast<std::int64_t*>(number);
  return OPMUX_OK;
}

std::int64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};

#define LIVE_ENTRY(N)                                                                           \
  {                                                                                             \
    sizeof(OpmuxOperatorEntry), 0, "live_" #N, "live_" #N "(Tensor(a!) x, Tensor(b!) y) -> ()", \
        OPMUX_DEVICE_CPU, 0, call, &numbers[N]                                                  \
  }

const OpmuxOperatorEntry kEntries[] = {
    LIVE_ENTRY(0),
    LIVE_ENTRY(1),
    LIVE_ENTRY(2),
    LIVE_ENTRY(3),
    LIVE_ENTRY(4),
    LIVE_ENTRY(5),
    LIVE_ENTRY(6),
    LIVE_ENTRY(7),
#if defined(LIVE_DEVICE_WORK)
    {sizeof(OpmuxOperatorEntry), 0, "live_on_device", "live_on_device(Tensor(a!) x) -> ()",
     OPMUX_DEVICE_CUDA, 0, call, &numbers[0]},
#endif
};

}  // namespace

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* host,
                                                             const OpmuxModule** module) {
  host_services = host;
#if defined(LIVE_CRASHES)
  std::abort();
#elif defined(LIVE_HANGS)
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
#endif
  static OpmuxModule table = {};
  table.struct_size = sizeof table;
  table.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
  table.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
  table.name = "live";
  table.version = "1";
  table.operator_count = sizeof kEntries / sizeof kEntries[0];
  table.operators = kEntries;
#if defined(LIVE_UNLOADABLE)
  table.flags = OPMUX_MODULE_UNLOADABLE;
#endif
  *module = &table;
  return OPMUX_OK;
}
