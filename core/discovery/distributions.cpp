// SPDX-License-Identifier: Apache-2.0
#include "core/discovery/distributions.hpp"

#include <algorithm>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/folders.hpp"
#include "core/discovery/metadata.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// Descriptions stand in METADATA too; some are long.
constexpr std::size_t kMetadataCap = 8 * 1024 * 1024;
constexpr std::size_t kDirectUrlCap = 64 * 1024;

struct MetadataName {
  std::string name;     // normalised
  std::string version;  // as the folder's name tells it, may be empty
};

// "flash_attn-2.8.3.dist-info" and "vllm.egg-info"; nothing for other names.
std::optional<MetadataName> parse_metadata_name(const std::string& file) {
  for (const std::string_view suffix : {".dist-info", ".egg-info"}) {
    if (file.size() <= suffix.size() ||
        file.compare(file.size() - suffix.size(), suffix.size(), suffix) != 0)
      continue;
    const std::string stem = file.substr(0, file.size() - suffix.size());
    const std::size_t dash = stem.find('-');
    MetadataName result;
    result.name = normalise_distribution_name(stem.substr(0, dash));
    if (dash != std::string::npos) {
      // "PyYAML-6.0-py3.11.egg-info"
      const std::string rest = stem.substr(dash + 1);
      result.version = rest.substr(0, rest.find("-py"));
    }
    return result;
  }
  return std::nullopt;
}

std::optional<std::string> read_if_there(const fs::path& file, std::size_t cap) {
  if (!discovery::is_file(file)) return std::nullopt;
  auto text =
      read_regular_file(file, cap, rules::kDiscoveryUnreadable, rules::kDiscoveryUnreadable);
  if (!text.ok()) return std::nullopt;
  return std::move(text).value();
}

struct Candidate {
  Distribution distribution;
  bool has_metadata = false;
  bool is_dist_info = false;
};

Candidate examine(const MetadataName& name, const fs::path& site_packages,
                  const fs::path& metadata) {
  Candidate candidate;
  candidate.is_dist_info = metadata.extension() == ".dist-info";
  Distribution& distribution = candidate.distribution;
  distribution.name = name.name;
  distribution.version = name.version;
  distribution.site_packages = site_packages;
  distribution.metadata = metadata;
  distribution.has_record = discovery::is_file(metadata / "RECORD");
  for (const fs::path& file : {metadata / "METADATA", metadata / "PKG-INFO", metadata}) {
    const auto text = read_if_there(file, kMetadataCap);
    if (!text) continue;
    candidate.has_metadata = true;
    const std::string version = discovery::metadata_field(*text, "Version");
    if (!version.empty()) distribution.version = version;
    break;
  }
  if (const auto text = read_if_there(metadata / "direct_url.json", kDirectUrlCap))
    distribution.editable_root = discovery::editable_root(*text);
  return candidate;
}

}  // namespace

std::string normalise_distribution_name(std::string_view name) {
  std::string normal;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '.') {
      if (normal.empty() || normal.back() != '-') normal += '-';
    } else {
      normal += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return normal;
}

namespace discovery {

Result<std::optional<Distribution>> find_in_folder(const std::string& name,
                                                   const fs::path& site_packages) {
  const std::string wanted = normalise_distribution_name(name);
  const FolderListing listing = list_folder(site_packages);
  if (!listing.fault.empty() && listing.names.empty())
    return reject(rules::kDiscoveryUnreadable, printable(site_packages.native()),
                  "a folder that can be read", listing.fault);
  std::vector<Candidate> candidates;
  for (const std::string& file : listing.names)
    if (const auto parsed = parse_metadata_name(file); parsed && parsed->name == wanted)
      candidates.push_back(examine(*parsed, site_packages, site_packages / file));

  // A folder without METADATA is what an interrupted removal leaves behind, and an egg-info beside
  // a dist-info comes from a source tree: they count only when there is nothing better.
  const auto prefer = [&](auto&& better) {
    if (std::any_of(candidates.begin(), candidates.end(), better))
      std::erase_if(candidates, [&](const Candidate& candidate) { return !better(candidate); });
  };
  prefer([](const Candidate& candidate) { return candidate.has_metadata; });
  prefer([](const Candidate& candidate) { return candidate.is_dist_info; });
  if (candidates.empty()) return std::optional<Distribution>();

  for (const Candidate& candidate : candidates)
    if (candidate.distribution.version != candidates.front().distribution.version) {
      std::vector<fs::path> folders;
      for (const Candidate& each : candidates)
        folders.push_back(each.distribution.metadata.filename());
      return reject(rules::kDiscoveryDistributionAmbiguous, printable(site_packages.native()),
                    "one version of the distribution `" + printable(wanted) + "`",
                    list_paths(folders));
    }
  return std::optional<Distribution>(std::move(candidates.front().distribution));
}

Result<std::vector<std::string>> read_record(const Distribution& distribution,
                                             std::string_view prefix) {
  const auto text = read_regular_file(distribution.metadata / "RECORD", kRecordCap,
                                      rules::kDiscoveryUnreadable, rules::kDiscoveryUnreadable);
  if (!text.ok()) return text.rejection();
  return record_paths(*text, prefix);
}

std::string owner_of(const std::string& path, const Distribution& distribution) {
  for (const std::string& file : list_matching(distribution.site_packages, "*.dist-info")) {
    const auto parsed = parse_metadata_name(file);
    if (!parsed || parsed->name == distribution.name) continue;
    Distribution other;
    other.metadata = distribution.site_packages / file;
    if (!is_file(other.metadata / "RECORD")) continue;
    const auto record = read_record(other, path);
    if (record.ok() && std::find(record->begin(), record->end(), path) != record->end())
      return parsed->name + " " + parsed->version;
  }
  return {};
}

}  // namespace discovery

Result<Distribution> find_distribution(const std::string& name,
                                       const std::vector<PythonEnvironment>& environments) {
  std::vector<fs::path> searched;
  std::vector<fs::path> importable;
  std::optional<Rejection> unreadable;
  for (const PythonEnvironment& environment : environments)
    for (const fs::path& folder : environment.site_packages) {
      auto found = discovery::find_in_folder(name, folder);
      if (!found.ok()) {
        if (found.rejection().rule != rules::kDiscoveryUnreadable.id) return found.rejection();
        if (!unreadable) unreadable = found.rejection();
        continue;
      }
      if (*found) return std::move(**found);
      searched.push_back(folder);
      std::string package = normalise_distribution_name(name);
      std::replace(package.begin(), package.end(), '-', '_');
      if (discovery::is_folder(folder / package)) importable.push_back(folder / package);
    }
  if (unreadable && searched.empty()) return *unreadable;
  std::string found = searched.empty() ? "no environment to search"
                                       : "not installed in " + discovery::list_paths(searched);
  if (!importable.empty())
    found += " (" + discovery::list_paths(importable) + " has no distribution's metadata)";
  if (unreadable) found += "; " + unreadable->subject + ": " + unreadable->found;
  return reject(rules::kDiscoveryDistributionMissing, printable(name),
                "the distribution `" + printable(normalise_distribution_name(name)) +
                    "` in a searched environment",
                found);
}

}  // namespace opmux
