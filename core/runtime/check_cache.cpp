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

// Raised when the check's meaning changes, so that older entries no longer match.
constexpr int kFormat = 1;
constexpr std::size_t kEntryCap = 64 * 1024;

std::string identity_text(const fs::path& path) {
  FileIdentity identity;
  return path.string() + "=" + (file_identity(path, identity) ? to_string(identity) : "absent") +
         "\n";
}

std::string cache_key(const fs::path& path, const LibrarySource& source,
                      const StaticCheckContext& context) {
  std::string text = "check " + std::to_string(kFormat) + "\n" + identity_text(path);
  text += source.python_extension ? "python_extension\n" : "";
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
  return sha256(text);
}

bool trusted(const fs::path& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<LibraryCheck> read_entry(const fs::path& file) {
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
    const nlohmann::json entry = nlohmann::json::parse(*text);
    const nlohmann::json& payload = entry.at("payload");
    if (entry.at("checksum") != sha256(payload.dump())) throw std::runtime_error("checksum");
    LibraryCheck check;
    check.needs_cuda = payload.at("needs_cuda").get<bool>();
    if (payload.contains("rejection")) {
      const nlohmann::json& said = payload.at("rejection");
      check.rejection = Rejection{said.at("stage"),    said.at("rule"),  said.at("subject"),
                                  said.at("expected"), said.at("found"), said.at("hint")};
    }
    return check;
  } catch (const std::exception& problem) {
    log::debug("cache entry ignored, " + std::string(problem.what()) + ": " + file.string());
    return std::nullopt;
  }
}

// True for a verdict that its key decides alone. A library that was found nowhere may be put into a
// system's or a run path's folder a moment later, in answer to this very rejection.
bool is_lasting(const LibraryCheck& check) {
  return !check.rejection || check.rejection->rule != rules::kContractNeededMissing.id;
}

void write_entry(const fs::path& file, const LibraryCheck& check) {
  nlohmann::json payload{{"needs_cuda", check.needs_cuda}};
  if (check.rejection) {
    const Rejection& said = *check.rejection;
    payload["rejection"] = {{"stage", said.stage},     {"rule", said.rule},
                            {"subject", said.subject}, {"expected", said.expected},
                            {"found", said.found},     {"hint", said.hint}};
  }
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return;
  std::string problem;
  try {
    const nlohmann::json entry{{"payload", payload}, {"checksum", sha256(payload.dump())}};
    problem = write_file_atomically(file, entry.dump());
  } catch (const nlohmann::json::exception& not_text) {
    problem = not_text.what();  // a path that is not UTF-8
  }
  if (!problem.empty()) log::debug("cache entry not written: " + problem);
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
    entry = cache_folder / "checks" / (cache_key(path, source, context) + ".json");
    if (std::optional<LibraryCheck> known = read_entry(entry)) return *known;
  }
  LibraryCheck check;
  check.rejection = check_library(path, source, context);
  check.needs_cuda = needs_cuda(path);
  if (!entry.empty() && is_lasting(check)) write_entry(entry, check);
  return check;
}

}  // namespace opmux
