// SPDX-License-Identifier: Apache-2.0
//
// Readers of the small files that Python's installers and torch leave behind. They take foreign
// bytes of any content and length; private to this folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opmux::discovery {

// One value of the header part of METADATA or PKG-INFO, e.g. "Version"; empty when there is none.
std::string metadata_field(std::string_view text, std::string_view field);

// Whether a path is relative and already as short as lexical rules make it.
bool is_plain_path(std::string_view path);

// The paths that a RECORD lists, as written: the first field of each line of a CSV file. Of paths
// without `./` and `//` only those that begin with `prefix`: a RECORD has thousands of lines, and a
// start reads it for every library.
std::vector<std::string> record_paths(std::string_view text, std::string_view prefix = {});

// The root of an editable installation as direct_url.json names it; nothing for another kind of
// installation, or when the file is damaged.
std::optional<std::filesystem::path> editable_root(std::string_view text);

struct TorchVersion {
  std::string version;  // empty when the text names none
  std::string cuda;     // empty for None
};
// From torch/version.py, which is read as text and never run.
TorchVersion torch_version(std::string_view text);

struct VirtualEnvironmentConfig {
  std::filesystem::path home;  // the folder of the python that the environment was made with
  bool includes_system_packages = false;
};
// From pyvenv.cfg.
VirtualEnvironmentConfig virtual_environment_config(std::string_view text);

}  // namespace opmux::discovery
