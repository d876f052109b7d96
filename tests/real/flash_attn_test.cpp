// SPDX-License-Identifier: Apache-2.0
//
// FlashAttention's real library on a machine that need not have a GPU: found by distribution and
// glob, its symbols matched, mapped in the probe and bound, with a stub driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/discovery/discovery.hpp"
#include "tests/cli/command.hpp"
#include "tests/support/flash_attn_wheel.hpp"
#include "tests/support/providers.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::vector<std::string> kOperators{"flash_attn_varlen_func", "flash_attn_with_kvcache",
                                          "flash_attn_with_kvcache.int"};

class RealFlashAttn : public ::testing::Test {
 protected:
  void SetUp() override {
    OPMUX_REQUIRE_FLASH_ATTN();
    OPMUX_REQUIRE_PROVIDERS();
    site_ = folder_ / "site-packages";
    ASSERT_EQ(unpack_wheel(flash_attn_wheel(), site_), "");
    for (const fs::directory_entry& entry : fs::directory_iterator(site_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("flash_attn_2_cuda")) library_ = entry.path();
      if (name.ends_with(".dist-info")) metadata_ = entry.path();
    }
    ASSERT_FALSE(library_.empty());
    ASSERT_FALSE(metadata_.empty());
    // Built for one Python, as torch is.
    const Result<TorchInstallation> torch =
        find_torch({}, find_environments({torch_environment()}, "test").environments);
    ASSERT_TRUE(torch.ok()) << to_string(torch.rejection());
    fits_torch_ = torch->python == extension_python_version(library_);
    torch_python_ = torch->python;
  }

  // Ends the test where the wheel and torch are of different Pythons.
  std::string why_not() const {
    return fits_torch_ ? std::string()
                       : "TEST_OPMUX_TORCH holds a torch for Python " + torch_python_ +
                             ", the wheel is for " + extension_python_version(library_);
  }

  // Of the three attention providers and `more` manifests.
  nlohmann::json report(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"validate", "--stub-driver", "--json"};
    for (const std::filesystem::path& environment :
         {site_, torch_environment(), provider_folder("vllm-0.20.2")})
      arguments.insert(arguments.end(), {"--environment", environment.string()});
    for (const char* provider : {"flash_attn", "vllm_fa2", "vllm_fa3"})
      arguments.push_back(OPMUX_SOURCE_DIR "/manifests/providers/" + std::string(provider) +
                          ".yaml");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command_.run(arguments).json();
  }

  TemporaryFolder folder_;
  fs::path site_;
  fs::path library_;
  fs::path metadata_;
  bool fits_torch_ = false;
  std::string torch_python_;
  Command command_;
};

#define REQUIRE_FITTING_TORCH() \
  if (!fits_torch_) GTEST_SKIP() << why_not()

TEST_F(RealFlashAttn, WithATorchForAnotherPythonItIsRefusedBeforeItIsMapped) {
  if (fits_torch_) GTEST_SKIP() << "the wheel and torch are of one Python";
  const nlohmann::json rejection =
      binding_in(report(), kOperators.front(), "flash_attn").at("rejection");
  EXPECT_EQ(rejection.at("rule"), "contract.python_mismatch");
  EXPECT_THAT(rejection.at("found").get<std::string>(), HasSubstr("Python " + torch_python_));
}

TEST_F(RealFlashAttn, IsFoundMatchedMappedAndBoundWithAStubDriver) {
  REQUIRE_FITTING_TORCH();
  const nlohmann::json found = report();
  for (const std::string& name : kOperators) {
    const nlohmann::json binding = binding_in(found, name, "flash_attn");
    EXPECT_EQ(binding.at("verdict"), "usable") << binding.dump(1);
    EXPECT_EQ(binding.at("contract"), "direct_symbol");
    EXPECT_EQ(binding.at("library"), library_.string());
    EXPECT_THAT(binding.at("distribution").get<std::string>(), HasSubstr("flash-attn "));
    EXPECT_TRUE(binding.at("stub_driver").get<bool>());
    EXPECT_FALSE(binding.at("callable").get<bool>());
  }
  EXPECT_THAT(found.at("python").at("path").get<std::string>(), HasSubstr("/libpython3."));
}

