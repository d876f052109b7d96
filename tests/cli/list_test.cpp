// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

const std::vector<std::string> kOperators{"awq_marlin_repack",
                                          "dynamic_per_token_scaled_fp8_quant",
                                          "dynamic_scaled_fp8_quant",
                                          "flash_attn_varlen_func",
                                          "flash_attn_with_kvcache",
                                          "flash_attn_with_kvcache.int",
                                          "fused_add_rms_norm",
                                          "gelu_and_mul",
                                          "gelu_tanh_and_mul",
                                          "get_cutlass_moe_mm_data",
                                          "gptq_marlin_repack",
                                          "grouped_topk",
                                          "marlin_gemm",
                                          "merge_attn_states",
                                          "moe_wna16_gemm",
                                          "moe_wna16_marlin_gemm",
                                          "reshape_and_cache",
                                          "reshape_and_cache_flash",
                                          "rms_norm",
                                          "rotary_embedding",
                                          "silu_and_mul",
                                          "static_scaled_fp8_quant",
                                          "topk_sigmoid",
                                          "topk_softmax"};

TEST(List, IsFineWithNothingInstalled) {
  const Outcome outcome = Command{}.run({"list"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("silu_and_mul"));
  EXPECT_THAT(outcome.out, HasSubstr("part of opmux"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\033"))) << "colour without a terminal";
}

TEST(List, DeclaresEveryOperator) {
  const nlohmann::json report = Command{}.run({"list", "--json"}).json();
  std::vector<std::string> names;
  for (const nlohmann::json& each : report.at("operators")) names.push_back(each.at("name"));
  EXPECT_THAT(names, IsSupersetOf(kOperators));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(report.at("rejections").dump(), [&] {
    // Only that there is no environment may be said of a machine without one.
    nlohmann::json allowed = nlohmann::json::array();
    for (const nlohmann::json& each : report.at("rejections"))
      if (each.at("rule") == "discovery.no_environment") allowed.push_back(each);
    return allowed.dump();
  }());
}

TEST(List, NativeServesOnTheCpu) {
  const nlohmann::json report = Command{}.run({"list", "--json"}).json();
  const nlohmann::json native = binding_in(report, "rms_norm", "native");
  EXPECT_EQ(native.at("device"), "cpu");
  EXPECT_EQ(native.at("contract"), "module");
  EXPECT_EQ(native.at("verdict"), "usable");
  EXPECT_TRUE(native.at("library").is_null());
  EXPECT_FALSE(native.contains("rejection"));
  EXPECT_EQ(operator_in(report, "rms_norm").at("bindings").back(), native) << "native is last";
}

TEST(List, RejectionSaysEverything) {
  const nlohmann::json report = Command{}.run({"list", "--json"}).json();
  for (const char* provider : {"vllm", "vllm_cpu"}) {
    const nlohmann::json binding = binding_in(report, "silu_and_mul", provider);
    EXPECT_EQ(binding.at("verdict"), "rejected");
    EXPECT_EQ(binding.at("contract"), "dispatcher");
    EXPECT_TRUE(binding.at("library").is_null());
    ASSERT_TRUE(binding.contains("rejection"));
    for (const char* field : {"stage", "rule", "subject", "expected", "found", "hint"}) {
      ASSERT_TRUE(binding.at("rejection").contains(field)) << field;
      EXPECT_NE(binding.at("rejection").at(field), "") << field;
    }
  }
}

TEST(List, TextTellsASharedRejectionOnce) {
  const Command command;
  const nlohmann::json report = command.run({"list", "--json"}).json();
  std::size_t rejected = 0;
  for (const nlohmann::json& each : report.at("operators"))
    for (const nlohmann::json& binding : each.at("bindings"))
      if (binding.contains("rejection")) ++rejected;
  ASSERT_GT(rejected, 20U);

  const std::string text = command.run({"list"}).out;
  std::size_t told = 0;
  for (std::size_t at = text.find("\n["); at != std::string::npos; at = text.find("\n[", at + 1))
    ++told;
  EXPECT_GE(told, 1U);
  // One for each distribution that is missing, and the search for environments.
  EXPECT_LE(told, 4U) << text;
}

TEST(List, FindingsAreCachedOrNotNeeded) {
  const Command command;
  command.run({"list"});
  EXPECT_EQ(command.run({"list", "--json"}).json().at("probes"), 0);
}

TEST(List, MissingManifestFolderIsWrongUsage) {
  const Outcome outcome = Command{}.run({"list", "--manifests", "/nonexistent/manifests"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("manifest.missing"));
}

TEST(List, BrokenDropInManifestLeavesTheRest) {
  const Command command;
  command.folder().write("drop-in/broken.yaml", "manifest: 1\nprovidr: x\n");
  const Outcome outcome =
      command.run({"list", "--json", "--manifests", (command.folder() / "drop-in").string()});
  EXPECT_EQ(outcome.code, 0);
  const nlohmann::json report = outcome.json();
  EXPECT_EQ(binding_in(report, "silu_and_mul", "native").at("verdict"), "usable");
  bool told = false;
  for (const nlohmann::json& rejection : report.at("rejections"))
    told = told || (rejection.at("rule") == "yaml.unknown_key" &&
                    rejection.at("subject").get<std::string>().find("broken.yaml:2:1") !=
                        std::string::npos);
  EXPECT_TRUE(told) << report.at("rejections").dump(2);
}

TEST(Explain, TellsTheRouteOfOneOperator) {
  const Outcome outcome = Command{}.run({"explain", "silu_and_mul"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("silu_and_mul(Tensor input, Tensor(a!) out) -> ()"));
  EXPECT_THAT(outcome.out, HasSubstr("native on cpu: usable"));
  EXPECT_THAT(outcome.out, HasSubstr("vllm on cuda: rejected"));
}

TEST(Explain, JsonHoldsThatOperatorOnly) {
  const nlohmann::json report = Command{}.run({"explain", "rms_norm", "--json"}).json();
  ASSERT_EQ(report.at("operators").size(), 1U);
  EXPECT_EQ(report.at("operators")[0].at("name"), "rms_norm");
}

TEST(Explain, SaysThatThereIsNoNativeKernel) {
  const Outcome outcome = Command{}.run({"explain", "marlin_gemm"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("no native kernel"));
}

TEST(Explain, UnknownOperatorNamesTheNearest) {
  const Outcome outcome = Command{}.run({"explain", "silu_and_mull"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean `silu_and_mul`?"));
}

TEST(Doctor, NothingInstalledIsNoProblem) {
  const Outcome outcome = Command{}.run({"doctor", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(outcome.json().at("problems"), 0);
}

TEST(Doctor, BrokenManifestIsAProblem) {
  const Command command;
  command.folder().write("drop-in/broken.yaml", "manifest: 2\n");
  const Outcome outcome =
      command.run({"doctor", "--manifests", (command.folder() / "drop-in").string()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("manifest.version"));
}

class DoctorOfADropIn : public ::testing::Test {
 protected:
  DoctorOfADropIn() {
    command_.folder().write("drop-in/acme/acme.yaml",
                            "manifest: 1\nprovider: acme\nplugin: acme\noperators:\n"
                            "  silu_and_mul: {module: silu_and_mul, when: {device: cpu}}\n");
  }
  nlohmann::json finding() const {
    const Outcome outcome =
        command_.run({"doctor", "--json", "--manifests", (command_.folder() / "drop-in").string()});
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    const nlohmann::json json = outcome.json();
    for (const nlohmann::json& each : json.at("findings"))
      if (each.at("subject") == "provider acme") return each;
    throw std::runtime_error("doctor says nothing of acme");
  }

  Command command_;
};

TEST_F(DoctorOfADropIn, AMissingModuleIsAProblemThatSaysWhereItBelongs) {
  const nlohmann::json found = finding();
  EXPECT_EQ(found.at("state"), "problem");
  EXPECT_THAT(found.at("text").get<std::string>(), HasSubstr("discovery.module_missing"));
  const std::string advice = found.at("advice");
  EXPECT_THAT(advice, HasSubstr("put opmux_acme.so beside its manifest, in " +
                                (command_.folder() / "drop-in/acme").string()));
  EXPECT_THAT(advice, Not(HasSubstr("./dev")));
}

TEST_F(DoctorOfADropIn, AnEmptyModuleIsAProblemThatNamesTheFile) {
  const auto module = command_.folder().write("drop-in/acme/opmux_acme.so", "");
  const nlohmann::json found = finding();
  EXPECT_EQ(found.at("state"), "problem");
  EXPECT_THAT(found.at("text").get<std::string>(),
              HasSubstr("contract.not_elf: " + module.string()));
}

TEST(Doctor, ProviderThatARouteNamesMustServe) {
  const Command command;
  const auto file = command.folder().write(
      "opmux.yaml", "config: 1\nroutes:\n  \"silu_and_mul\": [vllm_cpu, native]\n");
  const Outcome outcome = command.run({"doctor", "--json", "--config", file.string()});
  EXPECT_EQ(outcome.code, 1);
  bool told = false;
  const nlohmann::json json = outcome.json();
  for (const nlohmann::json& finding : json.at("findings"))
    told =
        told || (finding.at("subject") == "provider vllm_cpu" && finding.at("state") == "problem");
  EXPECT_TRUE(told) << outcome.out;
}

TEST(Demo, EveryNativeCallIsRight) {
  const Outcome outcome = Command{}.run({"demo", "--json"});
  const nlohmann::json report = outcome.json();
  std::set<std::string> tried;
  for (const nlohmann::json& call : report.at("calls")) {
    EXPECT_TRUE(call.at("passed")) << call.dump();
    tried.insert(call.at("operator"));
  }
  EXPECT_EQ(tried.size(), 14U);
  EXPECT_EQ(outcome.code, 0);
}

}  // namespace
}  // namespace opmux::testing
