// SPDX-License-Identifier: Apache-2.0
//
// The plugin modules of this process, and when one may go. A module is shared by all runtimes; it
// goes when it is unloadable, no runtime's generation uses it and no call is inside. All others are
// retired: they stay mapped.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/loader/loader.hpp"
#include "core/registry/module_use.hpp"
#include "opmux/report.hpp"

namespace opmux {

struct OpenModule {
  PluginModule module;
  ModuleUse* use = nullptr;  // of an unloadable module, else null; lives for the process
  std::uint64_t serial = 0;  // of this mapping; never used again
};

// The module of this file as it is now, mapped where no runtime has it yet. `user` is a runtime's
// registry, whose address is never used again. `checked`, where given, is the file that must be
// there: rule loader.changed.
Result<OpenModule> use_module(const std::filesystem::path& path, const void* user,
                              const FileIdentity* checked = nullptr,
                              ModulePlace place = ModulePlace::kInPlace);

// The modules that the user's generation calls from now on. Unloadable ones that are in use by
// nobody any more begin to drain.
void keep_modules(const void* user, const std::vector<PluginModule>& used,
                  std::chrono::milliseconds deadline);

// Unmaps what has drained. What has not by its deadline is told in the log and in the report, and
// waits on. True while any module drains.
bool close_drained_modules();

// Every module that the user has used and that is mapped, and the latest of those that were
// unmapped, in the order of their mapping.
std::vector<ModuleReport> report_modules(const void* user);

}  // namespace opmux
