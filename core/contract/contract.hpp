// SPDX-License-Identifier: Apache-2.0
//
// Everything about a library that its bytes decide, before it is mapped; and the comparison of what
// a probe found with what a manifest requires. Thread safety: pure functions of their inputs and
// the file system.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/discovery/discovery.hpp"
#include "core/elf/elf.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux {

// What this machine offers, found once per run without loading anything.
struct HostFacts {
  std::set<std::string> cpu_features;  // flags of /proc/cpuinfo
  std::filesystem::path driver;        // libcuda.so.1, empty when there is none
  std::filesystem::path stub_driver;   // set when --stub-driver is in force and a stub was found
};
HostFacts read_host_facts();

struct StaticCheckContext {
  const HostFacts* host = nullptr;
  const TorchInstallation* torch = nullptr;  // null when the provider needs none
};

// In order: ELF form, machine, CPU features, NEEDED found (torch's folders, the run path of the
// library that needs it, the system), for it and for what it needs in turn; symbol versions
// offered; and that every import resolves by name (for a Python extension all but Python's own,
// Py* and _Py*). A library that needs libcuda.so.1 without a driver or stub is contract.no_driver
// with the subject "libcuda.so.1", so that a report can say it once.
//
// Libraries that others need are read once and kept, with an open descriptor each, until
// release_dependencies(); one that changes on disk is read again. Thread-safe.
Check check_library(const std::filesystem::path& path, const LibrarySource& source,
                    const StaticCheckContext& context);

// Forgets the kept libraries and closes their descriptors, e.g. when all providers are checked.
void release_dependencies();

// One operator as a probe found it registered.
struct Registration {
  std::string library;  // real path
  std::string schema;   // text as torch prints it
  std::vector<std::string> dispatch_keys;
};

// The contract of one Dispatcher alternative against everything that `library` registered. `all`
// holds every registration of the load set, to tell "elsewhere" from "nowhere". A difference of
// schemas is said in words in the hint.
Check check_dispatcher_contract(const DispatcherContract& contract,
                                const std::filesystem::path& library,
                                const std::vector<Registration>& all);

}  // namespace opmux
