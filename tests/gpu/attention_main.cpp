// SPDX-License-Identifier: Apache-2.0
//
// The attention tests in a process without Python.
#include "tests/gpu/attention_suite.hpp"

int main(int argc, char** argv) { return opmux::gpu::run_attention_suite(argc, argv); }
