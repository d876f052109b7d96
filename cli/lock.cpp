// SPDX-License-Identifier: Apache-2.0
#include "core/lock/lock.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/rejections.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void print_json(const Json& json) {
  print(json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json as_list(const std::vector<Rejection>& drifts) {
  Json list = Json::array();
  for (const Rejection& drift : drifts) list.push_back(as_json(drift));
  return list;
}

void print_drifts(const std::vector<Rejection>& drifts) {
  RejectionList list;
  for (const Rejection& drift : drifts) list.add(drift);
  if (list.empty()) return;
  list.print();
  print("");
}

int check_lock(const Runtime& runtime, const fs::path& file, const Options& options, bool json) {
  const StatusOr<std::vector<Rejection>> drifts = runtime.compare_lock(file, options.progress);
  if (!drifts.ok()) return open_failed(drifts.status(), json);
  const std::string name = printable(file.string());
  if (json) {
    print_json({{"lock", file.string()}, {"drifts", as_list(*drifts)}});
  } else {
    print_drifts(*drifts);
    print(drifts->empty()
              ? styled(Style::kGood, "good: everything is as in " + name)
              : styled(Style::kBad,
                       fmt::format("{} from {}", counted(drifts->size(), "difference"), name)));
  }
  return drifts->empty() ? kFine : kFinding;
}

// What a new lock accepts; nothing where there is no old one that can be read.
std::vector<Rejection> accepted_by(const Runtime& runtime, const fs::path& file,
                                   const Options& options) {
  if (!lock::read(file).ok()) return {};
  StatusOr<std::vector<Rejection>> drifts = runtime.compare_lock(file, options.progress);
  return drifts.ok() ? std::move(*drifts) : std::vector<Rejection>{};
}

int write_lock(const Runtime& runtime, const fs::path& file, const Options& options, bool json) {
  const std::vector<Rejection> accepted = accepted_by(runtime, file, options);
  const Status status = runtime.write_lock(file, options.progress);
  if (!status.ok()) return open_failed(status, json);
  const Result<lock::Lock> written = lock::read(file);
  if (!written.ok()) return open_failed(Status(written.rejection()), json);
  if (json) {
    print_json({{"lock", file.string()},
                {"bindings", written->bindings.size()},
                {"files", written->files.size()},
                {"stub_driver", written->driver.stub},
                {"accepted", as_list(accepted)}});
    return kFine;
  }
  print_drifts(accepted);
  if (!accepted.empty()) print("accepted: " + counted(accepted.size(), "difference"));
  std::string text = fmt::format("wrote {}: {}, {}", printable(file.string()),
                                 counted(written->bindings.size(), "binding"),
                                 counted(written->files.size(), "file"));
  if (written->torch) text += ", torch " + printable(written->torch->version);
  if (written->driver.stub) text += ", checked with a stub driver";
  print(styled(Style::kGood, text));
  return kFine;
}

}  // namespace

int lock(const CommonOptions& common, const LockOptions& lock_options) {
  std::error_code error;
  const fs::path& file = lock_options.file;
  const bool is_there = fs::exists(fs::symlink_status(file, error));
  if (!lock_options.check && !lock_options.update && is_there)
    return usage_error("there is a lock already: " + printable(file.string()) + ".",
                       "Type `opmux lock --check` to compare with it, or `opmux lock --update` to "
                       "replace it.");
  if (lock_options.check && !is_there)
    return usage_error("there is no lock " + printable(file.string()) + ".",
                       "Type `opmux lock` to make it.");
  Options options = runtime_options(common);
  options.load = false;
  options.stub_driver = lock_options.stub_driver;
  const StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  return lock_options.check ? check_lock(*runtime, file, options, common.json)
                            : write_lock(*runtime, file, options, common.json);
}

}  // namespace opmux::cli
