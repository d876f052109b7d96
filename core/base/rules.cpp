// SPDX-License-Identifier: Apache-2.0
#include "core/base/rules.hpp"

#include <array>
#include <utility>

namespace opmux {
namespace {

constexpr auto kAllRules = std::to_array<Rule>({
#define OPMUX_RULE(symbol, id, meaning, remedy) rules::symbol,
#include "core/base/rules.def"
#undef OPMUX_RULE
});

}  // namespace

std::string_view Rule::stage() const {
  const std::string_view whole{id};
  return whole.substr(0, whole.find('.'));
}

std::span<const Rule> all_rules() { return kAllRules; }

Rejection reject(const Rule& rule, std::string subject, std::string expected, std::string found,
                 std::string hint) {
  return Rejection{std::string{rule.stage()}, rule.id,
                   std::move(subject),        std::move(expected),
                   std::move(found),          hint.empty() ? rule.remedy : std::move(hint)};
}

}  // namespace opmux
