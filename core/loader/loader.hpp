// SPDX-License-Identifier: Apache-2.0
//
// Maps libraries and plugin modules, always by absolute path, RTLD_LOCAL but for libpython. Nothing
// is unmapped (it is retired) but plugin modules that say that they may be. Boost.DLL is seen in
// this folder only. Thread safety: all functions may be called from any thread; mapping is
// serialised by one lock.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/files.hpp"
#include "core/base/result.hpp"
#include "core/discovery/discovery.hpp"
#include "opmux/plugin.h"

namespace opmux {

// Binding mode: RTLD_NOW, or RTLD_LAZY for a Python extension in a process that holds no Python.
enum class BindingMode { kNow, kLazy };
// RTLD_LOCAL, or RTLD_GLOBAL for libraries that others need without naming them.
enum class Visibility { kLocal, kGlobal };

// A mapped library that stays for the life of the process. Rules loader.open_failed, with dlerror's
// text, and loader.changed when another file stood under this path when it was mapped. What a
// library's constructors do to the floating-point environment, the locale and the handlers of
// common signals is undone and logged.
//
// With `checked`, the file that was checked under this path: rule loader.changed when the path is
// another file now, or when another one was mapped, which is found out afterwards from the kernel's
// own table; its constructors have then run, and it stays mapped unused.
Result<void*> map_library(const std::filesystem::path& path, BindingMode mode,
                          Visibility visibility = Visibility::kLocal,
                          const FileIdentity* checked = nullptr);
// Unmaps what map_library() mapped from this path; the caller answers for its users. False when the
// dynamic linker keeps it all the same.
bool unmap_library(const std::filesystem::path& path);

// Rule loader.dependency_elsewhere when this process holds another file of the name of one in
// `needed`, the files that `library` was checked with.
Check check_mapped_dependencies(const std::filesystem::path& library,
                                const std::vector<std::filesystem::path>& needed);

// libtorch by absolute path, once per process: libc10, libtorch_cpu, libtorch, and, when
// `with_cuda`, libc10_cuda and libtorch_cuda. libtorch.so of a CUDA build
// pulls the CUDA libraries in by itself, and every library that was linked the usual way needs
// libtorch.so by name. A torch that the process already holds is used when it is this one; another
// is loader.torch_conflict.
Check preload_torch(const TorchInstallation& torch, bool with_cuda);

// After preload_torch, for true Python extensions: libpython for all libraries of the process,
// since extensions import from it without naming it, and torch's libtorch_python.so. A Python that
// the process already holds is used when it is this version; another is loader.python_conflict. No
// interpreter is started. `torch` may be null.
Check preload_python(const PythonLibrary& python, const TorchInstallation* torch);

// libcuda.so.1 (a driver, or a stub in the probe) by absolute path, so that libraries that need it
// by name find it.
Check preload_driver(const std::filesystem::path& libcuda);

// A plugin module after its handshake. `module` is the host's own copy of the module's table, which
// lives for the process, texts included: what a module built against an older minor version does
// not have reads as zero, entries of `operators` lie one after the other in this host's layout.
struct PluginModule {
  std::filesystem::path path;  // empty for a linked-in module
  const OpmuxModule* module = nullptr;
  std::filesystem::path mapped;  // `path`, or the private copy that was mapped in its place
  bool is_unloadable = false;    // says so, and nothing that is known of it speaks against it
};

// Where a module is mapped from. kPrivateCopy: from a copy that is gone from the disk afterwards,
// so that who writes over the file does not write into running code; a module that looks beside
// itself for others ($ORIGIN), and one that cannot be copied, is mapped in place all the same.
enum class ModulePlace { kInPlace, kPrivateCopy };

// Maps the module and shakes hands. Where this process already holds another file of the same path,
// the new file is mapped from a private copy, so that both serve their callers. `checked` as for
// map_library. Rules loader.open_failed, loader.no_entry, loader.abi, loader.module_refused,
// loader.changed. A new handshake each time.
Result<PluginModule> open_module(const std::filesystem::path& path,
                                 const FileIdentity* checked = nullptr,
                                 ModulePlace place = ModulePlace::kInPlace);
// Unmaps a module that is unloadable and that nobody uses any more. False when the dynamic linker
// keeps it all the same.
bool close_module(const PluginModule& module);
// The same handshake with an entry point that is linked in.
Result<PluginModule> open_linked_module(OpmuxPluginOpen entry, const std::string& name);

// The host's side of the ABI, the same object for every module.
const OpmuxHost* host_services();
// Moves out the text that a module stored with set_error on this thread.
std::string take_module_error();
// Makes the memory that host_services()->workspace gave out on this thread available again.
void reset_workspace() noexcept;

// True while this thread holds workspace memory.
extern thread_local constinit bool workspace_in_use __attribute__((tls_model("initial-exec")));

// Around one call of a module: gives back the workspace that the call took. A call nested inside
// another one that holds workspace leaves it to the outer call. Costs two tests when nothing is
// taken.
class WorkspaceScope {
 public:
  WorkspaceScope() noexcept : outer_(workspace_in_use) {}
  WorkspaceScope(const WorkspaceScope&) = delete;
  WorkspaceScope& operator=(const WorkspaceScope&) = delete;
  ~WorkspaceScope() {
    if (workspace_in_use && !outer_) [[unlikely]]
      reset_workspace();
  }

 private:
  const bool outer_;
};

// Threads that parallel_for uses, the caller's included; 0 means all cores. Takes effect before the
// first parallel_for.
void set_thread_count(int threads);

}  // namespace opmux
