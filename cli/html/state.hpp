// SPDX-License-Identifier: Apache-2.0
//
// What a page says about one binding. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "opmux/report.hpp"

namespace opmux::cli {

enum class BindingState {
  kCallable,   // mapped in the process that made the report
  kUsable,     // every check passed; not mapped there
  kStub,       // the same, but for a driver that is not there
  kNotRouted,  // the route leaves it out, usable or not looked for
  kRejected,
};

BindingState state_of(const BindingReport& binding);

// "callable"; also the name of its style.
std::string_view word_for(BindingState state);
// In a sentence, for the legend.
std::string_view meaning_of(BindingState state);

// The place of `binding`, one of the operator's, among those that a call on its device tries, from
// 1; 0 where none tries it.
std::size_t route_place(const OperatorReport& report, const BindingReport& binding);

}  // namespace opmux::cli
