// SPDX-License-Identifier: Apache-2.0
//
// vLLM's CUDA kernels through plugins/vllm, on a stream of the caller's own, against the native CPU
// kernels. TEST_OPMUX_GPU_ENVIRONMENTS names the environments that hold torch and vllm, separated
// by colons.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <ostream>

#include "cli/compare.hpp"
#include "core/base/text.hpp"
#include "core/manifest/manifest.hpp"
#include "tests/gpu/device_call.hpp"

namespace opmux {
namespace {

struct Case {
  std::string name;
  std::string dtype;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name << " " << each.dtype; }

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const char* name : {"silu_and_mul", "rms_norm", "fused_add_rms_norm", "rotary_embedding",
                           "topk_softmax", "topk_sigmoid", "grouped_topk"}) {
    for (const char* dtype : {"float32", "float16", "bfloat16"}) cases.push_back({name, dtype});
  }
  cases.push_back({"gptq_marlin_repack", "int32"});
  cases.push_back({"awq_marlin_repack", "int32"});
  return cases;
}

DType dtype_of(const std::string& name) {
  if (name == "float16") return DType::kFloat16;
  if (name == "bfloat16") return DType::kBFloat16;
  return name == "int32" ? DType::kInt32 : DType::kFloat32;
}

class GpuVllmTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string missing = gpu::missing_device();
    if (!missing.empty())
      GTEST_SKIP() << missing << "; run on a machine with a GPU, see docs/measurements.md";
    const char* environments = ::getenv("TEST_OPMUX_GPU_ENVIRONMENTS");
    ASSERT_NE(environments, nullptr)
        << "TEST_OPMUX_GPU_ENVIRONMENTS names no environment with torch and vllm";
    if (!runtime().has_value()) {
      Options options;
      for (const std::string& folder : split(environments, ':'))
        options.environments.emplace_back(folder);
      StatusOr<Runtime> opened = Runtime::open(options);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      runtime().emplace(std::move(*opened));
    }
    StatusOr<BoxedOperator> found = runtime()->boxed(GetParam().name);
    ASSERT_TRUE(found.ok()) << found.status().message();
    target_.emplace(*found);
    declaration_ = declarations().find_declaration(GetParam().name);
    ASSERT_NE(declaration_, nullptr);
    Result<cli::ExampleCall> example = cli::make_example(*declaration_, declaration_->example->dims,
                                                         dtype_of(GetParam().dtype), 7);
    ASSERT_TRUE(example.ok()) << to_string(example.rejection());
    inputs_ = std::move(*example);
  }

  // One runtime for all cases: a Dispatcher library stays for a process's life.
  static std::optional<Runtime>& runtime() {
    static std::optional<Runtime> opened;
    return opened;
  }

  static const ManifestSet& declarations() {
    static const ManifestSet manifests = [] {
      ManifestSources sources;
      sources.folders = {std::filesystem::path(OPMUX_SOURCE_DIR) / "manifests"};
      return read_manifests(sources);
    }();
    return manifests;
  }

  cli::ExampleCall native_result() {
    cli::ExampleCall outputs = inputs_;
    std::vector<OpmuxTensor> tensors(outputs.arguments.size());
    std::vector<OpmuxValue> values(outputs.arguments.size(), detail::none_value());
    for (std::size_t index = 0; index < values.size(); ++index) {
      cli::ExampleArgument& argument = outputs.arguments[index];
      if (auto* tensor = std::get_if<cli::HostTensor>(&argument)) {
        tensors[index] = {tensor->bytes.data(),
                          {OPMUX_DEVICE_CPU, 0},
                          static_cast<std::int32_t>(tensor->shape.size()),
                          to_abi(tensor->dtype),
                          tensor->shape.data(),
                          nullptr,
                          0};
        values[index].tag = OPMUX_VALUE_TENSOR;
        values[index].payload.tensor = &tensors[index];
      } else if (const auto* flag = std::get_if<bool>(&argument)) {
        values[index] = detail::ArgumentTraits<bool>::pack(*flag);
      } else if (const auto* integer = std::get_if<std::int64_t>(&argument)) {
        values[index] = detail::int_value(*integer);
      } else if (const auto* real = std::get_if<double>(&argument)) {
        values[index] = detail::float_value(*real);
      }
    }
    const Status status = target_->call_provider("native", values.data(), values.size());
    EXPECT_TRUE(status.ok()) << status.message();
    return outputs;
  }

  Comparison compare(const cli::ExampleCall& found) {
    return cli::compare_written(declaration_->schema, native_result(), found,
                                {declaration_->tolerance_ulps, declaration_->tolerance_absolute});
  }

  std::optional<BoxedOperator> target_;
  const OperatorDeclaration* declaration_ = nullptr;
  cli::ExampleCall inputs_;
};

TEST_P(GpuVllmTest, RunsOnTheCallersStreamWithTheRightNumbers) {
  void* const stream = gpu::new_stream();
  ASSERT_NE(stream, nullptr);
  // A process's first call initialises CUDA in torch, which takes longer than the inputs are late:
  // only the second one tells streams apart.
  ASSERT_TRUE(gpu::call_with_late_inputs(*target_, "vllm", inputs_, stream, stream).ok());
  StatusOr<cli::ExampleCall> outputs =
      gpu::call_with_late_inputs(*target_, "vllm", inputs_, stream, stream);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const Comparison comparison = compare(*outputs);
  EXPECT_TRUE(comparison.within) << comparison.worst;
  std::printf("%s %s: max error %.3g ulps, %.3g absolute, %zu elements\n", GetParam().name.c_str(),
              GetParam().dtype.c_str(), comparison.max_ulps, comparison.max_absolute,
              comparison.elements);
}

// Of operators that read numbers only: indices that are not there yet would be out of bounds.
class GpuWrongStreamTest : public GpuVllmTest {};

TEST_P(GpuWrongStreamTest, ACallOnAnotherStreamIsCaught) {
  // As above, the first call does not count.
  void* const stream = gpu::new_stream();
  StatusOr<cli::ExampleCall> first =
      gpu::call_with_late_inputs(*target_, "vllm", inputs_, stream, stream);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(compare(*first).within);

  StatusOr<cli::ExampleCall> outputs =
      gpu::call_with_late_inputs(*target_, "vllm", inputs_, stream, gpu::new_stream());
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_FALSE(compare(*outputs).within) << "the check cannot tell one stream from another";
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name + "_" + info.param.dtype;
}

INSTANTIATE_TEST_SUITE_P(Operators, GpuVllmTest, ::testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Operators, GpuWrongStreamTest,
                         ::testing::Values(Case{"silu_and_mul", "float32"},
                                           Case{"silu_and_mul", "bfloat16"},
                                           Case{"rms_norm", "float32"},
                                           Case{"rms_norm", "float16"}),
                         name_of);

}  // namespace
}  // namespace opmux
