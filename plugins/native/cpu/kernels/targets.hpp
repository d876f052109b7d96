// SPDX-License-Identifier: Apache-2.0
//
// The targets and what each kernel source defines for one. OPMUX_KERNEL_TARGET names the target
// that a kernel source is being compiled for.
#pragma once

#include "plugins/native/cpu/kernels/kernels.hpp"

#define OPMUX_DECLARE_KERNEL_TARGET(target) \
  namespace target {                        \
  void fill_activation(KernelTable& table); \
  void fill_attention(KernelTable& table);  \
  void fill_norm(KernelTable& table);       \
  void fill_rotary(KernelTable& table);     \
  void fill_scores(KernelTable& table);     \
  }

namespace opmux::native {

OPMUX_DECLARE_KERNEL_TARGET(baseline)
OPMUX_DECLARE_KERNEL_TARGET(avx2)
OPMUX_DECLARE_KERNEL_TARGET(avx512)

}  // namespace opmux::native
