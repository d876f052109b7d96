// SPDX-License-Identifier: Apache-2.0
#include "core/base/properties.hpp"

#include <cstddef>

#include "opmux/plugin.h"

namespace opmux {

static_assert(OPMUX_PROPERTY_DETERMINISTIC == 1U << 0U);
static_assert(OPMUX_PROPERTY_GRAPH_CAPTURE == 1U << 1U);
static_assert(OPMUX_PROPERTY_IN_PLACE == 1U << 2U);

const std::vector<std::string>& property_names() {
  static const std::vector<std::string> names{"deterministic", "graph_capture", "in_place"};
  return names;
}

Properties property_of(std::string_view name) {
  const std::vector<std::string>& names = property_names();
  for (std::size_t bit = 0; bit < names.size(); ++bit)
    if (names[bit] == name) return Properties{1} << bit;
  return 0;
}

Properties properties_of(const std::vector<std::string>& names) {
  Properties properties = 0;
  for (const std::string& name : names) properties |= property_of(name);
  return properties;
}

std::vector<std::string> names_of(Properties properties) {
  std::vector<std::string> found;
  for (const std::string& name : property_names())
    if ((properties & property_of(name)) != 0) found.push_back(name);
  return found;
}

}  // namespace opmux
