// SPDX-License-Identifier: Apache-2.0
//
// Builds the kernel tables and picks those that this machine can run. Compiled for the baseline.
#include "plugins/native/cpu/kernels/kernels.hpp"
#include "plugins/native/cpu/kernels/targets.hpp"

#if defined(OPMUX_NATIVE_X86_TARGETS)
#include <cpuid.h>
#endif

namespace opmux::native {
namespace {

#define OPMUX_BUILD_KERNEL_TABLE(target_name) \
  [] {                                        \
    KernelTable table = {};                   \
    table.target = #target_name;              \
    target_name::fill_activation(table);      \
    target_name::fill_attention(table);       \
    target_name::fill_norm(table);            \
    target_name::fill_rotary(table);          \
    target_name::fill_scores(table);          \
    return table;                             \
  }()

const KernelTable* baseline_table() {
  static const KernelTable table = OPMUX_BUILD_KERNEL_TABLE(baseline);
  return &table;
}

#if defined(OPMUX_NATIVE_X86_TARGETS)
const KernelTable* avx2_table() {
  static const KernelTable table = OPMUX_BUILD_KERNEL_TABLE(avx2);
  return &table;
}

const KernelTable* avx512_table() {
  static const KernelTable table = OPMUX_BUILD_KERNEL_TABLE(avx512);
  return &table;
}

// The avx2 target also converts float16 in hardware, which __builtin_cpu_supports of older
// compilers cannot ask for. Every CPU that has AVX2 and an operating system that saves its
// registers may use F16C when CPUID shows it.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool runs_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0 && has_f16c();
}

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}
#endif

}  // namespace

KernelTables kernel_tables() {
  KernelTables result = {};
#if defined(OPMUX_NATIVE_X86_TARGETS)
  if (runs_avx512()) result.tables[result.count++] = avx512_table();
  if (runs_avx2()) result.tables[result.count++] = avx2_table();
#endif
  result.tables[result.count++] = baseline_table();
  return result;
}

}  // namespace opmux::native
