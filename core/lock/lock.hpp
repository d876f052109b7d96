// SPDX-License-Identifier: Apache-2.0
//
// opmux.lock: what a deployment was checked with, and how another machine or another day differs.
// docs/deployment.md says how it is used. No path of a machine is in it: a lock made where an image
// is built holds where the image runs. Thread safety: values and pure functions but for reading and
// writing files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace opmux::lock {

// A larger file is refused; the lock of a thousand bindings is a third of it.
inline constexpr std::size_t kFileCap = std::size_t{4} * 1024 * 1024;

// A library or plugin module.
struct File {
  std::string role;     // library or module
  std::string origin;   // distribution; manifest: its folder; installation: opmux's modules; cache
  std::string name;     // of the distribution, or of the provider whose manifest it lies beside
  std::string version;  // of the distribution
  std::string path;     // inside its origin
  std::uint64_t size = 0;
  std::string sha256;
  // Facts of its bytes, which the hash fixes; for people.
  std::string machine;
  std::string python;     // "3.12" of a Python extension whose name tells
  std::string glibc;      // newest version needed, "2.34"
  std::string libstdcxx;  // newest GLIBCXX needed, "3.4.29"

  bool operator==(const File&) const = default;
};
// "distribution vllm: vllm/_C.abi3.so"; bindings refer to files by it.
std::string label_of(const File& file);

struct Contract {
  std::string kind;                  // dispatcher, direct_symbol or module
  std::string schema, dispatch_key;  // dispatcher
  std::vector<std::string> symbols;  // direct_symbol
  std::string operator_name;         // module

  bool operator==(const Contract&) const = default;
};

// A usable binding of a route.
struct Binding {
  std::string operator_name, device, provider;
  std::uint64_t place = 0;  // in the route of its operator and device, from 0
  std::string library;      // label of a file; empty for what a module brings itself
  std::string module;       // label of a file; empty: linked in
  Contract contract;

  bool operator==(const Binding&) const = default;
};
// "silu_and_mul on cuda by vllm"
std::string label_of(const Binding& binding);

struct Torch {
  std::string version;  // full, "2.11.0+cu130"
  std::string cuda;     // that it was built for; empty: none
  std::string python;
  std::uint64_t size = 0;  // of libtorch_cpu.so
  std::string sha256;

  bool operator==(const Torch&) const = default;
};

struct Driver {
  std::string floor;  // least CUDA version that the driver must support; empty: no driver is needed
  bool stub = false;  // the verdicts came from a stub driver
  std::string seen;   // CUDA version of the driver that was there, for people; empty: none

  bool operator==(const Driver&) const = default;
};

struct ManifestFile {
  std::string path;  // inside its folder, as masks name it
  std::string sha256;

  bool operator==(const ManifestFile&) const = default;
};

struct Route {
  std::string pattern;
  std::vector<std::string> providers;

  bool operator==(const Route&) const = default;
};

struct Lock {
  std::string opmux;  // version
  std::string machine;
  std::optional<Torch> torch;
  Driver driver;
  std::vector<Route> routes;  // as configured, in ascending precedence
  std::vector<ManifestFile> manifests;
  std::vector<File> files;
  std::vector<Binding> bindings;

  bool operator==(const Lock&) const = default;
};

// In the one order in which locks are written: everything by name, routes as they are.
void sort(Lock& lock);

// The text of a lock's file; rule lock.unwritable for a name that is no UTF-8.
Result<std::string> to_text(const Lock& lock);
// Rule lock.form, with the place in the text.
Result<Lock> parse(std::string_view text, const std::filesystem::path& file);

// Rules lock.missing, lock.unreadable, lock.form.
Result<Lock> read(const std::filesystem::path& file);
// A complete file or none. Rule lock.unwritable.
Check write(const Lock& lock, const std::filesystem::path& file);

// What can be compared.
enum class Scope {
  kInputs,  // before anything is loaded: opmux, machine, torch, routes, manifests, files
  kAll,     // after the verdicts: the driver's version and the bindings, too
};

// What the machine has to say beside its own lock.
struct Circumstances {
  bool has_driver = true;  // a real one or a stub
  // Why a binding (by its label) is not usable, in words.
  std::map<std::string, std::string> refusals;
};

// What differs on this machine now, one rejection per drift; empty: nothing. What follows from a
// missing driver alone is not told beside it.
std::vector<Rejection> compare(const Lock& locked, const Lock& current, Scope scope,
                               const Circumstances& circumstances = {});

}  // namespace opmux::lock
