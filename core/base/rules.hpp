// SPDX-License-Identifier: Apache-2.0
//
// The rules that opmux checks. Each has a stable id; docs/rules.md is generated from this list
// (`opmux rules
// --markdown`), and a test keeps the two equal.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "opmux/status.hpp"

namespace opmux {

struct Rule {
  const char* id;       // "stage.name", never reused for another meaning
  const char* meaning;  // one sentence: what must hold
  const char* remedy;   // one sentence: what to do when it does not

  // The part of the id before the first dot.
  std::string_view stage() const;
};

namespace rules {
#define OPMUX_RULE(symbol, id, meaning, remedy) inline constexpr Rule symbol{id, meaning, remedy};
#include "core/base/rules.def"
#undef OPMUX_RULE
}  // namespace rules

// All rules, in the order of rules.def.
std::span<const Rule> all_rules();

// Builds a rejection of `rule`; an empty hint is replaced by the rule's remedy.
Rejection reject(const Rule& rule, std::string subject, std::string expected, std::string found,
                 std::string hint = {});

}  // namespace opmux
