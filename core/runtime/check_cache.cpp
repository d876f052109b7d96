// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/check_cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/hash.hpp"
#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/elf/elf.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Raised when the check's meaning changes, so that older entries no longer match.
constexpr int kFormat = 3;
constexpr std::size_t kEntryCap = 64 * 1024;

std::string identity_text(const fs::path& path) {
  FileIdentity identity;
  return path.string() + "=" + (file_identity(path, identity) ? to_string(identity) : "absent") +
         "\n";
}

// Everything that the outcome of a check of the library depends on.
std::string facts_text(const fs::path& path, const LibrarySource& source,
                       const StaticCheckContext& context) {
  std::string text = "check " + std::to_string(kFormat) + "\n" + identity_text(path);
  text += source.python_extension ? "python_extension\n" : "";
  if (context.python != nullptr) {
    text += "libpython " + context.python->version + "\n" + identity_text(context.python->path);
  }
  for (const std::string& feature : source.cpu) text += "cpu " + feature + "\n";
  text += "host";
  for (const std::string& feature : context.host->cpu_features) text += " " + feature;
  text += "\n" + identity_text(context.host->driver) + identity_text(context.host->stub_driver);
  if (context.torch != nullptr) {
    text += "torch " + context.torch->version + "\n" +
            identity_text(context.torch->library_folder / "libtorch_cpu.so");
    for (const fs::path& folder : context.torch->dependency_folders) text += identity_text(folder);
  }
  // What the system offers changes with ldconfig's cache or the search path.
  text += identity_text("/etc/ld.so.cache");
  text += "LD_LIBRARY_PATH=" + environment_variable("LD_LIBRARY_PATH").value_or("") + "\n";
  return text;
}

bool trusted(const fs::path& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// The files that the outcome hangs on and the key does not hold, with their identities. Null when
// one of them is missing or broken: it may be repaired a moment later.
Json identities_of_needed(const fs::path& path, const StaticCheckContext& context) {
  const std::optional<std::vector<fs::path>> files = needed_files(path, context);
  if (!files) return nullptr;
  Json identities = Json::object();
  for (const fs::path& file : *files) identities[file.string()] = identity_text(file);
  return identities;
}

bool are_unchanged(const Json& identities) {
  for (const auto& [file, identity] : identities.items()) {
    if (identity_text(file) != identity.get<std::string>()) return false;
  }
  return true;
}

// What an entry holds, or nothing that can be trusted.
std::optional<Json> read_entry(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  if (!trusted(file)) {
    log::debug("cache entry ignored, others can write it: " + file.string());
    return std::nullopt;
  }
  Result<std::string> text =
      read_regular_file(file, kEntryCap, rules::kYamlUnreadable, rules::kYamlTooLarge);
  if (!text.ok()) return std::nullopt;
  try {
    const Json entry = Json::parse(*text);
    Json payload = entry.at("payload");
    if (entry.at("checksum") != sha256(payload.dump())) throw std::runtime_error("checksum");
    return payload;
  } catch (const std::exception& problem) {
    log::debug("cache entry ignored, " + std::string(problem.what()) + ": " + file.string());
    return std::nullopt;
  }
}

Json rejection_to_json(const Rejection& said) {
  return {{"stage", said.stage},       {"rule", said.rule},   {"subject", said.subject},
          {"expected", said.expected}, {"found", said.found}, {"hint", said.hint}};
}

// May throw what the JSON library throws.
Rejection read_rejection(const Json& said) {
  return Rejection{said.at("stage"),    said.at("rule"),  said.at("subject"),
                   said.at("expected"), said.at("found"), said.at("hint")};
}

// True for a rejection that its key decides alone. A library that was found nowhere may be put into
// a system's or a run path's folder a moment later, in answer to this very rejection; one that
// exports a required symbol, too, may be taken away.
bool is_lasting(const Rejection& rejection) {
  return rejection.rule != rules::kContractNeededMissing.id &&
         rejection.rule != rules::kContractSymbolTwice.id &&
         rejection.rule != rules::kContractSymbolElsewhere.id;
}

// `make_payload` may throw what the JSON library throws: a path that is not UTF-8.
template <class MakePayload>
void write_entry(const fs::path& file, MakePayload make_payload) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return;
  std::string problem;
  try {
    const Json payload = make_payload();
    if (payload.at("needed").is_null()) return;
    const Json entry{{"payload", payload}, {"checksum", sha256(payload.dump())}};
    problem = write_file_atomically(file, entry.dump());
  } catch (const Json::exception& not_text) {
    problem = not_text.what();
  }
  if (!problem.empty()) log::debug("cache entry not written: " + problem);
}

