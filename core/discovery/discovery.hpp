// SPDX-License-Identifier: Apache-2.0
//
// From what a manifest asks for to the one file that it means. Nothing is executed; Python is never
// started. Thread safety: functions read the file system; concurrent calls are fine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux {

// One Python environment, as named or found.
struct PythonEnvironment {
  std::filesystem::path root;                        // as named
  std::vector<std::filesystem::path> site_packages;  // folders to search, in order
  std::string
      origin;  // "--environment", "config", "VIRTUAL_ENV", "CONDA_PREFIX", "python3 on PATH"
};

struct EnvironmentSearch {
  std::vector<PythonEnvironment> environments;
  std::vector<Rejection> rejections;  // of named environments, or the reason that there is none
};

// `named` replaces the defaults (VIRTUAL_ENV, CONDA_PREFIX, python3 on PATH when it resolves to an
// environment without being run).
EnvironmentSearch find_environments(const std::vector<std::filesystem::path>& named,
                                    const std::string& origin);

struct Distribution {
  std::string name;     // normalised as PEP 503
  std::string version;  // from the metadata folder's METADATA
  std::filesystem::path site_packages;
  std::filesystem::path metadata;                      // NAME-VERSION.dist-info
  std::optional<std::filesystem::path> editable_root;  // from direct_url.json
  bool has_record = false;
};

std::string normalise_distribution_name(std::string_view name);

// The first environment that has it wins, as on sys.path.
Result<Distribution> find_distribution(const std::string& name,
                                       const std::vector<PythonEnvironment>& environments);

struct FoundLibrary {
  std::filesystem::path path;  // real path
  std::string distribution;    // empty for a drop-in
  std::string version;
  std::string found_by;  // "RECORD", "glob", "editable", "manifest folder"
};

// RECORD, then the root's glob, then the editable root's: exactly one match, confined to the root
// after links are resolved. `manifest_folder` is the root of a relative glob.
Result<FoundLibrary> find_library(const LibrarySource& source,
                                  const std::vector<PythonEnvironment>& environments,
                                  const std::filesystem::path& manifest_folder);

struct TorchInstallation {
  std::filesystem::path root;  // .../site-packages/torch
  std::filesystem::path library_folder;
  std::string version;       // full, "2.11.0+cu130", from torch/version.py
  std::string base_version;  // "2.11.0"
  std::string cuda;          // "13.0", empty for a CPU build
  std::string python;        // "3.12", that it was built for; empty when no file tells
  std::vector<std::filesystem::path> dependency_folders;  // nvidia/*/lib beside it
};

// The torch of the first environment that has one whose version and CUDA satisfy `requirements`;
// when there are only others, the rejection names them.
Result<TorchInstallation> find_torch(const Requirements& requirements,
                                     const std::vector<PythonEnvironment>& environments);

// A Python's shared library. "3.12", or "3.13t" for a build without the global lock.
struct PythonLibrary {
  std::filesystem::path path;
  std::string soname;  // "libpython3.12.so.1.0"
  std::string version;
};

// The Python version that a Python extension's file name tells: "3.12" of
// "x.cpython-312-x86_64-linux-gnu.so". Empty for others, e.g. `abi3`.
std::string extension_python_version(const std::filesystem::path& file);

// libpython of this version: of the environments (their own, or that of the Python they were made
// with), in order, then of the system. Rule discovery.libpython_missing.
Result<PythonLibrary> find_libpython(const std::string& version,
                                     const std::vector<PythonEnvironment>& environments);

// A plugin module by name: `opmux_NAME.so`, or `opmux_NAME.torch-VERSION.so` when `torch` is given,
// in `folders` (the library folder, the user's cache of built modules, the manifest's folder), in
// order.
Result<std::filesystem::path> find_module(const std::string& name, const TorchInstallation* torch,
                                          const std::vector<std::filesystem::path>& folders);

// A library as the dynamic linker would find it by SONAME in this process's environment, without
// loading it: LD_LIBRARY_PATH, ld.so.cache, the default folders, and /usr/local/nvidia/lib64. Empty
// when there is none.
std::filesystem::path find_system_library(const std::string& soname);

}  // namespace opmux
