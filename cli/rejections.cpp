// SPDX-License-Identifier: Apache-2.0
#include "cli/rejections.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "cli/output.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

constexpr std::size_t kSubjectsShown = 6;

bool say_the_same(const Rejection& left, const Rejection& right) {
  return left.rule == right.rule && left.expected == right.expected && left.found == right.found &&
         left.hint == right.hint;
}

}  // namespace

std::size_t RejectionList::add(const Rejection& rejection) {
  auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& candidate) {
    return say_the_same(candidate.first, rejection);
  });
  if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{rejection, {}, 0});
  ++group->count;
  if (std::find(group->subjects.begin(), group->subjects.end(), rejection.subject) ==
      group->subjects.end())
    group->subjects.push_back(rejection.subject);
  return static_cast<std::size_t>(group - groups_.begin()) + 1;
}

void RejectionList::print() const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    cli::print(fmt::format("[{}] {}{}", i + 1, styled(Style::kBold, group.first.rule),
                           group.count > 1 ? fmt::format(" ({} times)", group.count) : ""));
    const std::size_t shown = std::min(group.subjects.size(), kSubjectsShown);
    for (std::size_t subject = 0; subject < shown; ++subject)
      if (!group.subjects[subject].empty()) cli::print("    " + printable(group.subjects[subject]));
    if (shown < group.subjects.size())
      cli::print(fmt::format("    and {} more", group.subjects.size() - shown));
    cli::print("      expected: " + wrapped_lines(group.first.expected, 16));
    cli::print("      found:    " + wrapped_lines(group.first.found, 16));
    if (!group.first.hint.empty())
      cli::print("      do:       " + wrapped_lines(group.first.hint, 16));
  }
}

std::string in_short(const Rejection& rejection) {
  std::string text = rejection.rule + ": ";
  if (!rejection.subject.empty()) text += rejection.subject + ": ";
  text += "expected " + rejection.expected;
  if (!rejection.found.empty()) text += ", found " + rejection.found;
  return text;
}

nlohmann::ordered_json as_json(const Rejection& rejection) {
  return {{"stage", rejection.stage},     {"rule", rejection.rule},
          {"subject", rejection.subject}, {"expected", rejection.expected},
          {"found", rejection.found},     {"hint", rejection.hint}};
}

void print_rejection(const Rejection& rejection, std::size_t indent) {
  const std::string space(indent, ' ');
  print(space + styled(Style::kBold, rejection.rule) + "  " + printable(rejection.subject));
  print(space + "  expected: " + wrapped_lines(rejection.expected, indent + 12));
  print(space + "  found:    " + wrapped_lines(rejection.found, indent + 12));
  if (!rejection.hint.empty())
    print(space + "  do:       " + wrapped_lines(rejection.hint, indent + 12));
}

}  // namespace opmux::cli
