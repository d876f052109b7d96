// SPDX-License-Identifier: Apache-2.0
#include <gnu/libc-version.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/contract/fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

using testing::contract_fixtures;
using testing::ContractTest;
using testing::expect_accepted;
using testing::expect_rejection;
using testing::fake_provider;
using testing::TemporaryFolder;

using ContractLibrary = ContractTest;

TEST_F(ContractLibrary, SoundLibraryIsAccepted) { expect_accepted(check("good")); }

TEST_F(ContractLibrary, ElfFaultsComeFirst) {
  const TemporaryFolder folder;
  source_.cpu = {"amx_tile"};
  const auto path = folder.write("_C.so", "text");
  expect_rejection(check_path(path), rules::kContractNotElf, path.string(), "an ELF shared object",
                   "a text file that begins with \"text\"");
}

TEST_F(ContractLibrary, EachMissingCpuFeatureIsNamed) {
  source_.cpu = {"avx2", "avx512f", "amx_tile"};
  expect_rejection(check("good"), rules::kContractCpuFeature, fake_provider("good").string(),
                   "a CPU with avx2, avx512f, amx_tile", "a CPU without avx512f, amx_tile");
  host_.cpu_features = {"avx2", "avx512f", "amx_tile"};
  expect_accepted(check("good"));
}

TEST(ContractHost, ReportsTheProcessorsFeatures) {
  const HostFacts facts = read_host_facts();
  EXPECT_FALSE(facts.cpu_features.empty());
#if defined(__x86_64__)
  EXPECT_TRUE(facts.cpu_features.contains("sse2"));
#endif
  EXPECT_FALSE(facts.cpu_features.contains("flags"));
  EXPECT_TRUE(facts.stub_driver.empty());
}

// ---- NEEDED ----

TEST_F(ContractLibrary, MissingLibraryIsNamedWithWhoNeedsIt) {
  expect_rejection(
      check("needs_gone"), rules::kContractNeededMissing,
      fake_provider("needs_gone").string() + ": DT_NEEDED libgone.so.1",
      "libgone.so.1 in torch's folders, the library's run path or the system's folders",
      "not found");
  with_torch_ = false;
  expect_rejection(check("needs_gone"), rules::kContractNeededMissing,
                   fake_provider("needs_gone").string() + ": DT_NEEDED libgone.so.1",
                   "libgone.so.1 in the library's run path or the system's folders", "not found");
}

TEST_F(ContractLibrary, MissingLibraryOfADependencyIsNamed) {
  expect_rejection(
      check("needs_middle"), rules::kContractNeededMissing,
      (contract_fixtures() / "providers/../middle/libmiddle.so.1").string() +
          ": DT_NEEDED libgone.so.1",
      "libgone.so.1 in torch's folders, the library's run path or the system's folders",
      "not found");
}

TEST_F(ContractLibrary, RelativeRunPathIsNotFollowed) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(contract_fixtures());
  const Check result = check("relative_run_path");
  std::filesystem::current_path(before);
  expect_rejection(
      result, rules::kContractNeededMissing,
      fake_provider("relative_run_path").string() + ": DT_NEEDED libmiddle.so.1",
      "libmiddle.so.1 in torch's folders, the library's run path or the system's folders",
      "not found");
}

TEST_F(ContractLibrary, OtherMajorVersionIsNamed) {
  expect_rejection(
      check("needs_cudart12"), rules::kContractNeededMissing,
      fake_provider("needs_cudart12").string() + ": DT_NEEDED libcudart.so.12",
      "libcudart.so.12 in torch's folders, the library's run path or the system's folders",
      "not found, only " + (contract_fixtures() / "cuda/libcudart.so.13").string());
}

TEST_F(ContractLibrary, TorchLibraryWithoutAChosenTorchIsMissing) {
  with_torch_ = false;
  expect_rejection(check("good"), rules::kContractNeededMissing,
                   fake_provider("good").string() + ": DT_NEEDED libtorch.so",
                   "a torch chosen for this provider, which has libtorch.so", "no torch is chosen",
                   "Add `requires: {torch: ...}` to the manifest, and name an environment that has "
                   "torch.");
}

TEST_F(ContractLibrary, TorchWithoutCudaIsSaid) {
  torch_.version = "2.11.0+cpu";
  torch_.cuda.clear();
  expect_rejection(check("needs_torch_cuda"), rules::kContractNeededMissing,
                   fake_provider("needs_torch_cuda").string() + ": DT_NEEDED libtorch_cuda.so",
                   "libtorch_cuda.so in torch 2.11.0+cpu (" + torch_.library_folder.string() + ")",
                   "not found",
                   "This torch was built without CUDA: use a build of torch with CUDA.");
}

TEST_F(ContractLibrary, DependencyForAnotherMachineIsPassedOver) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(contract_fixtures() / "cuda/libcudart.so.13",
                             folder / "libcudart.so.12");
  std::fstream file(folder / "libcudart.so.12", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(4).put(1);  // EI_CLASS: 32-bit
  file.close();
  torch_.dependency_folders = {folder.path(), contract_fixtures() / "elsewhere"};
  expect_accepted(check("needs_cudart12"));
}

