// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cli/command.hpp"
#include "tests/fakes/fakes.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;

struct NativeCase {
  const char* operator_name;
  const char* dtype;
};

std::vector<NativeCase> native_cases() {
  std::vector<NativeCase> cases;
  for (const char* name :
       {"silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "rms_norm", "fused_add_rms_norm",
        "rotary_embedding", "topk_softmax", "topk_sigmoid", "grouped_topk",
        "flash_attn_varlen_func", "flash_attn_with_kvcache", "flash_attn_with_kvcache.int"})
    for (const char* dtype : {"float32", "float16", "bfloat16"}) cases.push_back({name, dtype});
  cases.push_back({"gptq_marlin_repack", "int32"});
  cases.push_back({"awq_marlin_repack", "int32"});
  return cases;
}

class RunNative : public ::testing::TestWithParam<NativeCase> {};

TEST_P(RunNative, ServesItsExample) {
  const Outcome outcome = Command{}.run({"run", GetParam().operator_name, "--dtype",
                                         GetParam().dtype, "--compare", "--repeat", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json.at("operator"), GetParam().operator_name);
  EXPECT_EQ(json.at("dtype"), GetParam().dtype);
  EXPECT_EQ(json.at("device"), "cpu");
  EXPECT_EQ(json.at("provider"), "native");
  EXPECT_TRUE(json.at("library").is_null());
  EXPECT_FALSE(json.at("fallback"));
  EXPECT_EQ(json.at("time").at("calls"), 3);
  EXPECT_GT(json.at("time").at("min_ns"), 0.0);
  EXPECT_LE(json.at("time").at("min_ns"), json.at("time").at("median_ns"));
  EXPECT_TRUE(json.at("comparison").at("within"));
  EXPECT_GT(json.at("comparison").at("elements"), 0);
}

INSTANTIATE_TEST_SUITE_P(Operators, RunNative, ::testing::ValuesIn(native_cases()),
                         [](const ::testing::TestParamInfo<NativeCase>& info) {
                           std::string name = info.param.operator_name;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name + "_" + info.param.dtype;
                         });

TEST(Run, TextTellsRouteAndTime) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--repeat", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("silu_and_mul float32 on cpu: input [16, 512], out [16, 256]"));
  EXPECT_THAT(outcome.out, HasSubstr("served by  native, part of opmux"));
  EXPECT_THAT(outcome.out, HasSubstr("not vllm_cpu: discovery."));
  EXPECT_THAT(outcome.out, HasSubstr("median of 2 calls"));
}

