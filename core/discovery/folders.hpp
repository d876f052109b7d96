// SPDX-License-Identifier: Apache-2.0
//
// Looking at folders and files without exceptions, in a stable order and within caps; private to
// this folder. Links are followed unless stated.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/folder_listing.hpp"

namespace opmux::discovery {

// The names in a folder that match a shell pattern, sorted by bytes.
std::vector<std::string> list_matching(const std::filesystem::path& folder,
                                       std::string_view pattern);

bool is_folder(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);

// The path with links resolved, or, when that is impossible, `path` itself.
std::filesystem::path real_path_or_same(const std::filesystem::path& path);

// Adds `path` unless another entry is the same folder under another name.
void add_folder(std::vector<std::filesystem::path>& folders, const std::filesystem::path& path);

// Whether `path` is `root` or lies below it; both must be real paths.
bool lies_inside(const std::filesystem::path& path, const std::filesystem::path& root);

// For errors: `a, b and 3 more`.
std::string list_paths(const std::vector<std::filesystem::path>& paths);

}  // namespace opmux::discovery