// Nothing when the payload is not what `read` expects.
template <class Read>
auto read_payload(const fs::path& file, Read read) -> std::optional<decltype(read(Json()))> {
  const std::optional<Json> payload = read_entry(file);
  if (!payload) return std::nullopt;
  try {
    if (!are_unchanged(payload->at("needed"))) return std::nullopt;
    return read(*payload);
  } catch (const Json::exception& problem) {
    log::debug("cache entry ignored, " + std::string(problem.what()) + ": " + file.string());
    return std::nullopt;
  }
}

bool needs_cuda(const fs::path& path) {
  Result<elf::ElfFile> file = elf::read(path);
  if (!file.ok()) return false;
  for (const std::string& needed : file->needed) {
    if (needed.starts_with("libtorch_cuda") || needed.starts_with("libc10_cuda") ||
        needed.starts_with("libcudart") || needed.starts_with("libcuda.so")) {
      return true;
    }
  }
  return false;
}

}  // namespace

LibraryCheck check_library_cached(const fs::path& path, const LibrarySource& source,
                                  const StaticCheckContext& context, const fs::path& cache_folder) {
  fs::path entry;
  if (!cache_folder.empty()) {
    entry = cache_folder / "checks" / (sha256(facts_text(path, source, context)) + ".json");
    const auto known = read_payload(entry, [](const Json& payload) {
      LibraryCheck check;
      check.needs_cuda = payload.at("needs_cuda").get<bool>();
      if (payload.contains("rejection")) check.rejection = read_rejection(payload.at("rejection"));
      for (const auto& [file, identity] : payload.at("needed").items())
        check.needed.emplace_back(file);
      return check;
    });
    if (known) return *known;
  }
  LibraryCheck check;
  check.rejection = check_library(path, source, context);
  check.needs_cuda = needs_cuda(path);
  if (!check.rejection)
    check.needed = needed_files(path, context).value_or(std::vector<fs::path>());
  if (!entry.empty() && (!check.rejection || is_lasting(*check.rejection))) {
    write_entry(entry, [&] {
      Json payload{{"needs_cuda", check.needs_cuda},
                   {"needed", identities_of_needed(path, context)}};
      if (check.rejection) payload["rejection"] = rejection_to_json(*check.rejection);
      return payload;
    });
  }
  return check;
}

Result<std::vector<std::string>> find_symbols_cached(const DirectSymbolContract& contract,
                                                     const fs::path& path,
                                                     const LibrarySource& source,
                                                     const StaticCheckContext& context,
                                                     const fs::path& cache_folder) {
  using Names = std::vector<std::string>;
  fs::path entry;
  if (!cache_folder.empty()) {
    std::string text = facts_text(path, source, context) + (contract.exact ? "exact\n" : "");
    // A name may hold anything but NUL.
    for (const std::string& symbol : contract.required_symbols) text += symbol + '\0';
    entry = cache_folder / "checks" / (sha256(text) + ".json");
    const auto known = read_payload(entry, [](const Json& payload) {
      return payload.contains("rejection") ? Result<Names>(read_rejection(payload.at("rejection")))
                                           : Result<Names>(payload.at("symbols").get<Names>());
    });
    if (known) return *known;
  }
  Result<Names> found = find_symbols(contract, path, context);
  if (!entry.empty() && (found.ok() || is_lasting(found.rejection()))) {
    write_entry(entry, [&] {
      Json payload{{"needed", identities_of_needed(path, context)}};
      if (found.ok()) {
        payload["symbols"] = *found;
      } else {
        payload["rejection"] = rejection_to_json(found.rejection());
      }
      return payload;
    });
  }
  return found;
}

}  // namespace opmux
