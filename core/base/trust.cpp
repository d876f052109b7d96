// SPDX-License-Identifier: Apache-2.0
#include "core/base/trust.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// As the kernel's own limit.
constexpr int kMostLinks = 40;

std::string mode_text(mode_t mode) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return digits.data();
}

// The parts of a path that are still to walk.
std::deque<std::string> parts_of(const fs::path& path) {
  std::deque<std::string> parts;
  for (const fs::path& part : path.relative_path())
    if (!part.empty() && part != ".") parts.push_back(part.string());
  return parts;
}

// Whether `at` is what was asked for, or the folder of a file or link that was.
bool holds_file(const fs::path& at, const std::deque<std::string>& pending) {
  if (pending.size() != 1) return pending.empty();
  std::error_code error;
  return !fs::is_directory(fs::symlink_status(at / pending.front(), error));
}

Check cannot_examine(const fs::path& asked, const fs::path& at, int error) {
  if (error == ENOENT || error == ENOTDIR) return std::nullopt;
  return reject(rules::kTrustOwner, printable(asked.native()), "a way to it that can be examined",
                printable(at.native()) + ": " + std::generic_category().message(error));
}

Check check_part(const fs::path& asked, const fs::path& at, const struct stat& info,
                 bool holds_file) {
  const std::string shown = at == asked ? "it" : printable(at.native()) + ", on the way to it,";
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return reject(rules::kTrustOwner, printable(asked.native()),
                  "root or user " + std::to_string(::geteuid()) + " as the owner",
                  shown + " belongs to user " + std::to_string(info.st_uid) + ", mode " +
                      mode_text(info.st_mode));
  }
  if (S_ISLNK(info.st_mode)) return std::nullopt;  // a link has no mode of its own
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return std::nullopt;
  if (S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0 && !holds_file) return std::nullopt;
  return reject(rules::kTrustWritable, printable(asked.native()), "nobody else who may write it",
                shown + " has mode " + mode_text(info.st_mode));
}

}  // namespace

Check check_trust(const fs::path& path) {
  if (path.empty()) return std::nullopt;
  std::error_code error;
  const fs::path asked = fs::absolute(path, error);
  if (error) return cannot_examine(path, path, error.value());
  fs::path at = "/";
  std::deque<std::string> pending = parts_of(asked);
  int links = 0;
  for (;;) {
    struct stat info {};
    if (::lstat(at.c_str(), &info) != 0) return cannot_examine(asked, at, errno);
    if (Check refused = check_part(asked, at, info, holds_file(at, pending))) return refused;
    if (S_ISLNK(info.st_mode)) {
      if (++links > kMostLinks) return cannot_examine(asked, at, ELOOP);
      const fs::path target = fs::read_symlink(at, error);
      if (error) return cannot_examine(asked, at, error.value());
      std::deque<std::string> parts = parts_of(target);
      pending.insert(pending.begin(), parts.begin(), parts.end());
      at = target.is_absolute() ? fs::path("/") : at.parent_path();
      continue;
    }
    if (pending.empty()) return std::nullopt;
    if (pending.front() == "..") {
      at = at.parent_path();
    } else {
      at /= pending.front();
    }
    pending.pop_front();
  }
}

Check require_trust(const fs::path& path, Trust trust) {
  Check refused = check_trust(path);
  if (!refused || trust == Trust::kStrict) return refused;
  struct Warned {
    std::mutex mutex;
    std::set<std::string> paths;
  };
  static Warned* const warned = std::make_unique<Warned>().release();
  {
    const std::lock_guard lock(warned->mutex);
    if (!warned->paths.insert(path.native()).second) return std::nullopt;
  }
  log::warn(refused->subject + ": " + refused->found + "; others could change what is loaded [" +
            refused->rule + "]");
  return std::nullopt;
}

fs::path existing_part(const fs::path& path) {
  fs::path part = path;
  std::error_code error;
  while (part.has_relative_path() && !fs::exists(fs::symlink_status(part, error)))
    part = part.parent_path();
  return part;
}

}  // namespace opmux
