// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "cli/bindings.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(fs::absolute(path), error);
  return error ? path : real;
}

// Leaves in `report` what the given manifests say: their providers' bindings and no others.
void keep_manifests(Report& report, const std::vector<fs::path>& files) {
  std::set<fs::path> wanted;
  for (const fs::path& file : files) wanted.insert(resolved(file));
  std::set<std::string> providers;
  for (const ProviderReport& provider : report.providers)
    if (wanted.contains(resolved(provider.manifest))) providers.insert(provider.name);

  std::erase_if(report.providers,
                [&](const ProviderReport& provider) { return !providers.contains(provider.name); });
  for (OperatorReport& each : report.operators)
    std::erase_if(each.bindings, [&](const BindingReport& binding) {
      return !providers.contains(binding.provider);
    });
  std::erase_if(report.operators, [](const OperatorReport& each) { return each.bindings.empty(); });
}

}  // namespace

int validate(const CommonOptions& common, const std::vector<fs::path>& manifest_files,
             bool stub_driver) {
  for (const fs::path& file : manifest_files) {
    std::error_code error;
    if (!fs::exists(file, error))
      return usage_error("there is no manifest " + printable(file.string()) + ".",
                         "Type `opmux validate FILE...` with the paths of manifests.");
    if (fs::is_directory(file, error))
      return usage_error(
          printable(file.string()) + " is a folder.",
          "Type `opmux validate FILE...` with manifests, or `opmux list --manifests " +
              printable(file.string()) + "` for a drop-in folder.");
  }

  Options options = runtime_options(common);
  options.manifest_files = manifest_files;
  options.stub_driver = stub_driver;
  options.load = false;
  const StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  Report report = runtime->report();
  keep_manifests(report, manifest_files);

  std::vector<std::string> without;
  for (const OperatorReport& each : report.operators)
    if (std::none_of(each.bindings.begin(), each.bindings.end(),
                     [](const BindingReport& binding) { return binding.usable; }))
      without.push_back(each.name);
  const bool refused = std::any_of(
      report.rejections.begin(), report.rejections.end(),
      [](const Rejection& each) { return each.stage == "manifest" || each.stage == "yaml"; });
  const int code = without.empty() && !refused ? kFine : kFinding;

  if (common.json) {
    print(to_json(report));
    return code;
  }
  print_machine(report);
  RejectionList rejections;
  for (const Rejection& rejection : report.rejections) rejections.add(rejection);
  if (!report.operators.empty()) {
    print("");
    print(binding_table(report, rejections));
  }
  if (!rejections.empty()) {
    print("");
    rejections.print();
  }
  print("");
  if (refused)
    print(styled(Style::kBad, report.operators.empty()
                                  ? "refused: a manifest is wrong"
                                  : "a manifest is wrong; the bindings above stand without it"));
  else if (report.operators.empty())
    print("good: these manifests bind no operator");
  else if (without.empty())
    print(styled(Style::kGood,
                 fmt::format("good: {} with a usable binding{}",
                             counted(report.operators.size(), "operator"),
                             report.stub_driver ? ", validated against a stub driver" : "")));
  else
    print(styled(Style::kBad, fmt::format("{} of {} without a usable binding", without.size(),
                                          counted(report.operators.size(), "operator"))));
  return code;
}

}  // namespace opmux::cli
