// SPDX-License-Identifier: Apache-2.0
//
// What the two sides of the probe say to each other, and findings as the cache stores them, as
// JSON. Readers accept exactly what the writers write and say what is wrong with anything else.
// Texts are bytes, since paths are: a byte is stored as the code point of its value. Thread safety:
// pure functions of their inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/contract/contract.hpp"
#include "core/probe/probe.hpp"
#include "opmux/status.hpp"

namespace opmux::probing {

// Changes with every change of a message.
inline constexpr int kProtocolVersion = 2;
// The exit status by which opmux-probe says that its descriptor was taken away.
inline constexpr int kProtocolLostExit = 113;
// The version that both sides must have in common.
const char* opmux_version();

struct Limits {
  std::uint64_t memory_bytes = 0;  // writable private memory; 0: none
  std::uint64_t cpu_seconds = 0;
  std::uint64_t open_files = 0;
  std::uint64_t file_bytes = 0;  // of one file that is written
};

struct Request {
  std::int64_t parent = 0;  // process id
  Limits limits;
  std::filesystem::path driver;        // empty: none
  bool query_driver = false;           // false for a stub
  std::filesystem::path torch_folder;  // of libtorch; empty: none
  std::string torch_version;
  bool torch_with_cuda = false;
  std::optional<PythonLibrary> python;
  std::vector<std::filesystem::path> modules;
  struct Library {
    std::filesystem::path path;
    bool python_extension = false;
  };
  std::vector<Library> libraries;
  std::vector<ProbeBinding> bindings;  // indexes into this request's modules and libraries
};

// One thing that the probe maps, or a binding that it asks a module for; in this order.
struct Step {
  enum class What { kDriver, kTorch, kPython, kModule, kLibrary, kBinding };
  What what = What::kDriver;
  std::size_t index = 0;

  bool operator==(const Step&) const = default;
};

struct Reply {
  enum class Kind {
    kHello,          // protocol, version
    kLoading,        // step: begins
    kLoaded,         // step: is over, with a rejection or not; module
    kRefused,        // step: a module that failed after its handshake, rejection
    kRegistrations,  // registrations: new or changed ones
    kDevices,        // cuda_driver_version, devices
    kLimit,          // step: reached the limit that `text` names
    kDone
  };
  Kind kind = Kind::kDone;
  int protocol = 0;
  std::string text{};  // hello: version; limit: its name
  Step step{};
  std::optional<Rejection> rejection{};
  std::optional<ModuleFinding> module{};
  std::vector<Registration> registrations{};
  int cuda_driver_version = 0;
  std::vector<DeviceFinding> devices{};
};

// A binding as a request says it.
std::string binding_text(const ProbeBinding& binding);
std::string to_json(const Request& request);
std::string to_json(const Reply& reply);
// What a library's file held when it was probed; parallel to modules, then libraries.
using Digests = std::vector<std::string>;
std::string to_json(const Findings& findings, const Digests& digests);

// On failure nothing, and `fault` says why.
std::optional<Request> parse_request(std::string_view json, std::string& fault);
std::optional<Reply> parse_reply(std::string_view json, std::string& fault);
std::optional<Findings> parse_findings(std::string_view json, Digests& digests, std::string& fault);

}  // namespace opmux::probing
