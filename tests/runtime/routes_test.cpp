// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/routes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opmux {
namespace {

using ::testing::ElementsAre;

class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() {
    for (const char* name : {"flash_attn_varlen_func", "rms_norm", "silu_and_mul"}) {
      OperatorDeclaration declaration;
      declaration.name = name;
      manifests_.declarations.push_back(declaration);
    }
    for (const char* name : {"vllm", "vllm_cpu", "native", "native_cuda"}) {
      Manifest manifest;
      manifest.provider = name;
      manifests_.providers.push_back(manifest);
    }
  }

  ManifestSet manifests_;
};

TEST_F(RoutesTest, WithoutARuleAllProvidersAreTriedInTheirOrder) {
  EXPECT_THAT(RoutePolicy(manifests_, {}).order("silu_and_mul"), ElementsAre(0, 1, 2, 3));
}

TEST_F(RoutesTest, NativeStandsForBothNativeProviders) {
  EXPECT_THAT(RoutePolicy(manifests_, {{"*", {"native", "vllm"}, 1, 1}}).order("silu_and_mul"),
              ElementsAre(2, 3, 0));
}

TEST_F(RoutesTest, TheLastMatchingRuleWins) {
  const RoutePolicy policy(manifests_,
                           {{"*", {"vllm", "native"}, 1, 1}, {"silu_*", {"vllm_cpu"}, 2, 1}});
  EXPECT_THAT(policy.order("silu_and_mul"), ElementsAre(1));
  EXPECT_THAT(policy.order("rms_norm"), ElementsAre(0, 2, 3));
}

TEST_F(RoutesTest, ProvidersLoadByTheirBestPlaceInAnyRoute) {
  const RoutePolicy policy(
      manifests_, {{"*", {"vllm", "vllm_cpu"}, 1, 1}, {"rms_norm", {"vllm_cpu", "vllm"}, 2, 1}});
  EXPECT_THAT(policy.load_order(), ElementsAre(0, 1));
  EXPECT_THAT(policy.routed(), ElementsAre(true, true, false, false));
  const RoutePolicy cpu_first(manifests_, {{"*", {"vllm_cpu", "vllm"}, 1, 1}});
  EXPECT_THAT(cpu_first.load_order(), ElementsAre(1, 0));
}

// Else it would be taken for loaded, and be told to lack what nobody has looked for.
TEST_F(RoutesTest, ProviderWhoseOperatorsAreRoutedToOthersIsNotRouted) {
  OperatorBinding binding;
  binding.operator_name = "rms_norm";
  manifests_.providers[1].operators.push_back(binding);
  const RoutePolicy policy(manifests_, {{"rms_norm", {"vllm", "native"}, 1, 1}});
  EXPECT_THAT(policy.routed(), ElementsAre(true, false, true, true));
  EXPECT_THAT(policy.load_order(), ElementsAre(0, 2, 3));
}

TEST_F(RoutesTest, NamesThatMeanNothingAreToldWithTheirPositionAndTheNearest) {
  const RoutePolicy policy(manifests_, {{"silu_and_mull", {"vlm"}, 7, 3}});
  const std::vector<Rejection> unknown = policy.unknown_names("/etc/opmux.yaml");
  ASSERT_EQ(unknown.size(), 2u);
  EXPECT_EQ(unknown[0].rule, "config.unknown_operator");
  EXPECT_EQ(unknown[0].subject, "/etc/opmux.yaml:7:3");
  EXPECT_EQ(unknown[0].hint, "Did you mean `silu_and_mul`?");
  EXPECT_EQ(unknown[1].rule, "config.unknown_provider");
  EXPECT_EQ(unknown[1].hint, "Did you mean `vllm`?");
}

}  // namespace
}  // namespace opmux
