// SPDX-License-Identifier: Apache-2.0
//
// Loads a load set in a throw-away process, opmux-probe, and reports what each library registered.
// A failure of the probe is a rejection of the library that caused it, never a reason to load in
// this process instead. Thread safety: probe() may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/properties.hpp"
#include "core/base/result.hpp"
#include "core/contract/contract.hpp"
#include "core/discovery/discovery.hpp"
#include "core/loader/binding.hpp"

namespace opmux {

struct ProbeLibrary {
  std::filesystem::path path;  // real path
  bool python_extension = false;
  // What the report calls it, e.g. "vllm: c"; the library of higher priority stands earlier.
  std::string label;
  bool libpython = false;  // LoadSet.python is mapped before it
};

// A binding to a library's functions that the module is asked for in the probe, since only the
// module can say whether it knows how to call them.
struct ProbeBinding {
  std::size_t module = 0;   // index into LoadSet.modules
  std::size_t library = 0;  // index into LoadSet.libraries
  ForeignBinding binding;
};

// All of a binding as text: two with the same text ask a module for the same.
std::string to_text(const ForeignBinding& binding);

// Everything that one process would hold, in route order.
struct LoadSet {
  std::optional<TorchInstallation> torch;
  bool torch_with_cuda = false;
  std::optional<PythonLibrary> python;  // for true Python extensions
  std::filesystem::path driver;         // libcuda.so.1 or the stub; empty: none
  bool stub_driver = false;
  std::vector<std::filesystem::path> modules;  // plugin modules, mapped before the libraries
  std::vector<ProbeLibrary> libraries;
  std::vector<ProbeBinding> bindings;  // tried after everything is mapped
};

struct ModuleFinding {
  std::filesystem::path path;
  std::optional<Rejection> rejection;
  std::string name, version, build_identity;
  struct Operator {
    std::string name, schema;
    int device_type = 0;
    Properties properties = 0;
  };
  std::vector<Operator> operators;
};

struct LibraryFinding {
  std::filesystem::path path;
  std::optional<Rejection> rejection;
};

struct DeviceFinding {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
};

struct Findings {
  std::vector<ModuleFinding> modules;       // parallel to LoadSet.modules
  std::vector<LibraryFinding> libraries;    // parallel to LoadSet.libraries
  std::vector<Registration> registrations;  // of the libraries without a rejection
  // Parallel to LoadSet.bindings; those of a rejected module or library have none of their own.
  std::vector<std::optional<Rejection>> bindings;
  int cuda_driver_version = 0;  // as cuDriverGetVersion, e.g. 13000; 0: none
  std::vector<DeviceFinding> devices;
  std::optional<Rejection> python_rejection;  // libpython could not be loaded
  std::optional<Rejection> torch_rejection;   // torch itself could not be loaded
  std::optional<Rejection> driver_rejection;  // the driver itself could not be loaded or asked
  int probes = 0;                             // processes started; 0 when answered from the cache
  double seconds = 0.0;
};

struct ProbeOptions {
  std::chrono::milliseconds deadline{10000};  // per process
  std::filesystem::path
      executable;  // opmux-probe; empty: beside the library or the running program
  std::filesystem::path cache_folder;  // empty: no cache
  // Compare the files with the SHA-256 stored in the cache too, not by identity alone.
  bool verify_content = false;
  // Writable private memory of a probe in bytes, 0 for no limit. Torch with CUDA needs 0.6 GiB.
  std::uint64_t memory_limit = std::uint64_t{8} << 30;
  std::function<void(const std::string&)> progress;  // one line per event, may be empty
};

// Probes until what is left loads cleanly: each failing process costs one rejection (the module or
// library that was being loaded, or the lower-priority one of a namespace conflict) and a new probe
// of the rest.
Findings probe(const LoadSet& load_set, const ProbeOptions& options);

// opmux-probe as `probe` would find it: beside the running program or the library that holds this
// code, or in the install tree's library folder. Empty when there is none.
std::filesystem::path find_probe_executable();

// Answers from the cache alone; nothing when the cache has no entry for exactly these files, torch,
// driver and probe.
std::optional<Findings> cached_findings(const LoadSet& load_set, const ProbeOptions& options);

}  // namespace opmux
