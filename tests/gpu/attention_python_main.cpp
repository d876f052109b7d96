// SPDX-License-Identifier: Apache-2.0
//
// The attention tests in a process that embeds Python. With --import-torch Python brings torch
// before opmux looks for it.
#include <stdlib.h>

#include <cstdio>
#include <cstring>

#include "tests/gpu/attention_suite.hpp"

// Python's headers are not everywhere its library is, and these two never changed.
extern "C" void Py_InitializeEx(int initialise_signals);
extern "C" int PyRun_SimpleString(const char* program);

namespace {

constexpr char kImportTorch[] =
    "import glob, os, sys\n"
    "for root in os.environ['TEST_OPMUX_GPU_ENVIRONMENTS'].split(':'):\n"
    "    sys.path[:0] = [root] + glob.glob(root + '/lib/python3*/*-packages')\n"
    "import torch\n"
    "print('torch', torch.__version__, 'in Python', sys.version.split()[0])\n";

}  // namespace

int main(int argc, char** argv) {
  bool import_torch = false;
  for (int at = 1; at < argc; ++at)
    import_torch = import_torch || std::strcmp(argv[at], "--import-torch") == 0;
  Py_InitializeEx(0);
  if (import_torch) {
    if (::getenv("TEST_OPMUX_GPU_ENVIRONMENTS") == nullptr) {
      std::puts("[  SKIPPED ] TEST_OPMUX_GPU_ENVIRONMENTS names no environment with torch");
      return opmux::gpu::kAllSkipped;
    }
    if (PyRun_SimpleString(kImportTorch) != 0) return 1;
  }
  return opmux::gpu::run_attention_suite(argc, argv);
}
