// SPDX-License-Identifier: Apache-2.0
//
// A plugin module under a path of its own: the dynamic linker answers with the old file for a path
// that it knows. Thread safety: a value.
#pragma once

#include <filesystem>

#include "core/base/result.hpp"

namespace opmux {

// The file and its folder are removed with the object; what is mapped from it stays.
class PrivateCopy {
 public:
  // Rule loader.open_failed when the folder for temporary files takes no copy; loader.changed when
  // the file changes meanwhile.
  static Result<PrivateCopy> of(const std::filesystem::path& file);

  PrivateCopy(PrivateCopy&& other) noexcept;
  PrivateCopy& operator=(PrivateCopy&&) = delete;
  ~PrivateCopy();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  explicit PrivateCopy(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;  // empty: moved from
};

}  // namespace opmux
