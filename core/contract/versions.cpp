// SPDX-License-Identifier: Apache-2.0
#include "core/contract/versions.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

// "GLIBC" of "GLIBC_2.34"
std::string_view family(std::string_view version) { return version.substr(0, version.find('_')); }

// {2, 34} of "GLIBC_2.34"; nothing of "GLIBC_PRIVATE"
std::optional<std::vector<int>> numbers(std::string_view version) {
  const auto underscore = version.find('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  std::vector<int> parsed;
  for (const std::string& part : split(version.substr(underscore + 1), '.')) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
    parsed.push_back(value);
  }
  return parsed;
}

// "up to GLIBC_2.36", or that there is none of the family
std::string offered(const elf::ElfFile& library, std::string_view wanted) {
  std::string best;
  std::optional<std::vector<int>> highest;
  for (const std::string& version : library.version_definitions) {
    if (family(version) != family(wanted)) continue;
    auto parsed = numbers(version);
    if (parsed && (!highest || *parsed > *highest)) {
      highest = std::move(parsed);
      best = version;
    }
  }
  return best.empty() ? "no " + printable(family(wanted)) + " version" : "up to " + printable(best);
}

}  // namespace

Check check_versions(const elf::ElfFile& file, const Dependencies& dependencies) {
  for (const elf::VersionNeed& need : file.version_needs) {
    if (need.weak) continue;
    const Dependency* library = dependencies.find(need.library);
    // Nothing is bound to a library that is not needed.
    if (library == nullptr) continue;
    const elf::ElfFile& offers = library->table->file();
    const auto& defined = offers.version_definitions;
    if (std::find(defined.begin(), defined.end(), need.version) != defined.end()) continue;
    const std::string subject = file.path;
    const std::string expected = printable(need.version) + " in " + printable(need.library);
    if (defined.empty()) {
      // The linker binds to a library without versions whatever the version. A C library without
      // any is not glibc, though, and what was built for glibc crashes with it.
      if (family(need.version) != "GLIBC") continue;
      return reject(rules::kContractVersionNeed, subject, expected,
                    "no symbol versions in " + library->path.string() + ": not glibc (musl?)",
                    "The library is linked to glibc: use a build for this host's C library.");
    }
    return reject(rules::kContractVersionNeed, subject, expected,
                  offered(offers, need.version) + " in " + library->path.string());
  }
  return std::nullopt;
}

}  // namespace opmux
