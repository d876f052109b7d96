// SPDX-License-Identifier: Apache-2.0
//
// Plugin modules, torch and the driver in the probe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/fakes/fakes.hpp"
#include "tests/probe/probing.hpp"

namespace opmux {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

LoadSet with_module(const std::string& module) {
  LoadSet load_set = load_set_of({fakes::path("none"), fakes::path("registers")});
  load_set.modules.push_back(fakes::path(module));
  return load_set;
}

TEST(ProbedModule, ReportsItsTable) {
  const Findings found = probe(with_module("module_none"), patient());
  ASSERT_EQ(found.modules.size(), 1u);
  const ModuleFinding& module = found.modules[0];
  EXPECT_FALSE(module.rejection) << to_string(*module.rejection);
  EXPECT_EQ(module.path, fakes::path("module_none"));
  EXPECT_EQ(module.name, "fake");
  EXPECT_EQ(module.version, "1.2");
  EXPECT_EQ(module.build_identity, "fake 3");
  ASSERT_EQ(module.operators.size(), 2u);
  EXPECT_EQ(module.operators[1].name, "fake_second");
  EXPECT_EQ(module.operators[1].schema, "fake_second(Tensor(a!) out) -> ()");
  EXPECT_EQ(module.operators[1].device_type, 2);
  EXPECT_EQ(module.operators[0].properties, Properties{0});
  EXPECT_EQ(module.operators[1].properties, Properties{OPMUX_PROPERTY_GRAPH_CAPTURE});
  EXPECT_TRUE(found.registrations.empty());
}

TEST(ProbedModule, ListsWhatLibrariesRegister) {
  const Findings found = probe(with_module("module_listens"), patient());
  ASSERT_EQ(found.registrations.size(), 1u);
  EXPECT_EQ(found.registrations[0].library, fakes::path("registers").native());
  EXPECT_EQ(found.registrations[0].schema, "fake_space::first(Tensor($0! -> ) out) -> ()");
  EXPECT_THAT(found.registrations[0].dispatch_keys, ElementsAre("CPU", "CUDA"));
}

TEST(ProbedModule, ThatRefusesCostsTheLibrariesNothing) {
  const Findings found = probe(with_module("module_refuses"), patient());
  ASSERT_TRUE(found.modules[0].rejection);
  EXPECT_EQ(found.modules[0].rejection->rule, "loader.module_refused");
  EXPECT_EQ(found.modules[0].rejection->found,
            "OPMUX_INCOMPATIBLE (5): fake: built for another world");
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_EQ(found.probes, 1);
}

TEST(ProbedModule, ThatWillNotListenIsRefused) {
  const Findings found = probe(with_module("module_refuses_to_listen"), patient());
  ASSERT_TRUE(found.modules[0].rejection);
  EXPECT_EQ(found.modules[0].rejection->rule, "loader.module_refused");
  EXPECT_EQ(found.modules[0].rejection->expected, "start_listening returns OPMUX_OK");
  EXPECT_EQ(found.modules[0].rejection->found, "status 5: fake: no listener");
}

TEST(ProbedModule, ThatThrowsWhileItListsIsRefused) {
  const Findings found = probe(with_module("module_throws_while_listing"), patient());
  ASSERT_TRUE(found.modules[0].rejection);
  EXPECT_EQ(found.modules[0].rejection->rule, "loader.module_refused");
  EXPECT_EQ(found.modules[0].rejection->found, "it threw: fake: the list is broken");
  EXPECT_FALSE(found.libraries[1].rejection);
}

TEST(ProbedModule, ThatCrashesIsRejectedAndTheRestIsProbedAgain) {
  const Findings found = probe(with_module("abort"), patient());
  ASSERT_TRUE(found.modules[0].rejection);
  EXPECT_EQ(found.modules[0].rejection->rule, "probe.signal");
  EXPECT_EQ(found.modules[0].rejection->subject, fakes::path("abort").native());
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_FALSE(found.libraries[1].rejection);
  EXPECT_EQ(found.probes, 2);
}

class ProbedTorch : public ::testing::Test {
 protected:
  LoadSet with_torch(const std::string& cpu_library) {
    TorchInstallation torch;
    torch.version = "2.11.0";
    torch.library_folder = folder_.path();
    std::filesystem::copy_file(fakes::path("none"), folder_.path() / "libc10.so");
    std::filesystem::copy_file(fakes::path("none"), folder_.path() / "libtorch.so");
    if (!cpu_library.empty()) {
      std::filesystem::copy_file(fakes::path(cpu_library), folder_.path() / "libtorch_cpu.so");
    }
    LoadSet load_set = load_set_of({fakes::path("none")});
    load_set.torch = torch;
    return load_set;
  }

