// SPDX-License-Identifier: Apache-2.0
//
// FlashAttention's own library and vLLM's two builds behind the same operators: every case of the
// table through every provider, and by the route. Environment variables:
//   TEST_OPMUX_GPU_ENVIRONMENTS  environments that hold torch and vllm, separated by colons
//   TEST_OPMUX_FLASH_ATTN_WHEEL  a built wheel of flash-attn; without it the cases of flash_attn
//                                skip
#include "tests/gpu/attention_suite.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include "core/base/text.hpp"
#include "core/compare/floats.hpp"
#include "tests/gpu/attention_case.hpp"
#include "tests/gpu/attention_check.hpp"
#include "tests/gpu/device_call.hpp"
#include "tests/support/flash_attn_wheel.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux::gpu {
namespace {

struct Trial {
  AttentionCase each;
  std::string provider;  // empty: by the route
};

void PrintTo(const Trial& trial, std::ostream* out) {
  *out << trial.each.name << " " << (trial.provider.empty() ? "route" : trial.provider);
}

// The wheel as an installer lays it out, unpacked once; empty without one.
std::string flash_attn_folder() {
  static const testing::TemporaryFolder folder;
  static const std::string unpacked = [] {
    if (testing::flash_attn_wheel().empty()) return std::string();
    const std::filesystem::path site_packages = folder / "site-packages";
    const std::string fault = testing::unpack_wheel(testing::flash_attn_wheel(), site_packages);
    if (!fault.empty()) std::fprintf(stderr, "%s\n", fault.c_str());
    return fault.empty() ? site_packages.string() : std::string();
  }();
  return unpacked;
}

std::vector<std::string> route() {
  return suite_options().route.empty()
             ? std::vector<std::string>{"vllm_fa3", "flash_attn", "vllm_fa2"}
             : suite_options().route;
}

double element(const cli::HostTensor& tensor, std::size_t index) {
  return load(tensor.bytes.data() + index * size_of(tensor.dtype), tensor.dtype);
}

Options common_options() {
  Options options;
  const char* environments = ::getenv("TEST_OPMUX_GPU_ENVIRONMENTS");
  for (const std::string& folder : split(environments == nullptr ? "" : environments, ':'))
    options.environments.emplace_back(folder);
  if (!flash_attn_folder().empty()) options.environments.emplace_back(flash_attn_folder());
  return options;
}

// One runtime for all cases: a Dispatcher library stays for a process's life.
StatusOr<Runtime>& runtime() {
  static StatusOr<Runtime> opened = [] {
    Options options = common_options();
    options.routes = {{"flash_attn_*", route()}};
    return Runtime::open(options);
  }();
  return opened;
}

const AttentionCall& call_of(const AttentionCase& each) {
  static std::map<std::string, AttentionCall> calls;
  const auto found = calls.find(each.name);
  return found != calls.end() ? found->second
                              : calls.emplace(each.name, make_call(each)).first->second;
}

class GpuAttentionTest : public ::testing::TestWithParam<Trial> {
 protected:
  void SetUp() override {
    const std::string missing = missing_device();
    if (!missing.empty())
      GTEST_SKIP() << missing << "; run on a machine with a GPU, see docs/measurements.md";
    ASSERT_NE(::getenv("TEST_OPMUX_GPU_ENVIRONMENTS"), nullptr)
        << "TEST_OPMUX_GPU_ENVIRONMENTS names no environment with torch and vllm";
    if (flash_attn_folder().empty() && GetParam().provider == "flash_attn")
      GTEST_SKIP() << "TEST_OPMUX_FLASH_ATTN_WHEEL names no wheel";
    ASSERT_TRUE(runtime().ok()) << runtime().status().message();
    call_ = &call_of(GetParam().each);
    StatusOr<BoxedOperator> found = runtime()->boxed(call_->operator_name);
    ASSERT_TRUE(found.ok()) << found.status().message();
    target_.emplace(*found);
  }

  StatusOr<cli::ExampleCall> run(const std::string& provider) const {
    static void* const stream = new_stream();
    return call_with_late_inputs(*target_, provider, call_->inputs, stream, stream);
  }

  void expect_right(const cli::ExampleCall& outputs, const std::string& provider) const {
    const AttentionCheck check = check_attention(*call_, outputs);
    EXPECT_EQ(check.fault, "");
    std::printf("%s %s: max error %.3g\n", GetParam().each.name.c_str(), provider.c_str(),
                check.max_error);
  }

