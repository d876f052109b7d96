// SPDX-License-Identifier: Apache-2.0
//
// One start in a process of its own; prints nanoseconds.
//   opmux-bench-start dlopen PATH...              maps the files, nothing else
//   opmux-bench-start open|report|cold ENV...     Runtime::open with providers mapped, for the
//   report only, or for the
//                                                 report without a cache
// `open` also prints the paths that the start mapped, for the dlopen of a later run.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "opmux/opmux.hpp"

namespace {

using Clock = std::chrono::steady_clock;

void print_since(Clock::time_point start) {
  std::printf(
      "%lld\n",
      static_cast<long long>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count()));
}

int map_all(const std::vector<std::string>& paths) {
  const Clock::time_point start = Clock::now();
  for (const std::string& path : paths) {
    if (::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      return 1;
    }
  }
  print_since(start);
  return 0;
}

int open_runtime(const std::string& mode, const std::vector<std::string>& environments) {
  opmux::Options options;
  options.environments.assign(environments.begin(), environments.end());
  options.load = mode == "open";
  options.use_cache = mode != "cold";
  const Clock::time_point start = Clock::now();
  const opmux::StatusOr<opmux::Runtime> runtime = opmux::Runtime::open(options);
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
    return 1;
  }
  print_since(start);
  const opmux::Report report = runtime->report();
  if (report.torch_path.empty()) return 0;
  // In the order in which the start maps them.
  std::vector<std::string> paths{report.torch_path + "/lib/libtorch.so"};
  std::set<std::string> seen;
  for (const opmux::ProviderReport& provider : report.providers) {
    if (!provider.module.empty() && provider.usable > 0) paths.push_back(provider.module);
  }
  for (const opmux::OperatorReport& op : report.operators) {
    for (const opmux::BindingReport& binding : op.bindings) {
      if (binding.usable && binding.library && seen.insert(*binding.library).second)
        paths.push_back(*binding.library);
    }
  }
  for (const std::string& path : paths) std::printf("%s\n", path.c_str());
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "Usage: opmux-bench-start dlopen|open|report|cold PATH...\n");
    return 2;
  }
  const std::string mode = arguments[1];
  const std::vector<std::string> rest(arguments + 2, arguments + count);
  return mode == "dlopen" ? map_all(rest) : open_runtime(mode, rest);
}