TEST_F(RealFlashAttn, VllmsBuildsServeTheSameOperators) {
  const nlohmann::json found = report();
  for (const char* provider : {"vllm_fa2", "vllm_fa3"}) {
    for (const char* name : {"flash_attn_varlen_func", "flash_attn_with_kvcache"}) {
      const nlohmann::json binding = binding_in(found, name, provider);
      EXPECT_EQ(binding.at("verdict"), "usable") << binding.dump(1);
      EXPECT_EQ(binding.at("contract"), "dispatcher");
    }
  }
}

TEST_F(RealFlashAttn, RemovedTheNextProviderIsUsable) {
  fs::remove(library_);
  const nlohmann::json found = report();
  for (const std::string& name : kOperators) {
    const nlohmann::json binding = binding_in(found, name, "flash_attn");
    EXPECT_EQ(binding.at("verdict"), "rejected");
    EXPECT_EQ(binding.at("rejection").at("rule"), "discovery.no_match");
  }
  EXPECT_EQ(binding_in(found, "flash_attn_varlen_func", "vllm_fa2").at("verdict"), "usable");
}

TEST_F(RealFlashAttn, TwoOfThemAreNamed) {
  const fs::path second = site_ / ("flash_attn_2_cuda_old" + library_.extension().string());
  fs::copy_file(library_, second);
  std::ofstream(metadata_ / "RECORD", std::ios::app) << second.filename().string() << ",,\n";
  const nlohmann::json binding = binding_in(report(), kOperators.front(), "flash_attn");
  EXPECT_EQ(binding.at("rejection").at("rule"), "discovery.many_matches");
  EXPECT_THAT(
      binding.at("rejection").at("found").get<std::string>(),
      AllOf(HasSubstr(library_.filename().string()), HasSubstr(second.filename().string())));
}

TEST_F(RealFlashAttn, TwoProvidersOfItsSymbolsAreAConflict) {
  REQUIRE_FITTING_TORCH();
  // The same file as a drop-in of lower priority.
  const fs::path folder = folder_ / "drop-in";
  fs::create_directories(folder);
  const fs::path second = folder / ("copy" + library_.filename().string());
  fs::copy_file(library_, second);
  std::ifstream shipped(OPMUX_SOURCE_DIR "/manifests/providers/flash_attn.yaml");
  std::string manifest((std::istreambuf_iterator<char>(shipped)), std::istreambuf_iterator<char>());
  const auto replace = [&](const std::string& what, const std::string& with) {
    ASSERT_NE(manifest.find(what), std::string::npos) << what;
    manifest.replace(manifest.find(what), what.size(), with);
  };
  replace("provider: flash_attn", "provider: another");
  replace("priority: 60", "priority: 1");
  replace("distribution: flash-attn, glob: \"flash_attn_2_cuda*.so\"", "glob: \"copy*.so\"");
  std::ofstream(folder / "another.yaml") << manifest;
  const nlohmann::json found = report({(folder / "another.yaml").string()});
  const nlohmann::json loser = binding_in(found, kOperators.front(), "another");
  EXPECT_EQ(loser.at("rejection").at("rule"), "contract.symbol_twice") << loser.dump(1);
  EXPECT_THAT(loser.at("rejection").at("expected").get<std::string>(),
              HasSubstr(library_.string()));
  EXPECT_THAT(loser.at("rejection").at("found").get<std::string>(), HasSubstr(second.string()));
  EXPECT_EQ(binding_in(found, kOperators.front(), "flash_attn").at("verdict"), "usable");
}

TEST_F(RealFlashAttn, CutAnywhereItIsRefusedBeforeItIsMapped) {
  REQUIRE_FITTING_TORCH();
  const auto size = static_cast<double>(fs::file_size(library_));
  for (const double share : {0.999, 0.5, 0.01}) {
    fs::resize_file(library_, static_cast<std::uintmax_t>(size * share));
    const nlohmann::json binding = binding_in(report(), kOperators.front(), "flash_attn");
    EXPECT_EQ(binding.at("rejection").at("rule"), "contract.truncated") << share;
  }
}

}  // namespace
}  // namespace opmux::testing
