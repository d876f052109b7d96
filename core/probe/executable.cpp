// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "core/base/own_file.hpp"
#include "core/probe/probe.hpp"

namespace opmux {

namespace {

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::filesystem::path find_probe_executable() {
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::filesystem::path library = own_file().parent_path();
  std::vector<std::filesystem::path> candidates;
  // The build tree has bin/ beside lib/; the install tree has LIBDIR/opmux/, and bin/ for programs
  // that the library is linked into.
  if (!library.empty()) {
    candidates.push_back(library / "opmux" / "opmux-probe");
    candidates.push_back(library / "opmux-probe");
    candidates.push_back(library.parent_path() / "bin" / "opmux-probe");
    candidates.push_back(library.parent_path() / OPMUX_INSTALL_LIBDIR / "opmux" / "opmux-probe");
  }
  if (!program.empty()) {
    candidates.push_back(program / "opmux-probe");
    candidates.push_back(program.parent_path() / OPMUX_INSTALL_LIBDIR / "opmux" / "opmux-probe");
  }
  for (const std::filesystem::path& candidate : candidates) {
    if (is_program(candidate)) return candidate;
  }
  return {};
}

}  // namespace opmux
