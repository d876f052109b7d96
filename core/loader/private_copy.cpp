// SPDX-License-Identifier: Apache-2.0
#include "core/loader/private_copy.hpp"

#include <stdlib.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {

namespace fs = std::filesystem;

namespace {

// Of modules that are copied; more is no plugin module.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

bool PrivateCopy::looks_beside_itself(const fs::path& file) {
  const Result<std::string> bytes =
      read_regular_file(file, kMostBytes, rules::kLoaderOpenFailed, rules::kLoaderOpenFailed);
  return !bytes.ok() || bytes->find("$ORIGIN") != std::string::npos ||
         bytes->find("${ORIGIN}") != std::string::npos;
}

Result<PrivateCopy> PrivateCopy::of(const fs::path& file, const FileIdentity* checked) {
  const std::string subject = printable(file.native());
  constexpr const char* kExpected = "room for a private copy";
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "opmux-module-XXXXXX").native();
  // mkdtemp makes it for this user alone.
  if (error || mkdtemp(folder.data()) == nullptr) {
    if (!error) error = std::error_code(errno, std::generic_category());
    return reject(rules::kLoaderOpenFailed, subject, kExpected,
                  printable(folder) + ": " + error.message(), "Set TMPDIR to a writable folder.");
  }
  PrivateCopy copy(fs::path(folder) / file.filename());
  FileIdentity before;
  FileIdentity after;
  if (!file_identity(file, before) || !fs::copy_file(file, copy.path(), error) || error) {
    return reject(rules::kLoaderOpenFailed, subject, kExpected,
                  printable(folder) + ": " + (error ? error.message() : "no such file"),
                  "Set TMPDIR to a writable folder.");
  }
  if (checked != nullptr && !(before == *checked)) {
    return reject(rules::kLoaderChanged, subject,
                  "the file that was checked, " + to_string(*checked),
                  "another file, " + to_string(before));
  }
  if (!file_identity(file, after) || !(before == after)) {
    return reject(rules::kLoaderChanged, subject,
                  "the file that was to be copied, " + to_string(before),
                  "another file, " + to_string(after));
  }
  return copy;
}

PrivateCopy::PrivateCopy(PrivateCopy&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PrivateCopy::~PrivateCopy() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
  fs::remove(path_.parent_path(), ignored);
}

}  // namespace opmux
