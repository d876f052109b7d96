// SPDX-License-Identifier: Apache-2.0
//
// A runtime that opens under a lock: refused where something differs, before anything is loaded
// into this process. Thread safety: as prepare().
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "core/runtime/lock_facts.hpp"
#include "core/runtime/preparation.hpp"

namespace opmux {

// What the lock is made from; points into `preparation`.
LockContext lock_context(const Preparation& preparation, Progress progress);

class LockedOpening {
 public:
  // Reads the lock and compares what is found before a probe starts. An error names every drift, as
  // does `drifts`.
  static StatusOr<LockedOpening> begin(const std::filesystem::path& file,
                                       const LockContext& context, std::vector<Rejection>& drifts);
  // After the verdicts: what they made of it. Not OK where a binding differs, too.
  Status finish(const LockContext& context, const std::vector<Verdict>& verdicts,
                const Findings& findings, std::vector<Rejection>& drifts);

  // Of every library and module: the file that was hashed.
  const std::map<std::filesystem::path, FileIdentity>& identities() const {
    return facts_.identities;
  }

 private:
  std::filesystem::path file_;
  lock::Lock locked_;
  LockFacts facts_;
};

}  // namespace opmux
