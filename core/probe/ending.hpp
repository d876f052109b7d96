// SPDX-License-Identifier: Apache-2.0
//
// From how a probe ended to the rejection of what it was loading. Thread safety: pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/probe/child_process.hpp"
#include "core/probe/messages.hpp"
#include "opmux/status.hpp"

namespace opmux::probing {

struct Ending {
  ChildEnd end;
  std::string fault;    // what could not be understood of the replies, empty when nothing
  std::string limit;    // the limit that the probe itself saw reached, empty when none
  std::string subject;  // path of what was being loaded
  Limits limits;
  std::chrono::milliseconds deadline{0};
};

// Rules probe.signal, probe.exception, probe.exit, probe.deadline, probe.output, probe.protocol and
// probe.limit.
Rejection explain(const Ending& ending);

// The namespace of torch's complaint about a second TORCH_LIBRARY, or about an operator that is
// defined twice.
std::optional<std::string> conflicting_namespace(std::string_view output);
// "registered at ..." of the first definition in such a complaint; empty when it has none.
std::string earlier_registration(std::string_view output);

}  // namespace opmux::probing
