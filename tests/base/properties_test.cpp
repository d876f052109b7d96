// SPDX-License-Identifier: Apache-2.0
#include "core/base/properties.hpp"

#include <gtest/gtest.h>

#include "opmux/plugin.h"

namespace opmux {
namespace {

using Names = std::vector<std::string>;

TEST(Properties, NamesAndBitsGoTogether) {
  EXPECT_EQ(property_of("deterministic"), Properties{OPMUX_PROPERTY_DETERMINISTIC});
  EXPECT_EQ(property_of("graph_capture"), Properties{OPMUX_PROPERTY_GRAPH_CAPTURE});
  EXPECT_EQ(property_of("in_place"), Properties{OPMUX_PROPERTY_IN_PLACE});
  EXPECT_EQ(property_of("fast"), Properties{0});
  EXPECT_EQ(names_of(properties_of({"in_place", "deterministic"})),
            (Names{"deterministic", "in_place"}));
}

TEST(Properties, BitsOfALaterVersionHaveNoName) {
  EXPECT_EQ(names_of(OPMUX_PROPERTY_IN_PLACE | 1U << 31U), Names{"in_place"});
}

}  // namespace
}  // namespace opmux
