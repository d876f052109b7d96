// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/loader/loader.hpp"
#include "core/loader/mapped_files.hpp"

namespace opmux {

namespace {

Check second_torch(const TorchInstallation& torch) {
  for (const char* name : {"libc10.so", "libtorch_cpu.so"}) {
    const std::filesystem::path wanted = torch.library_folder / name;
    FileIdentity wanted_identity;
    if (!file_identity(wanted, wanted_identity)) continue;  // mapping it gives the better error
    for (const std::filesystem::path& mapped : mapped_files(name)) {
      FileIdentity mapped_identity;
      if (file_identity(mapped, mapped_identity) && mapped_identity == wanted_identity) continue;
      return reject(
          rules::kLoaderTorchConflict, printable(wanted.native()),
          "the torch that this process holds, " + printable(mapped.native()),
          "torch " + printable(torch.version) + " in " + printable(torch.library_folder.native()));
    }
  }
  return std::nullopt;
}

}  // namespace

Check preload_torch(const TorchInstallation& torch, bool with_cuda) {
  if (Check conflict = second_torch(torch)) return conflict;
  // In the order in which they need each other, so that each finds the others by SONAME and no
  // search path matters. RTLD_LOCAL is enough for that.
  std::vector<const char*> names{"libc10.so"};
  if (with_cuda) names.push_back("libc10_cuda.so");
  names.push_back("libtorch_cpu.so");
  if (with_cuda) names.push_back("libtorch_cuda.so");
  names.push_back("libtorch.so");
  for (const char* name : names) {
    Result<void*> mapped = map_library(torch.library_folder / name, BindingMode::kNow);
    if (!mapped.ok()) return std::move(mapped).rejection();
  }
  return std::nullopt;
}

Check preload_driver(const std::filesystem::path& libcuda) {
  Result<void*> mapped = map_library(libcuda, BindingMode::kNow);
  if (!mapped.ok()) return std::move(mapped).rejection();
  return std::nullopt;
}

}  // namespace opmux
