// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the probe share.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "core/probe/probe.hpp"

namespace opmux {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "opmux-probe-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline LoadSet load_set_of(std::initializer_list<std::filesystem::path> libraries) {
  LoadSet load_set;
  for (const std::filesystem::path& path : libraries) {
    load_set.libraries.push_back({path, false, "fake: " + path.stem().native()});
  }
  return load_set;
}

// A deadline that a loaded machine keeps as well.
inline ProbeOptions patient() {
  ProbeOptions options;
  options.deadline = std::chrono::seconds(20);
  return options;
}

}  // namespace opmux
