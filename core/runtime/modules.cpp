// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/modules.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

using Clock = std::chrono::steady_clock;

// Unmapped modules that a report remembers; a program may map and unmap one for ever.
constexpr std::ptrdiff_t kGoneModules = 32;

constexpr std::chrono::milliseconds kLongestDeadline = std::chrono::hours(24 * 365);

enum class ModuleState { kActive, kDraining, kBusy, kRetired, kStillMapped, kUnmapped };

const char* name_of(ModuleState state) {
  switch (state) {
    case ModuleState::kActive:
      return "active";
    case ModuleState::kDraining:
      return "draining";
    case ModuleState::kBusy:
      return "draining, past its deadline";
    case ModuleState::kRetired:
      return "retired";
    case ModuleState::kStillMapped:
      return "retired, still mapped";
    case ModuleState::kUnmapped:
      return "unmapped";
  }
  return "?";
}

struct Record {
  FileIdentity identity;
  ModulePlace place = ModulePlace::kInPlace;  // that was asked for
  OpenModule open;
  std::unique_ptr<ModuleUse> use;
  ModuleState state = ModuleState::kActive;
  std::set<const void*> users;  // whose current generation, or preparation, uses it
  std::set<const void*> seen_by;
  Clock::time_point deadline{};
};

struct Modules {
  std::mutex mutex;
  std::vector<std::unique_ptr<Record>> records;  // never removed: a late call looks at its use
};

Modules& modules() {
  static Modules* const all = std::make_unique<Modules>().release();
  return *all;
}

bool is_mapped(const Record& record) { return record.state != ModuleState::kUnmapped; }

// What is mapped in place is the file itself, by inode. Of a copy, only the time of the last change
// tells that the file was not written over since.
bool is_mapping_of(const Record& record, const FileIdentity& file) {
  return record.open.module.mapped == record.open.module.path
             ? is_same_but_for_status(record.identity, file)
             : record.identity == file;
}

bool serves(ModulePlace mapped, ModulePlace asked) {
  return mapped == asked || asked == ModulePlace::kInPlace;
}

// The one place where a module changes its state.
void enter_state(Record& record, ModuleState state) {
  if (record.state == state) return;
  record.state = state;
  const std::string line =
      "module " + printable(record.open.module.path.native()) + ": " + name_of(state) +
      (state == ModuleState::kBusy ? ", " + std::to_string(record.use->inside()) + " calls inside"
                                   : std::string());
  if (state == ModuleState::kBusy || state == ModuleState::kStillMapped) {
    log::warn(line);
  } else {
    log::info(line);
  }
}

}  // namespace

Result<OpenModule> use_module(const std::filesystem::path& path, const void* user,
                              const FileIdentity* checked, ModulePlace place) {
  FileIdentity identity;
  if (!file_identity(path, identity)) {
    return reject(rules::kLoaderOpenFailed, printable(path.native()),
                  "a file that the dynamic linker maps", "no such file");
  }
  if (checked != nullptr && !(identity == *checked)) {
    return reject(rules::kLoaderChanged, printable(path.native()),
                  "the file that was checked, " + to_string(*checked),
                  "another file, " + to_string(identity));
  }
  Modules& all = modules();
  const std::lock_guard lock(all.mutex);
  const auto use_again = [&](Record& record) {
    record.identity = identity;
    record.users.insert(user);
    record.seen_by.insert(user);
    // One that drains is still there, and its binding records with it.
    if (record.use != nullptr) record.use->reopen();
    enter_state(record, ModuleState::kActive);
    return record.open;
  };
  for (const auto& record : all.records) {
    if (record->open.module.path == path && is_mapped(*record) &&
        is_mapping_of(*record, identity) && serves(record->place, place))
      return use_again(*record);
  }
  Result<PluginModule> module = open_module(path, checked, place);
  if (!module.ok()) return std::move(module).rejection();
  // What could not be copied after all has one mapping, whoever asks.
  for (const auto& record : all.records) {
    if (record->open.module.mapped == module->mapped && is_mapped(*record))
      return use_again(*record);
  }
  auto record = std::make_unique<Record>();
  record->identity = identity;
  record->place = place;
  record->open.module = *std::move(module);
  record->open.serial = all.records.size() + 1;
  if (record->open.module.is_unloadable) {
    record->use = std::make_unique<ModuleUse>();
    record->open.use = record->use.get();
  }
  record->users = {user};
  record->seen_by = {user};
  log::info("module " + printable(path.native()) + ": loaded" +
            (record->open.module.mapped == path ? "" : " from a private copy"));
  all.records.push_back(std::move(record));
  return all.records.back()->open;
}

void keep_modules(const void* user, const std::vector<PluginModule>& used,
                  std::chrono::milliseconds deadline) {
  Modules& all = modules();
  const std::lock_guard lock(all.mutex);
  for (const auto& record : all.records) {
    if (record->users.count(user) == 0) continue;
    const bool is_used = std::any_of(used.begin(), used.end(), [&](const PluginModule& module) {
      return module.module == record->open.module.module;
    });
    if (is_used) continue;
    record->users.erase(user);
    if (!record->users.empty()) continue;
    if (record->use == nullptr) {
      enter_state(*record, ModuleState::kRetired);
      continue;
    }
    record->use->close();
    record->deadline = Clock::now() + std::min(deadline, kLongestDeadline);
    enter_state(*record, ModuleState::kDraining);
  }
}

bool close_drained_modules() {
  Modules& all = modules();
  const std::lock_guard lock(all.mutex);
  bool any = false;
  for (const auto& record : all.records) {
    if (record->state != ModuleState::kDraining && record->state != ModuleState::kBusy) continue;
    if (record->use->inside() != 0) {
      any = true;
      if (Clock::now() > record->deadline) enter_state(*record, ModuleState::kBusy);
      continue;
    }
    enter_state(*record, close_module(record->open.module) ? ModuleState::kUnmapped
                                                           : ModuleState::kStillMapped);
  }
  return any;
}

std::vector<ModuleReport> report_modules(const void* user) {
  Modules& all = modules();
  const std::lock_guard lock(all.mutex);
  std::vector<ModuleReport> reports;
  const auto gone = std::count_if(all.records.begin(), all.records.end(), [&](const auto& record) {
    return record->seen_by.count(user) != 0 && !is_mapped(*record);
  });
  auto left_out = gone - std::min<std::ptrdiff_t>(gone, kGoneModules);
  for (const auto& record : all.records) {
    if (record->seen_by.count(user) == 0) continue;
    if (!is_mapped(*record) && left_out-- > 0) continue;
    ModuleReport report;
    report.path = record->open.module.path.string();
    report.state = name_of(record->state);
    report.unloadable = record->use != nullptr;
    report.calls_inside = record->use == nullptr ? 0 : record->use->inside();
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace opmux
