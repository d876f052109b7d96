// SPDX-License-Identifier: Apache-2.0
//
// Everything about a library that its bytes decide, before it is mapped; and the comparison of what
// a probe found with what a manifest requires. Thread safety: pure functions of their inputs and
// the file system.
#pragma once

#include <filesystem>
#include <optional>
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
  const PythonLibrary* python = nullptr;     // null unless the library is a true Python extension
};

// In order: ELF form, machine, CPU features, NEEDED found (torch's folders, the run path of the
// library that needs it, the system), for it and for what it needs in turn; symbol versions
// offered; and that every import resolves by name (for a Python extension all but Python's own,
// Py* and _Py*; with libpython beside it, all). A library that needs libcuda.so.1 without a driver
// or stub is contract.no_driver with the subject "libcuda.so.1", so that a report can say it once.
//
// Libraries that others need are read once and kept, with an open descriptor each, until
// release_dependencies(); one that changes on disk is read again. Thread-safe.
Check check_library(const std::filesystem::path& path, const LibrarySource& source,
                    const StaticCheckContext& context);

// A library that needs libtorch_python.so was built for that torch's Python: rule
// contract.python_mismatch when `version`, that of the library, is another.
Check check_torch_python(const std::filesystem::path& path, const std::string& version,
                         const TorchInstallation& torch);

// The files that the outcome of check_library and find_symbols depends on besides `path`: what it
// needs, directly and in turn. Nothing when one of them is missing or cannot be read.
std::optional<std::vector<std::filesystem::path>> needed_files(const std::filesystem::path& path,
                                                               const StaticCheckContext& context);

// Forgets the kept libraries and closes their descriptors, e.g. when all providers are checked.
void release_dependencies();

// The mangled names of a direct symbol contract's functions in `library`, in the manifest's order.
// Each must be exported, defined, a function, and of no other library that `library` needs. Rules
// contract.symbol_missing (with the nearest export and what differs, in words),
// contract.symbol_elsewhere, contract.symbol_no_function, contract.symbol_twice,
// contract.symbol_unexpected, and those of elf::read.
Result<std::vector<std::string>> find_symbols(const DirectSymbolContract& contract,
                                              const std::filesystem::path& library,
                                              const StaticCheckContext& context);

// A library of a load set. `symbols`: mangled names that direct symbol contracts need from it.
struct SymbolLibrary {
  std::filesystem::path path;
  std::string label;  // "flash_attn: fa2"
  std::vector<std::string> symbols;
};
// Whether `library` can be used beside `higher`, which stands before it in the load set, when
// symbols are needed from both: rules contract.symbol_twice, when one exports a symbol that is
// needed from the other, and contract.same_base_name, when their files have one name.
Check check_symbol_conflict(const SymbolLibrary& library, const SymbolLibrary& higher);

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