  const AttentionCall* call_ = nullptr;
  std::optional<BoxedOperator> target_;
};

TEST_P(GpuAttentionTest, GivesTheRightNumbersOrRefusesForItsReason) {
  const Trial& trial = GetParam();
  StatusOr<cli::ExampleCall> outputs = run(trial.provider);
  const std::string refusal = expected_refusal(trial.each, trial.provider);
  if (!refusal.empty()) {
    ASSERT_FALSE(outputs.ok()) << "served, but must refuse: " << refusal;
    EXPECT_EQ(outputs.status().code(), StatusCode::kUnsupported);
    EXPECT_NE(outputs.status().message().find(refusal), std::string::npos)
        << "expected: " << refusal << ", found: " << outputs.status().message();
    return;
  }
  if (!outputs.ok() && trial.provider == "flash_attn" && may_be_built_without(trial.each)) {
    EXPECT_EQ(outputs.status().code(), StatusCode::kUnsupported);
    EXPECT_NE(outputs.status().message().find("This flash attention build does not support"),
              std::string::npos)
        << outputs.status().message();
    return;
  }
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  expect_right(*outputs, trial.provider);
}

// The same call under three configurations, one after the other in one process.
class GpuAttentionSwapTest : public GpuAttentionTest {};

TEST_P(GpuAttentionSwapTest, ResultsStayWithinTheToleranceWhenTheConfigurationChanges) {
  const Tolerance tolerance = attention_tolerance(call_->operator_name);
  const testing::TemporaryFolder folder;
  std::optional<cli::HostTensor> first;
  for (const std::string& provider : route()) {
    if (provider == "flash_attn" && flash_attn_folder().empty()) continue;
    Options options = common_options();
    options.config_file =
        folder.write(provider + ".yaml",
                     "config: 1\nstrict: true\nroutes: {\"flash_attn_*\": [" + provider + "]}\n");
    StatusOr<Runtime> configured = Runtime::open(options);
    ASSERT_TRUE(configured.ok()) << configured.status().message();
    StatusOr<BoxedOperator> found = configured->boxed(call_->operator_name);
    ASSERT_TRUE(found.ok()) << found.status().message();
    target_.emplace(*found);
    StatusOr<cli::ExampleCall> outputs = run("");
    ASSERT_TRUE(outputs.ok()) << provider << ": " << outputs.status().message();
    EXPECT_EQ(target_->last_provider(), provider);
    expect_right(*outputs, provider);
    const auto& out = std::get<cli::HostTensor>(outputs->arguments[call_->out]);
    if (!first) first = out;
    double most = 0.0;
    for (std::size_t at = 0; at < call_->expected_out.size(); ++at) {
      const double difference = std::abs(element(out, at) - element(*first, at));
      most = std::fmax(most, difference);
      EXPECT_LE(difference,
                tolerance.absolute + tolerance.ulps * ulp_at(element(*first, at), out.dtype))
          << provider << " differs from " << route().front() << " at " << at;
    }
    std::printf("%s: %s differs from %s by at most %.3g\n", GetParam().each.name.c_str(),
                provider.c_str(), route().front().c_str(), most);
  }
}

class GpuAttentionRouteTest : public GpuAttentionTest {};

TEST_P(GpuAttentionRouteTest, TheFirstProviderThatTakesACallServesIt) {
  const AttentionCase& each = GetParam().each;
  std::string expected;
  for (const std::string& provider : route()) {
    if (provider == "flash_attn" && (flash_attn_folder().empty() || may_be_built_without(each)))
      GTEST_SKIP() << "not known whether flash_attn takes it";
    if (expected_refusal(each, provider).empty()) {
      expected = provider;
      break;
    }
  }
  StatusOr<cli::ExampleCall> outputs = run("");
  if (expected.empty()) {
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status().code(), StatusCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(target_->last_provider(), expected);
  expect_right(*outputs, expected);
}

std::vector<Trial> trials(const std::vector<std::string>& providers) {
  std::vector<Trial> result;
  for (const AttentionCase& each : attention_cases())
    for (const std::string& provider : providers) result.push_back({each, provider});
  return result;
}

std::string name_of(const ::testing::TestParamInfo<Trial>& info) {
  return info.param.each.name + (info.param.provider.empty() ? "" : "_" + info.param.provider);
}

// Cases that all three providers take, whatever FlashAttention's build was made without.
std::vector<Trial> shared_trials() {
  std::vector<Trial> shared;
  for (const Trial& trial : trials({""})) {
    const bool taken_by_all = !may_be_built_without(trial.each) &&
                              expected_refusal(trial.each, "flash_attn").empty() &&
                              expected_refusal(trial.each, "vllm_fa2").empty() &&
                              expected_refusal(trial.each, "vllm_fa3").empty();
    // A few, since vLLM's FlashAttention 2 is compiled for each head size on its first call.
    if (taken_by_all && trial.each.head_size == 128) shared.push_back(trial);
  }
  return shared;
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuAttentionTest,
                         ::testing::ValuesIn(trials({"flash_attn", "vllm_fa2", "vllm_fa3"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cases, GpuAttentionSwapTest, ::testing::ValuesIn(shared_trials()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cases, GpuAttentionRouteTest, ::testing::ValuesIn(trials({""})), name_of);

}  // namespace

SuiteOptions& suite_options() {
  static SuiteOptions options;
  return options;
}

int run_attention_suite(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int at = 1; at < argc; ++at) {
    const std::string argument = argv[at];
    if (argument.rfind("--route=", 0) == 0) suite_options().route = split(argument.substr(8), ',');
  }
  const int result = RUN_ALL_TESTS();
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  const bool none_ran = all.successful_test_count() == 0 && all.skipped_test_count() > 0;
  return result == 0 && none_ran ? kAllSkipped : result;
}

}  // namespace opmux::gpu
