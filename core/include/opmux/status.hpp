// SPDX-License-Identifier: Apache-2.0
//
// The outcome of an operation, and the one form in which every stage of opmux says why something
// cannot serve. Thread safety: values; distinct objects may be used from distinct threads.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "opmux/export.h"

namespace opmux {

// Why a manifest, library, binding or call was refused. The same object is printed by the command,
// the JSON report and the log. `rule` is an id listed in docs/rules.md.
struct Rejection {
  std::string stage;     // manifest, config, discovery, contract, loader, probe, registry, call
  std::string rule;      // e.g. "contract.schema_mismatch"
  std::string subject;   // file:line:column, path, ELF field, symbol or operator
  std::string expected;  // what the contract asks for
  std::string found;     // what is there
  std::string hint;      // the next step
};

// "subject: expected ..., found ... [rule]; hint" on one line.
OPMUX_API std::string to_string(const Rejection& rejection);

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,  // the caller's input is wrong for every provider
  kNotFound,         // no such operator, file or provider
  kUnsupported,      // no usable binding takes this call
  kFailed,           // a provider failed; outputs are untouched
  kFailedInFlight,   // a provider failed after work was launched; outputs may be half written
  kInternal,
};

// Success costs one null pointer; the text of an error is allocated only when there is one.
class [[nodiscard]] OPMUX_API Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message);
  explicit Status(Rejection rejection);
  Status(StatusCode code, std::string message, Rejection rejection);
  // kInternal, "out of memory"; needs none.
  static Status out_of_memory() noexcept;
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const noexcept { return detail_ == nullptr; }
  StatusCode code() const noexcept;
  // Empty when ok.
  const std::string& message() const noexcept;
  // The stored rejection behind this error, null when there is none.
  const Rejection* rejection() const noexcept;

 private:
  struct Detail;
  struct Deleter {
    void operator()(Detail* detail) const noexcept;
  };
  static Detail& no_memory() noexcept;
  static Detail* copy_of(const Status& other);
  std::unique_ptr<Detail, Deleter> detail_;
};

}  // namespace opmux
