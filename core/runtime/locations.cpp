// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/locations.hpp"

#include <array>
#include <system_error>

#include "core/base/own_file.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

fs::path first_folder(const std::array<fs::path, 4>& candidates) {
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    // A relative folder would depend on the current one.
    if (candidate.is_absolute() && fs::is_directory(candidate, error))
      return fs::canonical(candidate, error);
  }
  return {};
}

}  // namespace

fs::path module_folder() {
  const fs::path own = own_file().parent_path();
  // In order: beside libopmux.so; from bin/; from bin/ with a multiarch or lib64 library folder.
  return first_folder({own / "opmux", own.parent_path() / "lib" / "opmux",
                       own.parent_path() / OPMUX_LIBDIR / "opmux",
                       own.parent_path() / "lib64" / "opmux"});
}

fs::path shipped_manifest_folder() {
  const fs::path own = own_file().parent_path();
  const fs::path inside = fs::path("share") / "opmux" / "manifests";
  return first_folder({own.parent_path() / inside, own.parent_path().parent_path() / inside,
                       own / inside, own / inside});
}

fs::path find_stub_driver() {
  const std::array<fs::path, 3> candidates{module_folder() / "stub" / "libcuda.so.1",
                                           "/usr/local/cuda/lib64/stubs/libcuda.so",
                                           "/usr/lib/x86_64-linux-gnu/stubs/libcuda.so"};
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    if (candidate.is_absolute() && fs::is_regular_file(candidate, error))
      return fs::canonical(candidate, error);
  }
  return {};
}

}  // namespace opmux
