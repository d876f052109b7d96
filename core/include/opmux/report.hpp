// SPDX-License-Identifier: Apache-2.0
//
// What a Runtime found and decided. `opmux list`, `opmux explain`, their JSON and the log print
// this and nothing else. Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opmux/export.h"
#include "opmux/status.hpp"

namespace opmux {

// One alternative of a binding that was not chosen.
struct AlternativeReport {
  std::optional<std::string> library;  // real path, when one was found
  std::string contract;
  bool usable = false;  // usable, but an earlier one was chosen
  std::optional<Rejection> rejection;
};

struct BindingReport {
  std::string provider;
  std::string device;                  // cpu or cuda
  std::optional<std::string> library;  // real path; none for native kernels
  std::string contract;                // direct_symbol, dispatcher or module
  bool usable = false;
  bool callable = false;     // usable, mapped in this process and on a real device
  bool stub_driver = false;  // validated against a stub driver
  bool routed = true;        // false: the configuration's route leaves it out
  std::optional<Rejection> rejection;
  std::vector<std::string> conditions;  // in words
  std::string distribution;             // "vllm 0.20.2", empty for modules
  std::vector<std::string> properties;  // declared: deterministic, graph_capture, in_place
  std::uint32_t copies = 0;             // device copies into outputs per call
  std::vector<AlternativeReport> alternatives;
  // Counters since the runtime was opened, summed over threads.
  std::uint64_t calls = 0;
  // Calls that went on to the next binding: refused before anything was launched, in sum and by
  // reason.
  std::uint64_t refused = 0;
  std::uint64_t refused_by_condition = 0;
  std::uint64_t refused_by_provider = 0;
  std::uint64_t quarantined = 0;        // passed by while in quarantine
  std::optional<Rejection> quarantine;  // why calls pass it by at this moment
  std::uint64_t errors = 0;
  std::uint64_t copied = 0;  // device copies into outputs that its calls made
  std::uint64_t shadow_calls = 0;
  std::uint64_t shadow_differences = 0;
  std::uint64_t shadow_errors = 0;
};

struct OperatorReport {
  std::string name;
  std::string schema;
  std::string summary;
  std::vector<BindingReport> bindings;  // in route order
};

struct ProviderReport {
  std::string name;
  std::string manifest;  // file
  std::string module;    // path of the plugin module, empty when linked in or not found
  int priority = 0;
  std::vector<std::string> libraries;  // real paths found
  std::size_t usable = 0;
  std::size_t rejected = 0;
};

struct ManifestFileReport {
  std::string path;
  std::string state;  // read, rejected, masked by PATH, hidden by PATH
};

struct EnvironmentReport {
  std::string root;
  std::string origin;
};

struct DeviceReport {
  int index = 0;
  std::string name;
  std::string compute_capability;  // "9.0"
};

// A plugin module of this process.
struct ModuleReport {
  std::string path;
  // active; draining, perhaps past its deadline; retired: no route uses it and it stays mapped;
  // unmapped
  std::string state;
  bool unloadable = false;
  std::int64_t calls_inside = 0;  // of an unloadable one
};

// One attempt to change the routes.
struct ChangeReport {
  std::uint64_t generation = 0;    // that calls use since
  std::string trigger;             // open, background, reload, watch, set_routes
  std::string outcome;             // published, unchanged, refused
  std::vector<Rejection> reasons;  // why it was refused
  std::string time;                // when it ended, UTC, ISO 8601 with milliseconds
  double seconds = 0.0;            // from its beginning
  double publish_seconds = 0.0;    // of that, to make and publish the routes
};

struct Report {
  std::string version;  // of opmux
  std::int64_t process_id = 0;
  std::string program;        // path of the process's executable
  std::string report_socket;  // where this report is offered; empty: nowhere
  std::uint64_t generation = 0;
  bool strict = false;
  bool stub_driver = false;
  std::string config_file;    // empty when there is none
  std::string lock_file;      // that nothing may differ from; empty when there is none
  std::string trust;          // "lax" or "strict"
  std::string torch_version;  // full, empty when no torch is used
  std::string torch_path;
  std::string cuda_version;  // that torch was built for
  // The libpython that true Python extensions are loaded with, unless the process holds a Python;
  // empty when no library of the load set is one.
  std::string python_version;  // "3.12"
  std::string python_path;
  std::string driver;  // path of libcuda.so.1, empty when there is none
  int driver_cuda_version = 0;
  std::vector<DeviceReport> devices;
  std::vector<EnvironmentReport> environments;
  std::vector<ManifestFileReport> manifests;
  std::vector<ProviderReport> providers;
  std::vector<OperatorReport> operators;  // sorted by name
  std::vector<Rejection> rejections;      // of manifests, configuration and environments
  std::vector<ModuleReport> modules;      // that this runtime has used, in the order of mapping
  std::vector<ChangeReport> history;      // the latest changes, oldest first
  bool ready = true;                      // false: providers are still being prepared
  int probes = 0;        // processes started; 0 when the findings came from the cache
  double seconds = 0.0;  // from open to ready

  // Null when there is no such operator.
  OPMUX_API const OperatorReport* find(const std::string& operator_name) const;
};

// The JSON form, documented in docs/report.md.
OPMUX_API std::string to_json(const Report& report);

}  // namespace opmux
