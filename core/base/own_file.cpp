// SPDX-License-Identifier: Apache-2.0
#include "core/base/own_file.hpp"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace opmux {

namespace fs = std::filesystem;

fs::path own_file() {
  Dl_info info{};
  void* owner = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&own_file), &info, &owner, RTLD_DL_LINKMAP) == 0 ||
      owner == nullptr) {
    return {};
  }
  // The program itself has no name here. Not dli_fname, which is argv[0] for it: what was started
  // through PATH would be looked for in the current folder.
  const char* const name = static_cast<const link_map*>(owner)->l_name;
  std::error_code error;
  const fs::path file = name == nullptr || *name == '\0' ? fs::read_symlink("/proc/self/exe", error)
                                                         : fs::canonical(name, error);
  return error || !file.is_absolute() ? fs::path() : file;
}

}  // namespace opmux
