// SPDX-License-Identifier: Apache-2.0
#include "core/base/environment.hpp"

#include <gmock/gmock.h>

#include "tests/support/environment_guard.hpp"

namespace opmux {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(EnvironmentVariable, ReadsWhatIsSet) {
  testing::EnvironmentGuard guard;
  guard.set("TEST_BASE_NAME", "some value");
  EXPECT_EQ(environment_variable("TEST_BASE_NAME"), "some value");
}

TEST(EnvironmentVariable, UnsetAndEmptyAreAbsent) {
  testing::EnvironmentGuard guard;
  guard.unset("TEST_BASE_NAME");
  EXPECT_EQ(environment_variable("TEST_BASE_NAME"), std::nullopt);
  guard.set("TEST_BASE_NAME", "");
  EXPECT_EQ(environment_variable("TEST_BASE_NAME"), std::nullopt);
}

TEST(EnvironmentVariablesWithPrefix, ComeSortedWithTheirValues) {
  testing::EnvironmentGuard guard;
  guard.set("TEST_BASE_B", "x=y");
  guard.set("TEST_BASE_A", "1");
  guard.set("TEST_BASE_C", "");
  guard.set("NOT_TEST_BASE_D", "2");
  EXPECT_THAT(
      environment_variables_with_prefix("TEST_BASE_"),
      ElementsAre(Pair("TEST_BASE_A", "1"), Pair("TEST_BASE_B", "x=y"), Pair("TEST_BASE_C", "")));
}

TEST(EnvironmentVariablesWithPrefix, PrefixIsOfTheNameNotOfTheEntry) {
  testing::EnvironmentGuard guard;
  guard.set("TEST_BASE_A", "1");
  EXPECT_THAT(environment_variables_with_prefix("TEST_BASE_A="), IsEmpty());
}

}  // namespace
}  // namespace opmux
