// SPDX-License-Identifier: Apache-2.0
#include "bench/measurements.hpp"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace opmux::bench {

void Measurements::add(const std::string& name, double value) {
  const auto [at, is_new] = values_.try_emplace(name, value);
  if (!is_new && value < at->second) at->second = value;
}

bool Measurements::has(const std::string& name) const { return values_.count(name) != 0; }
double Measurements::get(const std::string& name) const { return values_.at(name); }

bool Measurements::print_and_check(const std::string& bounds_file) const {
  std::printf("\n%-44s %14s\n", "figure (minimum over repetitions)", "value");
  for (const auto& [name, value] : values_) std::printf("%-44s %14.2f\n", name.c_str(), value);

  nlohmann::json bounds;
  std::ifstream(bounds_file) >> bounds;
  std::printf("\n%-52s %10s %10s  %s\n", "gate", "value", "bound", "");
  bool all_met = true;
  for (const nlohmann::json& gate : bounds.at("gates")) {
    const std::string name = gate.at("figure");
    const std::string base = gate.value("over", "");
    const std::string minus = gate.value("minus", "");
    std::string title = name;
    if (!minus.empty()) title += " - " + minus;
    if (!base.empty()) title += " / " + base;
    const double bound = gate.at("bound");
    if (!has(name) || (!base.empty() && !has(base)) || (!minus.empty() && !has(minus))) {
      std::printf("%-52s %10s %10.2f  NOT MEASURED\n", title.c_str(), "-", bound);
      all_met = false;
      continue;
    }
    double value = get(name);
    if (!minus.empty()) value -= get(minus);
    if (!base.empty()) value /= get(base);
    const bool met = value <= bound;
    all_met &= met;
    std::printf("%-52s %10.2f %10.2f  %s\n", title.c_str(), value, bound, met ? "ok" : "MISSED");
  }
  return all_met;
}

}  // namespace opmux::bench
