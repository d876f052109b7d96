// SPDX-License-Identifier: Apache-2.0
#include "core/discovery/folders.hpp"

#include <algorithm>
#include <system_error>

#include "core/base/text.hpp"

namespace opmux::discovery {

namespace fs = std::filesystem;

std::vector<std::string> list_matching(const fs::path& folder, std::string_view pattern) {
  std::vector<std::string> names = list_folder(folder).names;
  std::erase_if(names, [&](const std::string& name) { return !glob_match(pattern, name); });
  return names;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

fs::path real_path_or_same(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

void add_folder(std::vector<fs::path>& folders, const fs::path& path) {
  const fs::path real = real_path_or_same(path);
  for (const fs::path& known : folders)
    if (real_path_or_same(known) == real) return;
  folders.push_back(path);
}

bool lies_inside(const fs::path& path, const fs::path& root) {
  const auto [rest, end] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return rest == root.end();
}

std::string list_paths(const std::vector<fs::path>& paths) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < paths.size() && i < kShown; ++i)
    shown.push_back(printable(paths[i].native()));
  std::string text = join(shown, ", ");
  if (paths.size() > kShown) text += " and " + std::to_string(paths.size() - kShown) + " more";
  return text;
}

}  // namespace opmux::discovery
