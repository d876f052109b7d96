// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/locking.hpp"

#include <exception>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/locations.hpp"
#include "core/runtime/state.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

Status failed(const Rejection& rejection) {
  return Status(StatusCode::kInvalidArgument, to_string(rejection), rejection);
}

Status drifted(const fs::path& file, const std::vector<Rejection>& drifts) {
  if (drifts.empty()) return {};
  std::string message = std::to_string(drifts.size()) +
                        (drifts.size() == 1 ? " difference from " : " differences from ") +
                        printable(file.native());
  for (const Rejection& drift : drifts) message += "\n" + to_string(drift);
  return Status(StatusCode::kInvalidArgument, std::move(message), drifts.front());
}

// The whole of what is there now.
Result<LockFacts> current_facts(const Preparation& preparation, const LockContext& context) {
  // What a refused manifest would have bound is not known.
  if (!preparation.manifests.rejections.empty()) {
    const Rejection& refused = preparation.manifests.rejections.front();
    return reject(rules::kLockIncomplete, refused.subject, "manifests that are all read",
                  to_string(refused));
  }
  Result<LockFacts> facts = lock_inputs(context);
  if (facts.ok()) add_outcome(*facts, context, preparation.verdicts, preparation.findings);
  return facts;
}

}  // namespace

LockContext lock_context(const Preparation& preparation, Progress progress) {
  LockContext context;
  context.manifests = &preparation.manifests;
  context.environments = &preparation.environments;
  context.host = &preparation.host;
  context.plan = &preparation.plan;
  context.policy = preparation.policy.get();
  context.installed_modules = module_folder();
  const fs::path cache = preparation.config.cache_folder.value_or(user_cache_folder());
  if (!cache.empty()) context.cached_modules = cache / "modules";
  context.progress = std::move(progress);
  return context;
}

StatusOr<LockedOpening> LockedOpening::begin(const fs::path& file, const LockContext& context,
                                             std::vector<Rejection>& drifts) {
  Result<lock::Lock> locked = lock::read(file);
  if (!locked.ok()) return failed(locked.rejection());
  Result<LockFacts> facts = lock_inputs(context);
  if (!facts.ok()) return failed(facts.rejection());
  drifts = lock::compare(*locked, facts->lock, lock::Scope::kInputs, circumstances_of(context, {}));
  if (!drifts.empty()) return drifted(file, drifts);
  LockedOpening opening;
  opening.file_ = file;
  opening.locked_ = *std::move(locked);
  opening.facts_ = *std::move(facts);
  return opening;
}

Status LockedOpening::finish(const LockContext& context, const std::vector<Verdict>& verdicts,
                             const Findings& findings, std::vector<Rejection>& drifts) {
  add_outcome(facts_, context, verdicts, findings);
  drifts =
      lock::compare(locked_, facts_.lock, lock::Scope::kAll, circumstances_of(context, verdicts));
  return drifted(file_, drifts);
}

Status Runtime::write_lock(const std::filesystem::path& file, const Progress& progress) const {
  try {
    const Published published = state_->published();
    const Preparation& preparation = *published.preparation;
    Result<LockFacts> facts = current_facts(preparation, lock_context(preparation, progress));
    if (!facts.ok()) return failed(facts.rejection());
    if (Check problem = lock::write(facts->lock, file)) return failed(*problem);
    return {};
  } catch (const std::exception& problem) {
    return internal_error("the lock", problem);
  }
}

StatusOr<std::vector<Rejection>> Runtime::compare_lock(const std::filesystem::path& file,
                                                       const Progress& progress) const {
  try {
    const Result<lock::Lock> locked = lock::read(file);
    if (!locked.ok()) return failed(locked.rejection());
    const Published published = state_->published();
    const Preparation& preparation = *published.preparation;
    const LockContext context = lock_context(preparation, progress);
    const Result<LockFacts> facts = current_facts(preparation, context);
    if (!facts.ok()) return failed(facts.rejection());
    return lock::compare(*locked, facts->lock, lock::Scope::kAll,
                         circumstances_of(context, preparation.verdicts));
  } catch (const std::exception& problem) {
    return internal_error("the lock", problem);
  }
}

}  // namespace opmux
