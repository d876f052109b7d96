// SPDX-License-Identifier: Apache-2.0
//
// Named figures of one run, and the bounds on their ratios.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace opmux::bench {

class Measurements {
 public:
  // Keeps the smallest value seen under `name`: on a shared machine the minimum is what the code
  // costs.
  void add(const std::string& name, double value);
  bool has(const std::string& name) const;
  double get(const std::string& name) const;

  // Prints the table and the gate of `bounds_file` (JSON: gates of {name, over, minus, bound,
  // aim}); false when a gate is missed or its figures were not measured.
  bool print_and_check(const std::string& bounds_file) const;

 private:
  std::map<std::string, double> values_;
};

// Opens the runtimes and registers the benchmarks of a file; absent peers say why on stdout.
void register_calls(Measurements& measurements);
void register_live(Measurements& measurements);
void register_tvm_ffi();
void register_dispatcher(Measurements& measurements);
void register_direct_symbol(Measurements& measurements);
// Runs starts in child processes and adds their figures.
void measure_starts(Measurements& measurements, const std::vector<std::string>& environments);

}  // namespace opmux::bench
