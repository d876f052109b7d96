// SPDX-License-Identifier: Apache-2.0
//
// What a binding guarantees beyond its operator's schema: a closed set, declared by manifests and
// module tables and asked for by routes. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opmux {

// A set of OPMUX_PROPERTY_... bits (opmux/plugin.h).
using Properties = std::uint32_t;

// "deterministic", "graph_capture", "in_place": every name, in the order of the bits.
const std::vector<std::string>& property_names();
// 0 for a name that is none of them.
Properties property_of(std::string_view name);
Properties properties_of(const std::vector<std::string>& names);
// The names of a set, in the order of the bits; bits without a name are left out.
std::vector<std::string> names_of(Properties properties);

}  // namespace opmux
