// SPDX-License-Identifier: Apache-2.0
//
// A plugin module under a path of its own: the dynamic linker answers with the old file for a path
// that it knows, and who writes over a mapped file writes into running code. Thread safety: a
// value.
#pragma once

#include <filesystem>

#include "core/base/files.hpp"
#include "core/base/result.hpp"

namespace opmux {

// The file and its folder are removed with the object; what is mapped from it stays.
class PrivateCopy {
 public:
  // Rule loader.open_failed when the folder for temporary files takes no copy; loader.changed when
  // the file changes meanwhile, or is not `checked`, if given.
  static Result<PrivateCopy> of(const std::filesystem::path& file, const FileIdentity* checked);
  // Its run path may have $ORIGIN, which means another folder for a copy. By the bytes: a false
  // alarm only costs the copy. True for what cannot be read.
  static bool looks_beside_itself(const std::filesystem::path& file);

  PrivateCopy(PrivateCopy&& other) noexcept;
  PrivateCopy& operator=(PrivateCopy&&) = delete;
  ~PrivateCopy();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  explicit PrivateCopy(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;  // empty: moved from
};

}  // namespace opmux