TEST_F(ContractLibrary, DamagedDependencyIsRejectedByItsOwnName) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(contract_fixtures() / "cuda/libcudart.so.13",
                             folder / "libcudart.so.12");
  std::filesystem::resize_file(folder / "libcudart.so.12", 1024);
  torch_.dependency_folders = {folder.path()};
  const Check result = check("needs_cudart12");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractTruncated.id);
  EXPECT_EQ(result->subject, (folder / "libcudart.so.12").string());
}

TEST_F(ContractLibrary, DependencyThatChangedIsReadAgain) {
  const TemporaryFolder folder;
  const auto library = folder / "libcudart.so.12";
  torch_.dependency_folders = {folder.path()};
  std::filesystem::copy_file(contract_fixtures() / "elsewhere/libcudart.so.12", library);
  expect_accepted(check("needs_cudart12"));
  std::filesystem::resize_file(library, 1024);
  const Check result = check("needs_cudart12");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractTruncated.id);
  std::filesystem::remove(library);
  std::filesystem::copy_file(contract_fixtures() / "elsewhere/libcudart.so.12", library);
  expect_accepted(check("needs_cudart12"));
}

TEST_F(ContractLibrary, ChecksFromSeveralThreadsAgree) {
  release_dependencies();
  std::vector<std::thread> threads;
  std::vector<Check> results(8);
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        results[i] = check(i % 2 == 0 ? "good" : "set_device_int");
        if (i == 0) release_dependencies();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].has_value(), i % 2 == 1) << i;
  }
}

// ---- driver ----

TEST_F(ContractLibrary, CudaLibraryWithoutDriverIsRejectedOnceForAll) {
  expect_rejection(check("needs_driver"), rules::kContractNoDriver, "libcuda.so.1",
                   "an NVIDIA driver (libcuda.so.1)", "libcuda.so.1 not found: no NVIDIA driver");
}

TEST_F(ContractLibrary, StubDriverStandsForTheWholeDriver) {
  host_.stub_driver = contract_fixtures() / "stub/libcuda.so.1";
  expect_accepted(check("needs_driver"));
}

TEST_F(ContractLibrary, DriverThatLacksAFunctionIsNotEnough) {
  host_.driver = contract_fixtures() / "driver/libcuda.so.1";
  host_.stub_driver = contract_fixtures() / "stub/libcuda.so.1";
  expect_rejection(
      check("needs_driver"), rules::kContractUndefinedSymbol,
      fake_provider("needs_driver").string() + ": cuTensorMapEncodeTiled",
      "exported by a library that it needs",
      "needs cuTensorMapEncodeTiled, which none of them exports; 1 import is unresolved",
      "Use a build of the provider that fits the libraries here.");
}

// ---- versions ----

TEST_F(ContractLibrary, VersionsOfferedByTheLibraryThatIsFoundDecide) {
  expect_accepted(check("versions_new"));
  expect_rejection(
      check("versions_old"), rules::kContractVersionNeed, fake_provider("versions_old").string(),
      "FAKE_2.0 in libversioned.so.1",
      "up to FAKE_1.0 in " + (contract_fixtures() / "providers/../old/libversioned.so.1").string());
}

TEST_F(ContractLibrary, LibraryWithoutVersionsServesAny) {
  // As the dynamic linker has it; only the C library is different.
  expect_accepted(check("versions_none"));
}

TEST_F(ContractLibrary, NewerGlibcIsComparedWithThisHosts) {
  const TemporaryFolder folder;
  std::ifstream original(fake_provider("good"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(original), {});
  // The first version that it needs of libc.so.6, made one of a far release.
  const auto file = elf::read(fake_provider("good"), elf::Detail::kDependencies);
  ASSERT_TRUE(file.ok());
  const auto need = std::find_if(file->version_needs.begin(), file->version_needs.end(),
                                 [](const auto& n) { return n.library == "libc.so.6"; });
  ASSERT_NE(need, file->version_needs.end());
  ASSERT_TRUE(need->version.starts_with("GLIBC_2."));
  std::string newer = need->version;
  newer[6] = '9';
  for (auto at = bytes.find(need->version + '\0'); at != std::string::npos;
       at = bytes.find(need->version + '\0', at)) {
    bytes.replace(at, newer.size(), newer);
  }
  const auto path = folder.write("newer.so", bytes);
  expect_rejection(check_path(path), rules::kContractVersionNeed, path.string(),
                   newer + " in libc.so.6",
                   std::string("up to GLIBC_") + ::gnu_get_libc_version() + " in " +
                       find_system_library("libc.so.6").string());
}

TEST_F(ContractLibrary, CLibraryWithoutVersionsIsNotGlibc) {
  const Check result = check("on_musl");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->rule, rules::kContractVersionNeed.id);
  EXPECT_TRUE(result->expected.starts_with("GLIBC_2.")) << result->expected;
  EXPECT_TRUE(result->expected.ends_with(" in libc.so.6")) << result->expected;
  EXPECT_EQ(result->found, "no symbol versions in " +
                               (contract_fixtures() / "musl/libc.so.6").string() +
                               ": not glibc (musl?)");
  EXPECT_EQ(result->hint, "The library is linked to glibc: use a build for this host's C library.");
}

}  // namespace
}  // namespace opmux
