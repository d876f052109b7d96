// SPDX-License-Identifier: Apache-2.0
#include "core/base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "core/base/descriptor.hpp"
#include "core/base/environment.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

// Repeats after a signal and after a short write; 0, or the error.
int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// A temporary file that is removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& folder)
      : path_((folder / ".opmux-XXXXXX").string()),
        descriptor_(::mkostemp(path_.data(), O_CLOEXEC)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_.valid()) ::unlink(path_.c_str());
  }

  bool valid() const { return descriptor_.valid(); }
  int descriptor() const { return descriptor_.get(); }

  // 0, or the error.
  int rename_to(const std::filesystem::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return errno;
    descriptor_.reset();
    return 0;
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

FileIdentity identity_of(const struct stat& info) {
  return {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino),
          static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

// The XDG rule: a relative value is ignored.
std::filesystem::path user_folder(const char* variable, const char* below_home) {
  if (const auto base = environment_variable(variable); base && base->front() == '/')
    return std::filesystem::path{*base} / "opmux";
  if (const auto home = environment_variable("HOME"); home && home->front() == '/')
    return std::filesystem::path{*home} / below_home / "opmux";
  return {};
}

}  // namespace

Result<std::string> read_regular_file(const std::filesystem::path& path, std::size_t cap,
                                      const Rule& unreadable, const Rule& too_large) {
  const std::string subject = printable(path.native());
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0)
    return reject(unreadable, subject, "a regular file that can be read", error_text(errno));
  if (!S_ISREG(info.st_mode))
    return reject(unreadable, subject, "a regular file that can be read",
                  kind_of_file(info.st_mode));

  const std::string limit = "at most " + std::to_string(cap) + " bytes";
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > cap) return reject(too_large, subject, limit, std::to_string(size) + " bytes");

  std::string content(static_cast<std::size_t>(size), '\0');
  std::size_t used = 0;
  // The size seen above may be 0 for kernel files and may have changed since: only the end of the
  // file ends the loop, and the byte that lies beyond the cap.
  for (;;) {
    if (used == content.size()) {
      if (used > cap) return reject(too_large, subject, limit, "more while it was read");
      const std::size_t step = std::min<std::size_t>(std::max<std::size_t>(used, 4096), cap - used);
      content.resize(used + step + (step == cap - used ? 1 : 0));
    }
    const ssize_t got = ::read(file.get(), content.data() + used, content.size() - used);
    if (got < 0) {
      if (errno == EINTR) continue;
      return reject(unreadable, subject, "a regular file that can be read", error_text(errno));
    }
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  content.resize(used);
  return content;
}

std::string write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  // Renaming over a device would take it away from every program.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return "cannot replace " + printable(path.native()) + ": it is " + kind_of_file(info.st_mode) +
           ", and only a regular file is replaced";
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const auto failed = [](const std::string& what, const std::filesystem::path& subject, int error) {
    return what + ' ' + printable(subject.native()) + ": " + error_text(error);
  };

  const Descriptor folder_descriptor{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder_descriptor.valid()) return failed("cannot open the folder", folder, errno);
  TemporaryFile temporary{folder};
  if (!temporary.valid()) return failed("cannot create a file in", folder, errno);
  if (const int error = write_all(temporary.descriptor(), content))
    return failed("cannot write", path, error);
  if (::fchmod(temporary.descriptor(), 0644) != 0 || ::fsync(temporary.descriptor()) != 0)
    return failed("cannot write", path, errno);
  if (const int error = temporary.rename_to(path)) return failed("cannot replace", path, error);
  // Readers already see the new file whole. Some file systems refuse to sync a folder; then a power
  // cut may bring the old file back, which is no failure of this write.
  ::fsync(folder_descriptor.get());
  return {};
}

bool is_same_but_for_status(const FileIdentity& a, const FileIdentity& b) {
  FileIdentity with_status = a;
  with_status.changed_ns = b.changed_ns;
  return with_status == b;
}

bool file_identity(const std::filesystem::path& path, FileIdentity& identity) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  identity = identity_of(info);
  return true;
}

bool file_identity(int descriptor, FileIdentity& identity) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return false;
  identity = identity_of(info);
  return true;
}

std::string to_string(const FileIdentity& identity) {
  return std::to_string(identity.device) + ':' + std::to_string(identity.inode) + ':' +
         std::to_string(identity.size) + ':' + std::to_string(identity.modified_ns) + ':' +
         std::to_string(identity.changed_ns);
}

std::filesystem::path user_cache_folder() { return user_folder("XDG_CACHE_HOME", ".cache"); }

std::filesystem::path user_config_folder() { return user_folder("XDG_CONFIG_HOME", ".config"); }

}  // namespace opmux
