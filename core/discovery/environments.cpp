// SPDX-License-Identifier: Apache-2.0
//
// Which folders Python would search, found without starting it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/descriptor.hpp"
#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/discovery/discovery.hpp"
#include "core/discovery/folders.hpp"
#include "core/discovery/metadata.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using discovery::add_folder;
using discovery::is_file;
using discovery::is_folder;

constexpr std::size_t kConfigCap = 64 * 1024;

bool is_python_folder(const std::string& name) {
  return name.rfind("python3", 0) == 0 &&
         name.find_first_not_of("0123456789.t", 7) == std::string::npos;
}

// The folders for installed packages below a prefix. `version` is "python3.11", or empty for all
// that are there, the newest first.
std::vector<fs::path> folders_below(const fs::path& prefix, const std::string& version) {
  std::vector<fs::path> folders;
  // Debian puts what pip installs below local/, and searches it first.
  for (const char* library_folder : {"lib", "lib64", "local/lib"}) {
    const fs::path base = prefix / library_folder;
    std::vector<std::string> names = discovery::list_matching(base, "python3*");
    std::erase_if(names, [&](const std::string& name) {
      return !is_python_folder(name) || name == "python3" || (!version.empty() && name != version);
    });
    // "python3.9" before "python3.11" by bytes; longer names are newer.
    std::sort(names.begin(), names.end(), [](const std::string& left, const std::string& right) {
      return left.size() != right.size() ? left.size() > right.size() : left > right;
    });
    for (const std::string& name : names)
      for (const char* packages : {"site-packages", "dist-packages"})
        if (const fs::path folder = base / name / packages; is_folder(folder))
          add_folder(folders, folder);
  }
  if (const fs::path folder = prefix / "lib/python3/dist-packages"; is_folder(folder))
    add_folder(folders, folder);
  return folders;
}

bool looks_like_packages(const fs::path& folder) {
  for (const std::string& name : list_folder(folder).names)
    if (glob_match("*.dist-info", name) || glob_match("*.egg-info", name) ||
        is_file(folder / name / "__init__.py"))
      return true;
  return false;
}

// What a virtual environment adds when it was made with --system-site-packages.
void add_system_packages(const fs::path& root, std::vector<fs::path>& folders) {
  const fs::path file = root / "pyvenv.cfg";
  if (!is_file(file)) return;
  const auto text =
      read_regular_file(file, kConfigCap, rules::kDiscoveryUnreadable, rules::kDiscoveryUnreadable);
  if (!text.ok()) return;
  const auto config = discovery::virtual_environment_config(*text);
  if (!config.includes_system_packages || !config.home.is_absolute()) return;
  for (const fs::path& folder : folders_below(config.home.parent_path(), ""))
    add_folder(folders, folder);
}

Result<PythonEnvironment> environment_at(const fs::path& named, const std::string& origin) {
  const std::string subject = printable(named.native());
  const auto refuse = [&](std::string found) {
    return reject(rules::kDiscoveryBadEnvironment, origin + " " + subject,
                  "a virtual environment's root, a site-packages or a dist-packages folder",
                  std::move(found));
  };
  std::error_code error;
  const fs::path root = named.empty() ? named : fs::absolute(named, error).lexically_normal();
  if (named.empty() || error) return refuse("an empty path");
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) return refuse("nothing there");
  if (status.type() == fs::file_type::none) return refuse(error.message());
  if (status.type() != fs::file_type::directory) return refuse("a file");
  const auto listing = list_folder(root);
  if (!listing.fault.empty() && listing.names.empty())
    return reject(rules::kDiscoveryUnreadable, origin + " " + subject, "a folder that can be read",
                  listing.fault);

  PythonEnvironment environment;
  environment.root = root;
  environment.origin = origin;
  // A path that ends in '/' has an empty last part.
  const fs::path name = root.has_filename() ? root.filename() : root.parent_path().filename();
  if (name == "site-packages" || name == "dist-packages") {
    environment.site_packages.push_back(root);
    return environment;
  }
  environment.site_packages = folders_below(root, "");
  if (!environment.site_packages.empty())
    add_system_packages(root, environment.site_packages);
  else if (looks_like_packages(root))
    environment.site_packages.push_back(root);
  else
    return refuse("a folder without lib/python3.*/site-packages, packages or *.dist-info");
  return environment;
}

// ---- python3 on PATH ----

std::optional<fs::path> python_on_path() {
  const auto variable = environment_variable("PATH");
  if (!variable) return std::nullopt;
  for (const std::string& folder : split(*variable, ':')) {
    // An empty or relative part would mean the current folder, which is not trusted.
    if (folder.empty() || folder.front() != '/') continue;
    const fs::path python = fs::path(folder) / "python3";
    if (is_file(python) && ::access(python.c_str(), X_OK) == 0) return python;
  }
  return std::nullopt;
}

bool is_script(const fs::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  std::array<char, 2> start{};
  return file.valid() && ::read(file.get(), start.data(), start.size()) == 2 && start[0] == '#' &&
         start[1] == '!';
}

Result<PythonEnvironment> environment_of_python(const fs::path& python) {
  const std::string origin = "python3 on PATH";
  const auto refuse = [&](std::string found) {
    return reject(rules::kDiscoveryNoEnvironment, printable(python.native()),
                  "a python3 on PATH whose environment shows without running it", std::move(found));
  };
  if (is_script(python))
    return refuse("a script, as pyenv's shims are, which would have to be run");

  // Each step of a chain of links may be the python of a virtual environment.
  fs::path step = python;
  constexpr int kMaximumLinks = 40;
  for (int i = 0; i < kMaximumLinks; ++i) {
    const fs::path prefix = step.parent_path().parent_path();
    if (is_file(prefix / "pyvenv.cfg")) return environment_at(prefix, origin);
    std::error_code error;
    const fs::path target = fs::read_symlink(step, error);
    if (error) break;  // not a link
    step = (step.parent_path() / target).lexically_normal();
  }
  const fs::path real = discovery::real_path_or_same(python);
  const std::string name = real.filename().native();
  if (!is_python_folder(name))
    return refuse("`" + printable(real.native()) + "`, which does not tell its version");
  PythonEnvironment environment;
  environment.root = real.parent_path().parent_path();
  environment.origin = origin;
  environment.site_packages = folders_below(environment.root, name == "python3" ? "" : name);
  if (environment.site_packages.empty())
    return refuse("no site-packages or dist-packages folder of " + name + " below " +
                  printable(environment.root.native()));
  return environment;
}

}  // namespace

EnvironmentSearch find_environments(const std::vector<fs::path>& named, const std::string& origin) {
  EnvironmentSearch search;
  const auto keep = [&](Result<PythonEnvironment> environment) {
    if (environment.ok())
      search.environments.push_back(std::move(environment).value());
    else
      search.rejections.push_back(environment.rejection());
  };
  if (!named.empty()) {
    for (const fs::path& path : named) keep(environment_at(path, origin));
    return search;
  }
  // The first that is set is meant, also when it is wrong: another one in its place would surprise.
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto value = environment_variable(variable)) {
      keep(environment_at(*value, variable));
      return search;
    }
  if (const auto python = python_on_path())
    keep(environment_of_python(*python));
  else
    search.rejections.push_back(
        reject(rules::kDiscoveryNoEnvironment, "environment", "a Python environment",
               "VIRTUAL_ENV and CONDA_PREFIX are not set and no python3 is on PATH"));
  return search;
}

}  // namespace opmux
