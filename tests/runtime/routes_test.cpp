// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/routes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "opmux/plugin.h"

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

TEST_F(RoutesTest, EachDeviceMayHaveItsOrder) {
  RouteRule rule{"*", {}, 1, 1};
  rule.cuda_providers = {"vllm", "native"};
  const RoutePolicy policy(manifests_, {{"*", {"vllm_cpu"}, 1, 1}, rule});
  EXPECT_THAT(policy.order("silu_and_mul", "cuda"), ElementsAre(0, 2, 3));
  EXPECT_THAT(policy.order("silu_and_mul", "cpu"), ElementsAre(1));
  EXPECT_THAT(policy.order("silu_and_mul"), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(policy.routed(), ElementsAre(true, true, true, true));
  EXPECT_THAT(policy.load_order(), ElementsAre(0, 1, 2, 3));
  // Without any order for a device all providers are tried there.
  EXPECT_THAT(RoutePolicy(manifests_, {rule}).order("silu_and_mul", "cpu"),
              ElementsAre(0, 1, 2, 3));
}

TEST_F(RoutesTest, EachSettingIsThatOfTheLastRuleThatHasIt) {
  RouteRule all{"*", {"vllm", "native"}, 1, 1};
  all.strict = true;
  all.quarantine = QuarantineSettings{3, std::chrono::seconds{30}};
  all.shadow = ShadowSettings{0.5, "native"};
  RouteRule norm{"rms_*", {}, 2, 1};
  norm.on_error = OnError::kNext;
  norm.quarantine = QuarantineSettings{};
  norm.require = Properties{OPMUX_PROPERTY_DETERMINISTIC};
  const RoutePolicy policy(manifests_, {all, norm});
  EXPECT_THAT(policy.order("rms_norm"), ElementsAre(0, 2, 3));
  const RouteSettings settings = policy.settings("rms_norm");
  EXPECT_EQ(settings.strict, true);
  EXPECT_EQ(settings.on_error, OnError::kNext);
  EXPECT_EQ(settings.require, Properties{OPMUX_PROPERTY_DETERMINISTIC});
  EXPECT_EQ(settings.quarantine, QuarantineSettings{});
  EXPECT_EQ(settings.shadow, (ShadowSettings{0.5, "native"}));
  EXPECT_EQ(policy.settings("silu_and_mul").quarantine,
            (QuarantineSettings{3, std::chrono::seconds{30}}));
  EXPECT_EQ(RoutePolicy(manifests_, {}).settings("rms_norm"), RouteSettings{});
}

// Field report C13: a route that demands a property leaves out who does not declare it.
TEST_F(RoutesTest, AMissingPropertyIsTold) {
  RouteRule rule{"rms_norm", {}, 1, 1};
  rule.require = Properties{OPMUX_PROPERTY_DETERMINISTIC | OPMUX_PROPERTY_IN_PLACE};
  const RoutePolicy policy(manifests_, {rule});
  EXPECT_FALSE(policy.check_properties(
      "rms_norm", "vllm", "cuda",
      OPMUX_PROPERTY_DETERMINISTIC | OPMUX_PROPERTY_IN_PLACE | OPMUX_PROPERTY_GRAPH_CAPTURE));
  EXPECT_FALSE(policy.check_properties("silu_and_mul", "vllm", "cuda", 0));
  const Check one = policy.check_properties("rms_norm", "vllm", "cuda", OPMUX_PROPERTY_IN_PLACE);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->rule, "registry.property");
  EXPECT_EQ(one->subject, "rms_norm: vllm");
  EXPECT_EQ(one->expected, "a binding that declares deterministic, in_place");
  EXPECT_EQ(one->found, "it declares in_place only");
  EXPECT_EQ(policy.check_properties("rms_norm", "vllm", "cuda", 0)->found, "it declares none");
}

TEST_F(RoutesTest, GraphCaptureIsNotAskedOfTheCpu) {
  RouteRule rule{"*", {}, 1, 1};
  rule.require = Properties{OPMUX_PROPERTY_GRAPH_CAPTURE};
  const RoutePolicy policy(manifests_, {rule});
  EXPECT_FALSE(policy.check_properties("rms_norm", "native", "cpu", 0));
  EXPECT_TRUE(policy.check_properties("rms_norm", "native_cuda", "cuda", 0));
}

TEST_F(RoutesTest, ProvidersOfEverySettingMustBeKnown) {
  RouteRule rule{"*", {}, 4, 3};
  rule.cpu_providers = {"nativ"};
  rule.cuda_providers = {"nativ", "vlm"};
  rule.shadow = ShadowSettings{1.0, "vllm_gpu"};
  const std::vector<Rejection> unknown = RoutePolicy(manifests_, {rule}).unknown_names("f.yaml");
  ASSERT_EQ(unknown.size(), 3u);
  EXPECT_EQ(unknown[0].found, "`nativ`");
  EXPECT_EQ(unknown[1].found, "`vlm`");
  EXPECT_EQ(unknown[2].found, "`vllm_gpu`");
  EXPECT_EQ(unknown[2].subject, "f.yaml:4:3");
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
