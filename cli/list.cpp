// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include "cli/bindings.hpp"
#include "cli/command.hpp"
#include "cli/html/page.hpp"
#include "cli/output.hpp"
#include "core/base/files.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {

int list(const CommonOptions& common, const std::optional<std::filesystem::path>& html_file) {
  Options options = runtime_options(common);
  options.load = false;
  const StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  const Report report = runtime->report();
  if (html_file) {
    const std::string failure = write_file_atomically(*html_file, html_page(report));
    if (!failure.empty()) {
      print_error("--html: " + failure + ".");
      return kFinding;
    }
  }
  if (common.json) {
    print(to_json(report));
    return kFine;
  }
  if (html_file) {
    print(fmt::format("{} shows {} and {}.", printable(html_file->native()),
                      counted(report.operators.size(), "operator"),
                      counted(report.providers.size(), "provider")));
    return kFine;
  }

  print_machine(report);
  print("");
  RejectionList rejections;
  print(binding_table(report, rejections));
  for (const Rejection& rejection : report.rejections) rejections.add(rejection);
  if (!rejections.empty()) {
    print("");
    rejections.print();
  }
  return kFine;
}

}  // namespace opmux::cli
