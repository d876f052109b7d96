// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/command.hpp"
#include "cli/declarations.hpp"
#include "cli/output.hpp"
#include "cli/scaffold/scaffold.hpp"
#include "core/base/files.hpp"
#include "core/base/own_file.hpp"
#include "core/base/text.hpp"
#include "core/runtime/locations.hpp"

namespace opmux::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 64;
constexpr const char* kAllowed =
    "Names are letters, digits and _, first a letter, at most 64: they become a provider, a file "
    "and a CMake target.";

// As manifests have it, whatever the locale.
bool is_name(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && text.size() <= kLongestName && letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

// Removed with all it holds, unless it was given a name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& parent)
      : path_((parent / ".opmux-new-plugin-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      error_ = errno;
      path_.clear();
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  int error() const { return error_; }
  fs::path path() const { return path_; }

  // 0, or errno. Never replaces what is there already, not even an empty folder.
  int rename_to(const fs::path& target) {
    if (::chmod(path_.c_str(), 0755) != 0) return errno;
    int failure =
        ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0
            ? 0
            : errno;
    // Some file systems cannot promise that.
    if (failure == EINVAL || failure == ENOSYS) {
      struct stat info {};
      if (::lstat(target.c_str(), &info) == 0) return EEXIST;
      failure = ::rename(path_.c_str(), target.c_str()) == 0 ? 0 : errno;
    }
    if (failure == 0) path_.clear();
    return failure;
  }

 private:
  std::string path_;
  int error_ = 0;
};

int failed(const NewPluginOptions& options, const std::string& what, int error) {
  print_error(fmt::format("{} {}: {}. Nothing was written.", what,
                          printable(options.output.native()),
                          std::generic_category().message(error)));
  return kFinding;
}

// Where CMake finds opmux, when this command is part of an install tree.
std::string install_prefix() {
  const fs::path prefix = own_file().parent_path().parent_path();
  std::error_code ignored;
  return fs::exists(module_folder().parent_path() / "cmake" / "opmux" / "opmuxConfig.cmake",
                    ignored)
             ? prefix.string()
             : "";
}

// The path as one word of a shell, and never as an option.
std::string quoted(std::string path) {
  if (path.starts_with('-')) path.insert(0, "./");
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"/._-+"}.find(c) != std::string_view::npos;
  });
  if (plain && !path.empty()) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? "'\\''" : std::string{c};
  return word + "'";
}

std::vector<std::string> next_steps(const NewPluginOptions& options,
                                    const std::string& operator_name) {
  const std::string folder = quoted(options.output.string());
  const std::string build = quoted((options.output / "build").string());
  const std::string prefix = install_prefix();
  return {fmt::format("cmake -S {} -B {} -DCMAKE_PREFIX_PATH={}", folder, build,
                      prefix.empty() ? "PREFIX" : quoted(prefix)),
          "cmake --build " + build, "ctest --test-dir " + build + " --output-on-failure",
          fmt::format("opmux run {} --manifests {}", operator_name,
                      quoted((options.output / "build" / "drop-in").string()))};
}

}  // namespace

int new_plugin(const CommonOptions& common, NewPluginOptions options) {
  if (!is_name(options.name))
    return usage_error(fmt::format("`{}` is no name for a plugin.", printable(options.name)),
                       kAllowed);
  if (options.operator_name.empty()) options.operator_name = kScaffoldOperator;
  if (!is_name(options.operator_name))
    return usage_error(
        fmt::format("`{}` is no name for an operator.", printable(options.operator_name)),
        kAllowed);
  if (options.output.empty()) options.output = options.name;
  // A path that ends in a slash names the same folder.
  if (!options.output.has_filename()) options.output = options.output.parent_path();

  const Result<ManifestSet> manifests = read_manifest_set(common);
  if (!manifests.ok()) return open_failed(Status(manifests.rejection()), common.json);
  for (const Manifest& manifest : manifests->providers)
    if (manifest.provider == options.name || manifest.plugin == options.name)
      return usage_error(
          fmt::format("`{}` is taken: {} describes a provider or plugin of this name.",
                      options.name, printable(manifest.file.native())),
          "Choose another name.");
  for (const char* own : {"native", "native_cuda", "direct_symbol"})
    if (options.name == own)
      return usage_error(fmt::format("`{}` is part of opmux.", own), "Choose another name.");
  const OperatorDeclaration* declared = manifests->find_declaration(options.operator_name);
  if (declared != nullptr && options.operator_name != kScaffoldOperator)
    return usage_error(
        fmt::format("`{}` is an operator that exists, for which there is no kernel to begin with.",
                    options.operator_name),
        fmt::format("Begin with `opmux new-plugin {}`, which serves {}; its README.md says how to "
                    "go on to another operator. Or name a new operator.",
                    options.name, kScaffoldOperator));

  struct stat info {};
  if (::lstat(options.output.c_str(), &info) == 0)
    return usage_error(fmt::format("{} is there already; nothing was written.",
                                   printable(options.output.native())),
                       "Choose another folder with --output, or remove it.");
  const fs::path parent = options.output.has_parent_path() ? options.output.parent_path() : ".";
  TemporaryFolder temporary{parent};
  if (temporary.error() != 0) return failed(options, "cannot make", temporary.error());
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const ScaffoldFile& file : scaffold(options.name, options.operator_name)) {
    const std::string failure = write_file_atomically(temporary.path() / file.name, file.content);
    if (!failure.empty()) {
      print_error(failure + ". Nothing was written.");
      return kFinding;
    }
    files.push_back(file.name);
  }
  if (const int error = temporary.rename_to(options.output))
    return failed(options, "cannot make", error);

  const std::vector<std::string> next = next_steps(options, options.operator_name);
  if (common.json) {
    print(nlohmann::ordered_json{{"folder", options.output.string()},
                                 {"plugin", options.name},
                                 {"operator", options.operator_name},
                                 {"files", files},
                                 {"next", next}}
              .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return kFine;
  }
  print(fmt::format(
      "{} serves {} and holds:", styled(Style::kBold, printable(options.output.native())),
      options.operator_name));
  for (const auto& file : files) print("  " + file.get<std::string>());
  print(next.front().ends_with("PREFIX")
            ? "Next, with PREFIX from `cmake --install BUILD --prefix PREFIX` of opmux:"
            : "Next:");
  for (const std::string& step : next) print("  " + printable(step));
  return kFine;
}

}  // namespace opmux::cli
