// SPDX-License-Identifier: Apache-2.0
//
// What the files that make a plan share. Inside core/runtime only.
#pragma once

#include <cstddef>
#include <string>

#include "core/runtime/plan.hpp"

namespace opmux {

// The plugin module of this name is part of this program.
bool is_linked_in(const std::string& plugin);

// Its plugin module has work to do whatever becomes of the libraries.
bool serves_without_library(const Manifest& manifest);

// Makes the first candidate without a rejection the library.
void choose(LibraryPlan& plan);

StaticCheckContext check_context(const ProviderPlan& provider, const Plan& plan,
                                 const PlanContext& context);

// Looks the functions of direct symbol alternatives up in the libraries that are in use now.
void match_symbols(ProviderPlan& provider, const Plan& plan, const PlanContext& context);

// Rejects candidates in use from which no direct symbol alternative gets its functions, where a
// later candidate is left to try. True when there was one.
bool pass_to_next_candidates(ProviderPlan& provider);

// Some binding may still use the library.
bool is_needed(const ProviderPlan& provider, std::size_t library);

// "flash_attn: fa2", for reports.
std::string label_of(const ProviderPlan& provider, const LibraryPlan& library);

}  // namespace opmux