  TemporaryFolder folder_;
};

TEST_F(ProbedTorch, IsLoadedBeforeTheLibraries) {
  const Findings found = probe(with_torch("other"), patient());
  EXPECT_FALSE(found.torch_rejection) << to_string(*found.torch_rejection);
  EXPECT_FALSE(found.libraries[0].rejection);
}

TEST_F(ProbedTorch, ThatIsIncompleteIsNamed) {
  const Findings found = probe(with_torch(""), patient());
  ASSERT_TRUE(found.torch_rejection);
  EXPECT_EQ(found.torch_rejection->rule, "loader.open_failed");
  EXPECT_EQ(found.torch_rejection->subject, (folder_.path() / "libtorch_cpu.so").native());
  EXPECT_FALSE(found.libraries[0].rejection) << "it needs no torch";
}

TEST_F(ProbedTorch, ThatCrashesIsLeftOutOfTheNextProbe) {
  const Findings found = probe(with_torch("abort"), patient());
  ASSERT_TRUE(found.torch_rejection);
  EXPECT_EQ(found.torch_rejection->rule, "probe.signal");
  EXPECT_EQ(found.torch_rejection->subject, (folder_.path() / "libtorch_cpu.so").native());
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_EQ(found.probes, 2);
}

TEST(ProbedDriver, ThatIsAStubIsNotAsked) {
  LoadSet load_set = load_set_of({fakes::path("none")});
  load_set.driver = std::filesystem::path(OPMUX_BINARY_DIR) / "lib/opmux/stub/libcuda.so.1";
  load_set.stub_driver = true;
  const Findings found = probe(load_set, patient());
  EXPECT_FALSE(found.driver_rejection) << to_string(*found.driver_rejection);
  EXPECT_EQ(found.cuda_driver_version, 0);
  EXPECT_TRUE(found.devices.empty());
  // Asked, it answers as a stub does.
  load_set.stub_driver = false;
  const Findings asked = probe(load_set, patient());
  ASSERT_TRUE(asked.driver_rejection);
  EXPECT_EQ(asked.driver_rejection->rule, "contract.no_driver");
  EXPECT_EQ(asked.driver_rejection->found, "cuInit fails with error 34");
  EXPECT_FALSE(asked.libraries[0].rejection);
}

TEST(ProbedDriver, ThatIsRealNamesItsDevices) {
  LoadSet load_set = load_set_of({fakes::path("none")});
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
                           "/usr/local/nvidia/lib64/libcuda.so.1"}) {
    if (std::filesystem::exists(path)) load_set.driver = std::filesystem::canonical(path);
  }
  if (load_set.driver.empty()) GTEST_SKIP() << "this machine has no NVIDIA driver";
  const Findings found = probe(load_set, patient());
  EXPECT_FALSE(found.driver_rejection) << to_string(*found.driver_rejection);
  EXPECT_GE(found.cuda_driver_version, 12000);
  for (const DeviceFinding& device : found.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.major, 5);
  }
  RecordProperty("devices", static_cast<int>(found.devices.size()));
  EXPECT_FALSE(found.libraries[0].rejection);
}

TEST(ProbedDriver, WithoutTheDriversFunctionsIsNone) {
  LoadSet load_set = load_set_of({fakes::path("none")});
  load_set.driver = fakes::path("other");
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.driver_rejection);
  EXPECT_EQ(found.driver_rejection->found, "a library without the driver's functions");
}

TEST(ProbedDriver, ThatCrashesIsLeftOutOfTheNextProbe) {
  LoadSet load_set = load_set_of({fakes::path("none")});
  load_set.driver = fakes::path("segfault");
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.driver_rejection);
  EXPECT_EQ(found.driver_rejection->rule, "probe.signal");
  EXPECT_FALSE(found.libraries[0].rejection);
}

}  // namespace
}  // namespace opmux
