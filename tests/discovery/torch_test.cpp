// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/discovery/discovery.hpp"
#include "tests/discovery/fake_environment.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::FakeEnvironment;
using testing::range;
using testing::TemporaryFolder;

Requirements requires_torch(const std::string& torch, const std::string& cuda = "") {
  Requirements requirements;
  if (!torch.empty()) requirements.torch = range(torch);
  if (!cuda.empty()) requirements.cuda = range(cuda);
  return requirements;
}

TEST(FindTorch, ReadsVersionCudaAndDependencyFolders) {
  const FakeEnvironment fake;
  fake.torch("2.11.0+cu130", "13.0");
  fake.write("nvidia/cu13/lib/libcudart.so.13");
  fake.write("nvidia/cuda/runtime/lib/libx.so");
  fake.write("nvidia/empty/include/x.h");
  const auto torch = find_torch(requires_torch(">=2.11", "13.*"), fake.environments());
  ASSERT_TRUE(torch.ok()) << to_string(torch.rejection());
  EXPECT_EQ(torch->root, fake / "torch");
  EXPECT_EQ(torch->library_folder, fake / "torch/lib");
  EXPECT_EQ(torch->version, "2.11.0+cu130");
  EXPECT_EQ(torch->base_version, "2.11.0");
  EXPECT_EQ(torch->cuda, "13.0");
  EXPECT_EQ(torch->dependency_folders,
            (std::vector<fs::path>{fake / "nvidia/cu13/lib", fake / "nvidia/cuda/runtime/lib"}));
}

TEST(FindTorch, TellsThePythonThatItWasBuiltFor) {
  const FakeEnvironment fake;
  fake.torch("2.11.0", "");
  ASSERT_TRUE(find_torch({}, fake.environments()).ok());
  EXPECT_EQ(find_torch({}, fake.environments())->python, "") << "no file tells";
  fake.write("torch/_C.cpython-313t-x86_64-linux-gnu.so");
  EXPECT_EQ(find_torch({}, fake.environments())->python, "3.13t");
}

TEST(FindTorch, PassesOverUnsuitableOnesAndTakesTheNext) {
  const FakeEnvironment first;
  const FakeEnvironment second;
  first.torch("2.10.0+cu128", "12.8");
  second.torch("2.11.0", "");
  const auto environments = find_environments({first.root(), second.root()}, "").environments;
  EXPECT_EQ(find_torch(requires_torch(">=2.11"), environments)->root, second / "torch");
  EXPECT_EQ(find_torch(requires_torch(""), environments)->root, first / "torch");
}

TEST(FindTorch, NamesEveryUnsuitableOne) {
  const FakeEnvironment first;
  const FakeEnvironment second;
  const FakeEnvironment third;
  first.torch("2.10.0+cu128", "12.8");
  second.torch("2.11.0", "");
  third.write("torch/version.py", "__version__ = compute()\n");
  const auto environments =
      find_environments({first.root(), second.root(), third.root()}, "").environments;
  OPMUX_EXPECT_REJECTION(find_torch(requires_torch(">=2.11", "13.*"), environments),
                         "discovery.requires", "requires", "torch >=2.11 built for CUDA 13.*",
                         "torch 2.10.0+cu128 (CUDA 12.8) in " + first.site().native() +
                             "; torch 2.11.0 (no CUDA) in " + second.site().native() + "; " +
                             (third / "torch/version.py").native() + " without a version");
}

TEST(FindTorch, SaysWhereThereIsNone) {
  const FakeEnvironment fake;
  OPMUX_EXPECT_REJECTION(
      find_torch(requires_torch(">=2.11"), fake.environments()), "discovery.torch_missing", "torch",
      "torch >=2.11 in a searched environment", "none in " + fake.site().native());
  OPMUX_EXPECT_REJECTION(find_torch({}, {}), "discovery.torch_missing", "torch",
                         "torch in a searched environment", "no environment to search");
}

TEST(FindTorch, SeesAnEditableOne) {
  const FakeEnvironment fake;
  const TemporaryFolder source;
  source.write("torch/version.py", "__version__ = '2.12.0a0+gitabc'\ncuda = None\n");
  fake.metadata("torch-2.12.0a0+gitabc");
  fake.write(
      "torch-2.12.0a0+gitabc.dist-info/direct_url.json",
      R"({"dir_info": {"editable": true}, "url": "file://)" + source.path().native() + "\"}");
  const auto torch = find_torch({}, fake.environments());
  ASSERT_TRUE(torch.ok()) << to_string(torch.rejection());
  EXPECT_EQ(torch->root, source / "torch");
  EXPECT_EQ(torch->base_version, "2.12.0");
}

TEST(FindTorch, DoesNotReadAHugeVersionFile) {
  const FakeEnvironment fake;
  fake.write("torch/version.py", std::string(100'000, '#'));
  const auto torch = find_torch({}, fake.environments());
  ASSERT_FALSE(torch.ok());
  EXPECT_EQ(torch.rejection().rule, "discovery.requires");
  EXPECT_EQ(torch.rejection().found.find((fake / "torch/version.py").native() + ": "), 0u);
}

}  // namespace
}  // namespace opmux
