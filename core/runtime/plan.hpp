// SPDX-License-Identifier: Apache-2.0
//
// What every provider's manifest comes to on this machine before anything is loaded: the file of
// each library, the plugin module, the torch; and the load set that the probe gets. Thread safety:
// values; functions read the file system.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.hpp"
#include "core/contract/contract.hpp"
#include "core/discovery/discovery.hpp"
#include "core/manifest/manifest.hpp"
#include "core/probe/probe.hpp"
#include "opmux/trust.hpp"

namespace opmux {

// One place a library may come from, and what became of it.
struct CandidatePlan {
  const LibrarySource* source = nullptr;
  std::optional<FoundLibrary> found;
  std::optional<Rejection> rejection;
  FileIdentity identity;                      // when it was checked
  std::vector<std::filesystem::path> needed;  // by it, directly and in turn
  bool needs_cuda = false;
  bool lost_conflict = false;  // its rejection falls when the library that it lost to is rejected
  std::optional<PythonLibrary> python;  // to map before it
  bool is_checked =
      false;  // its bytes were checked; later candidates are looked at only when earlier ones fail
};

struct LibraryPlan {
  const Library* library = nullptr;
  std::vector<CandidatePlan> candidates;
  std::optional<std::size_t> chosen;  // the first candidate without a rejection

  const CandidatePlan* in_use() const { return chosen ? &candidates[*chosen] : nullptr; }
  bool is_in_conflict() const;
  // Why no candidate is in use: the rejection that got furthest.
  const Rejection& rejection() const;
};

// The functions that one direct symbol alternative needs from one of its libraries.
struct SymbolPlan {
  const OperatorBinding* binding = nullptr;
  const Alternative* alternative = nullptr;
  std::size_t library = 0;     // index into ProviderPlan.libraries
  std::filesystem::path path;  // that was looked at
  std::vector<std::string> mangled;
  std::optional<Rejection> rejection;  // of the bytes, then of the module in the probe
};

struct ProviderPlan {
  const Manifest* manifest = nullptr;
  bool linked_in = false;  // its module is part of this program
  bool uses_torch = false;
  bool is_routed = true;  // some route names it
  std::filesystem::path module;
  FileIdentity module_identity;        // when it was looked at
  std::optional<Rejection> rejection;  // of the provider as a whole: torch or module
  std::vector<LibraryPlan> libraries;
  std::vector<SymbolPlan> symbols;  // of the libraries in use

  const SymbolPlan* find_symbols(const Alternative& alternative, const std::string& library) const;
  const LibraryPlan* find(const std::string& library) const;
  // Null when no library was found there.
  const CandidatePlan* find_candidate(const std::filesystem::path& path) const;
};

struct PlanContext {
  const ManifestSet* manifests = nullptr;
  const EnvironmentSearch* environments = nullptr;
  const HostFacts* host = nullptr;
  std::vector<std::filesystem::path> module_folders;
  std::filesystem::path cache_folder;  // empty: no cache
  Trust trust = Trust::kLax;           // strict: what others could change is rejected
};

struct Plan {
  const ManifestSet* manifests = nullptr;
  std::vector<ProviderPlan> providers;  // in the order of the manifest set
  std::optional<TorchInstallation> torch;
  // With strict trust or under a lock: the library or module that was checked, which what is mapped
  // is compared with.
  std::map<std::filesystem::path, FileIdentity> checked_files;

  // Null: nothing to compare with.
  const FileIdentity* checked_file(const std::filesystem::path& path) const {
    const auto found = checked_files.find(path);
    return found == checked_files.end() ? nullptr : &found->second;
  }
};

// `routed`, parallel to the manifest set's providers, says which a route names; the others are not
// looked for.
Plan make_plan(const PlanContext& context, const std::vector<bool>& routed);

// What one process would hold: modules and chosen libraries in `order` (indexes into
// plan.providers).
struct PlannedLoadSet {
  LoadSet load_set;
  struct LibrarySlot {
    std::size_t provider;
    std::size_t library;
  };
  // parallel to load_set.libraries: every plan entry that uses the file
  std::vector<std::vector<LibrarySlot>> library_slots;
  std::vector<std::vector<std::size_t>> module_slots;  // parallel to load_set.modules: providers
  struct SymbolSlot {
    std::size_t provider;
    std::size_t symbols;
  };
  std::vector<SymbolSlot> binding_slots;  // parallel to load_set.bindings
};
PlannedLoadSet make_load_set(const Plan& plan, const std::vector<std::size_t>& order,
                             const HostFacts& host);

// Rejects libraries that cannot be used beside another one that stands before them in `order`: of
// another Python, or by their symbols or file name, until none is left.
void reject_conflicts(Plan& plan, const std::vector<std::size_t>& order,
                      const PlanContext& context);

// Carries the probe's rejections into the plan. True when a library fell back to its next
// candidate, so that the new load set must be probed.
bool apply_findings(Plan& plan, const PlannedLoadSet& planned, const Findings& findings);

// Checks the bytes of candidates that moved up since the last check.
void check_libraries(Plan& plan, const PlanContext& context);

// The rejection of everything that needs a driver on a machine without one.
Rejection no_driver();

// How far a rejection's check lies in the order of checks; of several, the furthest tells most.
int check_depth(const Rejection& rejection);

}  // namespace opmux
