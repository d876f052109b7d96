// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of `opmux` and what they share. Each returns the process's exit code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "opmux/opmux.hpp"

namespace opmux::cli {

enum ExitCode : int {
  kFine = 0,
  kFinding = 1,  // the answer to the question is bad news
  kUsage = 2,    // the question is wrong
};

// Options that every subcommand takes.
struct CommonOptions {
  std::vector<std::filesystem::path> environments;
  std::vector<std::filesystem::path> manifests;
  std::optional<std::filesystem::path> config_file;
  std::optional<std::filesystem::path> lock_file;  // --locked
  Trust trust = Trust::kLax;
  bool strict = false;
  bool json = false;
  bool no_cache = false;
};

struct RunOptions {
  std::string operator_name;
  std::string provider;  // empty: the route decides
  std::string device;    // empty: cpu where something serves there, else cuda
  std::string shape;     // empty: the example's
  std::string dtype;     // empty: the example's first
  std::uint64_t seed = 1;
  int repeat = 20;
  bool compare = false;
};

struct WatchOptions {
  std::string target;  // PID or SOCKET; empty: list the programs
  int interval_ms = 1000;
  std::uint64_t count = 0;  // 0: until the program ends
  bool all = false;
};

struct NewPluginOptions {
  std::string name;
  std::string operator_name;     // empty: one of opmux's own
  std::filesystem::path output;  // the folder to make; empty: the name
};

struct LockOptions {
  std::filesystem::path file = "opmux.lock";
  bool check = false;
  bool update = false;
  bool stub_driver = false;
};

// Writes a page, too, when `html_file` is given.
int list(const CommonOptions& common, const std::optional<std::filesystem::path>& html_file);
int explain(const CommonOptions& common, const std::string& operator_name);
int validate(const CommonOptions& common, const std::vector<std::filesystem::path>& manifest_files,
             bool stub_driver);
int run(const CommonOptions& common, const RunOptions& options);
int lock(const CommonOptions& common, const LockOptions& options);
int doctor(const CommonOptions& common);
int demo(const CommonOptions& common);
// An empty `id` is all rules.
int rules(const std::string& id, bool markdown, bool json);
int watch(const CommonOptions& common, const WatchOptions& options);
int new_plugin(const CommonOptions& common, NewPluginOptions options);
int version(bool json);

// The runtime's options; slow steps are told on stderr where that is a terminal.
Options runtime_options(const CommonOptions& common);

// Prints why a runtime could not be opened, with `json` as JSON, too. kUsage where what was typed
// or set is wrong, kFinding where a file that it names is.
int open_failed(const Status& status, bool json);

}  // namespace opmux::cli
