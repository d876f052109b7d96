// SPDX-License-Identifier: Apache-2.0
#include "core/loader/private_copy.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/descriptor.hpp"
#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {

namespace fs = std::filesystem;

namespace {

// Of modules that are copied; more is no plugin module.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// 0, or the error.
int copy_bytes(const Descriptor& source, std::uint64_t size, const fs::path& target) {
  const Descriptor out{
      ::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR | S_IXUSR)};
  if (!out.valid()) return errno;
  while (size > 0) {
    const ssize_t sent = ::sendfile(out.get(), source.get(), nullptr, size);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno;
    if (sent == 0) return 0;  // cut short meanwhile, which the caller sees
    size -= static_cast<std::uint64_t>(sent);
  }
  return 0;
}

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
  // One descriptor for all, so that what is copied is what was checked.
  const Descriptor source{::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
  FileIdentity before;
  if (!source.valid() || !file_identity(source.get(), before))
    return reject(rules::kLoaderOpenFailed, subject, "a file that can be read", "no such file");
  if (checked != nullptr && !(before == *checked)) {
    return reject(rules::kLoaderChanged, subject,
                  "the file that was checked, " + to_string(*checked),
                  "another file, " + to_string(before));
  }
  if (const int problem = copy_bytes(source, before.size, copy.path()); problem != 0) {
    return reject(rules::kLoaderOpenFailed, subject, kExpected,
                  printable(folder) + ": " + std::generic_category().message(problem),
                  "Set TMPDIR to a writable folder.");
  }
  FileIdentity after;
  if (!file_identity(source.get(), after) || !(before == after)) {
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