nlohmann::json dims_for(const std::string& shape) {
  const Outcome outcome =
      Command{}.run({"run", "silu_and_mul", "--shape", shape, "--repeat", "0", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? outcome.json().at("dims") : nlohmann::json{};
}

TEST(RunShape, ByName) {
  EXPECT_EQ(dims_for("d=64"), (nlohmann::json{{"tokens", 16}, {"d", 64}}));
  EXPECT_EQ(dims_for("d=64, tokens=3"), (nlohmann::json{{"tokens", 3}, {"d", 64}}));
}

TEST(RunShape, InOrder) {
  EXPECT_EQ(dims_for("4x128"), (nlohmann::json{{"tokens", 4}, {"d", 128}}));
  EXPECT_EQ(dims_for("4,128"), (nlohmann::json{{"tokens", 4}, {"d", 128}}));
  EXPECT_EQ(dims_for("7"), (nlohmann::json{{"tokens", 7}, {"d", 256}}));
}

TEST(RunShape, MayBeEmpty) { EXPECT_EQ(dims_for("tokens=0").at("tokens"), 0); }

struct WrongShape {
  const char* shape;
  const char* told;
};

class RunWrongShape : public ::testing::TestWithParam<WrongShape> {};

TEST_P(RunWrongShape, IsWrongUsage) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--shape", GetParam().shape});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().told));
  EXPECT_THAT(outcome.err, HasSubstr("Type --shape tokens=16,d=256"));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RunWrongShape,
    ::testing::Values(WrongShape{"token=4", "Did you mean `tokens`?"},
                      WrongShape{"tokens=four", "found `four`"},
                      WrongShape{"tokens=-1", "found `-1`"},
                      WrongShape{"1x2x3", "at most 2 sizes, for tokens, d, found 3"},
                      WrongShape{"4x", "found nothing"}, WrongShape{"4,d=8", "found no `=`"},
                      WrongShape{"tokens=1000000000", "4 GiB"},
                      WrongShape{"tokens=99999999999999999999", "found `99999999999999999999`"}));

TEST(Run, WhatAProviderPrintsIsNotInTheOutput) {
  const Command command;
  const std::filesystem::path manifest =
      command.folder().write("providers/acme/acme.yaml",
                             "manifest: 1\nprovider: acme\nplugin: acme\npriority: 90\noperators:\n"
                             "  silu_and_mul: {module: silu_and_mul, when: {device: cpu}}\n");
  std::filesystem::copy_file(fakes::path("module_greets"),
                             manifest.parent_path() / "opmux_acme.so");
  const Outcome outcome = command.run({"run", "silu_and_mul", "--manifests",
                                       manifest.parent_path().parent_path().string(), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.json().at("provider"), "acme");
  EXPECT_THAT(outcome.err, HasSubstr("fake: served"));
}

TEST(Run, UnknownOperatorNamesTheNearest) {
  const Outcome outcome = Command{}.run({"run", "rms_nrom"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean `rms_norm`?"));
}

TEST(Run, UnknownDtypeIsWrongUsage) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--dtype", "bfloat6"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("takes float32, float16, bfloat16, not `bfloat6`"));
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean `bfloat16`?"));
}

TEST(Run, UnknownProviderNamesTheNearest) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--provider", "vllm_cpuu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean `vllm_cpu`?"));
}

TEST(Run, FallsBackAndSaysSo) {
  const Outcome outcome =
      Command{}.run({"run", "silu_and_mul", "--provider", "vllm_cpu", "--repeat", "1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_TRUE(json.at("fallback"));
  EXPECT_EQ(json.at("requested_provider"), "vllm_cpu");
  EXPECT_EQ(json.at("provider"), "native");
  EXPECT_EQ(json.at("passed_over")[0].at("provider"), "vllm_cpu");
  EXPECT_EQ(json.at("passed_over")[0].at("rejection").at("stage"), "discovery");
  const Outcome text = Command{}.run({"run", "silu_and_mul", "--provider", "vllm_cpu"});
  EXPECT_THAT(text.out, HasSubstr("fallback"));
}

TEST(Run, StrictRefusesToFallBack) {
  const Outcome outcome =
      Command{}.run({"run", "silu_and_mul", "--provider", "vllm_cpu", "--strict", "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.json().at("rejection").at("stage"), "discovery");
  EXPECT_FALSE(outcome.json().contains("provider"));
}

TEST(Run, StrictWithNativeIsFine) {
  const Outcome outcome =
      Command{}.run({"run", "silu_and_mul", "--provider", "native", "--strict", "--repeat", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(Run, OperatorWithoutNativeKernelIsAFinding) {
  const Outcome outcome = Command{}.run({"run", "marlin_gemm", "--compare", "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.json().at("error"), "");
  EXPECT_FALSE(outcome.json().at("rejection").is_null());
}

// An operator of a drop-in, which has no native kernel.
TEST(Run, ComparingWithoutANativeKernelSaysThatThereIsNone) {
  const Command command;
  const std::filesystem::path manifest = command.folder().write(
      "providers/acme/acme.yaml",
      "manifest: 1\nprovider: acme\nplugin: acme\noperators:\n"
      "  live_0: {module: live_0, when: {device: cpu}}\n"
      "declare:\n  live_0:\n    schema: \"live_0(Tensor(a!) x, Tensor(b!) y) -> ()\"\n"
      "    summary: marks\n    example:\n      dims: {size: 2}\n"
      "      x: {shape: [size], dtype: int64, fill: zeros}\n"
      "      y: {shape: [size], dtype: int64, fill: zeros}\n");
  std::filesystem::copy_file(fakes::path("live_1"), manifest.parent_path() / "opmux_acme.so");
  const Outcome outcome = command.run({"run", "live_0", "--compare", "--repeat", "0", "--manifests",
                                       manifest.parent_path().parent_path().string()});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("served by  acme"));
  EXPECT_THAT(outcome.out, HasSubstr("no native kernel of live_0"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("route")));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("\\x0a")));
}

TEST(Run, CudaWithoutADeviceIsAFinding) {
  const Outcome outcome = Command{}.run({"run", "silu_and_mul", "--device", "cuda", "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.json().at("rejection").at("rule"), "contract.no_device");
}

}  // namespace
}  // namespace opmux::testing
