// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/measurements.hpp"

namespace opmux::bench {
namespace {

constexpr int kRounds = 7;

std::vector<std::string> run(const std::string& mode, const std::vector<std::string>& arguments) {
  std::string command =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "opmux-bench-start")
          .string();
  command += " " + mode;
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  std::vector<std::string> lines;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::array<char, 4096> line{};
  while (pipe != nullptr && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::string text = line.data();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    lines.push_back(text);
  }
  return lines;
}

}  // namespace

void measure_starts(Measurements& measurements, const std::vector<std::string>& environments) {
  if (environments.empty()) {
    std::printf("starts: not measured, no --environment given\n");
    return;
  }
  const std::vector<std::string> first = run("open", environments);
  if (first.size() < 3) {
    std::printf("starts: not measured, no provider library is usable in the environments\n");
    return;
  }
  const std::vector<std::string> paths(first.begin() + 1, first.end());
  for (int round = 0; round < kRounds; ++round) {
    const auto add = [&](const char* name, const std::string& mode,
                         const std::vector<std::string>& arguments) {
      const std::vector<std::string> lines = run(mode, arguments);
      if (!lines.empty()) measurements.add(name, std::strtod(lines[0].c_str(), nullptr) / 1e6);
    };
    add("dlopen_alone_ms", "dlopen", paths);
    add("warm_start_ms", "open", environments);
    add("warm_report_ms", "report", environments);
    add("cold_validation_ms", "cold", environments);
  }
}

}  // namespace opmux::bench
