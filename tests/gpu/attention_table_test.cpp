// SPDX-License-Identifier: Apache-2.0
//
// What of the attention table can be seen without a GPU: the shipped manifests let through and
// refuse what the table says, and the native CPU kernels, which share no code with the reference,
// agree with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <variant>
#include <vector>

#include "core/manifest/manifest.hpp"
#include "core/registry/condition.hpp"
#include "opmux/opmux.hpp"
#include "tests/gpu/attention_case.hpp"
#include "tests/gpu/attention_check.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux::gpu {

void PrintTo(const AttentionCase& each, std::ostream* out) { *out << each.name; }

namespace {

// The ABI's values over an example's memory.
struct Values {
  explicit Values(cli::ExampleCall& call)
      : tensors(call.arguments.size()),
        lists(call.arguments.size()),
        values(call.arguments.size(), detail::none_value()) {
    for (std::size_t at = 0; at < values.size(); ++at) {
      cli::ExampleArgument& argument = call.arguments[at];
      if (auto* tensor = std::get_if<cli::HostTensor>(&argument)) {
        tensors[at] = {tensor->bytes.data(),
                       {OPMUX_DEVICE_CPU, 0},
                       static_cast<std::int32_t>(tensor->shape.size()),
                       to_abi(tensor->dtype),
                       tensor->shape.data(),
                       nullptr,
                       0};
        values[at].tag = OPMUX_VALUE_TENSOR;
        values[at].payload.tensor = &tensors[at];
      } else if (auto* list = std::get_if<std::vector<std::int64_t>>(&argument)) {
        lists[at] = {list->data(), list->size()};
        values[at].tag = OPMUX_VALUE_INT_LIST;
        values[at].payload.int_list = &lists[at];
      } else if (const auto* flag = std::get_if<bool>(&argument)) {
        values[at] = detail::ArgumentTraits<bool>::pack(*flag);
      } else if (const auto* integer = std::get_if<std::int64_t>(&argument)) {
        values[at] = detail::int_value(*integer);
      } else if (const auto* real = std::get_if<double>(&argument)) {
        values[at] = detail::float_value(*real);
      }
    }
  }

  std::vector<OpmuxTensor> tensors;
  std::vector<OpmuxIntList> lists;
  std::vector<OpmuxValue> values;
};

const ManifestSet& shipped() {
  static const ManifestSet manifests = [] {
    ManifestSources sources;
    sources.folders = {std::filesystem::path(OPMUX_SOURCE_DIR) / "manifests"};
    return read_manifests(sources);
  }();
  return manifests;
}

const Manifest* provider_named(const std::string& name) {
  for (const Manifest& manifest : shipped().providers)
    if (manifest.provider == name) return &manifest;
  return nullptr;
}

const OperatorBinding* binding_of(const Manifest& manifest, const std::string& operator_name) {
  for (const OperatorBinding& binding : manifest.operators)
    if (binding.operator_name == operator_name) return &binding;
  return nullptr;
}

class AttentionTableTest : public ::testing::TestWithParam<AttentionCase> {};

TEST(AttentionManifests, AreReadWithoutARejection) {
  for (const Rejection& rejection : shipped().rejections) ADD_FAILURE() << to_string(rejection);
  EXPECT_EQ(provider_named("vllm_fa3")->priority, 65);
  EXPECT_EQ(provider_named("flash_attn")->priority, 60);
  EXPECT_EQ(provider_named("vllm_fa2")->priority, 55);
}

TEST_P(AttentionTableTest, ManifestsRefuseForTheirReasons) {
  AttentionCall call = make_call(GetParam(), /*with_expected=*/false);
  const Values values(call.inputs);
  for (const char* name : {"flash_attn", "vllm_fa2", "vllm_fa3"}) {
    const Manifest* manifest = provider_named(name);
    ASSERT_NE(manifest, nullptr) << name;
    const std::string expected = expected_refusal(GetParam(), name);
    const OperatorBinding* binding = binding_of(*manifest, call.operator_name);
    if (binding == nullptr) {
      EXPECT_EQ(expected, "none in the route") << name;
      continue;
    }
    ASSERT_EQ(binding->alternatives.size(), 1U);
    std::string refused;
    for (const Condition& condition : binding->alternatives.front().when) {
      if (holds(compile_condition(condition), values.values.data())) continue;
      refused = condition.text;
      break;
    }
    if (expected.empty())
      EXPECT_EQ(refused, "") << name;
    else
      EXPECT_NE(refused.find(expected), std::string::npos)
          << name << ": expected " << expected << ", found " << refused;
  }
}

// Their loads of 16 bytes would end in an error that leaves the device unusable.
TEST(AttentionManifests, RefuseRowsThatBeginElsewhereThanAtMultiplesOf16Bytes) {
  const std::vector<AttentionCase> cases = attention_cases();
  const auto cached = std::find_if(cases.begin(), cases.end(), [](const AttentionCase& each) {
    return !each.varlen && each.page_size == 256;
  });
  ASSERT_NE(cached, cases.end());
  for (const AttentionCase& each : {cases.front(), *cached}) {
    AttentionCall call = make_call(each, /*with_expected=*/false);
    for (const std::size_t moved : {0U, 1U, 2U}) {  // q, k and v or their caches
      Values values(call.inputs);
      values.tensors[moved].byte_offset = 2;
      for (const char* name : {"flash_attn", "vllm_fa2", "vllm_fa3"}) {
        const OperatorBinding* binding = binding_of(*provider_named(name), call.operator_name);
        ASSERT_NE(binding, nullptr);
        std::string refused;
        for (const Condition& condition : binding->alternatives.front().when) {
          if (!holds(compile_condition(condition), values.values.data())) refused = condition.text;
        }
        EXPECT_NE(refused.find("rows at multiples of 16 bytes"), std::string::npos)
            << each.name << " " << name << " argument " << moved << ": " << refused;
      }
    }
  }
}

TEST_P(AttentionTableTest, NativeGivesTheNumbersOfTheReference) {
  if (GetParam().dropout > 0.0) GTEST_SKIP() << "the reference has no dropout";
  static const testing::TemporaryFolder empty;
  static const StatusOr<Runtime> runtime = [] {
    Options options;
    options.environments = {empty.path()};
    options.load = false;
    options.use_cache = false;
    return Runtime::open(options);
  }();
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  AttentionCall call = make_call(GetParam());
  const StatusOr<BoxedOperator> target = runtime->boxed(call.operator_name);
  ASSERT_TRUE(target.ok()) << target.status().message();
  cli::ExampleCall outputs = call.inputs;
  const Values values(outputs);
  const Status status = target->call_provider("native", values.values.data(), values.values.size());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(check_attention(call, outputs).fault, "");
}

std::string name_of(const ::testing::TestParamInfo<AttentionCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Cases, AttentionTableTest, ::testing::ValuesIn(attention_cases()),
                         name_of);

}  // namespace
}  // namespace opmux::gpu
