// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include "cli/bindings.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"

namespace opmux::cli {

int list(const CommonOptions& common) {
  Options options = runtime_options(common);
  options.load = false;
  const StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  const Report report = runtime->report();
  if (common.json) {
    print(to_json(report));
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
