// SPDX-License-Identifier: Apache-2.0
//
// The attention tests, which run in several kinds of process: plain C++, and with Python in it.
#pragma once

#include <string>
#include <vector>

namespace opmux::gpu {

// For ctest's SKIP_RETURN_CODE: every test was skipped.
inline constexpr int kAllSkipped = 77;

// Set before the tests run.
struct SuiteOptions {
  std::vector<std::string> route;  // of the attention operators; empty: by priority
};
SuiteOptions& suite_options();

// Takes `--route=a,b,c` from the arguments and runs all tests. What main() returns.
int run_attention_suite(int argc, char** argv);

}  // namespace opmux::gpu
