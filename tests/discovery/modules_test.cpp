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
using testing::TemporaryFolder;

TorchInstallation torch_at(const fs::path& root) {
  TorchInstallation torch;
  torch.root = root;
  torch.version = "2.11.0+cu130";
  torch.base_version = "2.11.0";
  return torch;
}

TEST(FindModule, TakesTheFirstFolderThatHasIt) {
  const TemporaryFolder folder;
  folder.write("a/opmux_vllm.torch-2.10.0.so", "x");
  const fs::path second = folder.write("b/opmux_vllm.torch-2.11.0.so", "x");
  folder.write("c/opmux_vllm.torch-2.11.0.so", "x");
  const auto torch = torch_at("/env/lib/python3.11/site-packages/torch");
  const auto found = find_module("vllm", &torch, {folder / "a", folder / "b", folder / "c"});
  ASSERT_TRUE(found.ok()) << to_string(found.rejection());
  EXPECT_EQ(*found, second);
}

TEST(FindModule, WithoutTorchHasAPlainName) {
  const TemporaryFolder folder;
  const fs::path module = folder.write("opmux_native_cuda.so", "x");
  EXPECT_EQ(*find_module("native_cuda", nullptr, {folder.path()}), module);
  OPMUX_EXPECT_REJECTION(find_module("other", nullptr, {folder.path()}), "discovery.module_missing",
                         "plugin `other`", "a module `other`", "none in " + folder.path().native());
}

TEST(FindModule, AModuleOfADropInIsPutBesideItsManifest) {
  const TemporaryFolder folder;
  const auto found = find_module("acme", nullptr, {folder / "modules", folder / "drop-in"});
  EXPECT_EQ(found.rejection().hint,
            "Build the plugin, and put opmux_acme.so beside its manifest, in " +
                (folder / "drop-in").native() + ".");
  EXPECT_EQ(find_module("native_cuda", nullptr, {folder / "modules"}).rejection().hint,
            "Build it: ./dev build.")
      << "one of opmux";
  const auto torch = torch_at("/srv/packages/torch");
  const auto for_torch = find_module("acme", &torch, {folder / "drop-in"});
  EXPECT_NE(for_torch.rejection().hint.find("put opmux_acme.torch-2.11.0.so beside its manifest"),
            std::string::npos);
}

TEST(FindModule, NamesTheVersionsThatAreThereAndTheCommand) {
  const TemporaryFolder folder;
  folder.write("a/opmux_vllm.torch-2.12.1.so", "x");
  folder.write("b/opmux_vllm.torch-2.10.0.so", "x");
  folder.write("b/opmux_vllm.torch-2.12.1.so", "x");
  folder.write("b/opmux_flash_attn.torch-2.11.0.so", "x");
  const auto torch = torch_at("/opt/my env/lib/python3.11/site-packages/torch");
  const std::string where = " in " + (folder / "a").native() + ", " + (folder / "b").native();
  const auto found = find_module("vllm", &torch, {folder / "a", folder / "b"});
  OPMUX_EXPECT_REJECTION(found, "discovery.module_missing", "plugin `vllm`",
                         "a module `vllm` for torch 2.11.0",
                         "modules for torch 2.10.0, 2.12.1" + where);
  EXPECT_EQ(found.rejection().hint, "Build it: ./dev build --environment /opt/my env");
}

TEST(FindModule, NamesTheSitePackagesFolderWhereThereIsNoRoot) {
  const auto torch = torch_at("/srv/packages/torch");
  const auto found = find_module("vllm", &torch, {});
  OPMUX_EXPECT_REJECTION(found, "discovery.module_missing", "plugin `vllm`",
                         "a module `vllm` for torch 2.11.0", "none");
  EXPECT_EQ(found.rejection().hint, "Build it: ./dev build --environment /srv/packages");
}

TEST(FindModule, TakesNoPathAndNoRelativeFolder) {
  const TemporaryFolder folder;
  folder.write("opmux_x/y.so", "x");
  folder.write("opmux_vllm.so", "x");
  EXPECT_FALSE(find_module("x/y", nullptr, {folder.path()}).ok());
  EXPECT_FALSE(find_module("", nullptr, {folder.path()}).ok());
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_FALSE(find_module("vllm", nullptr, {".", ""}).ok());
  fs::current_path(before);
}

}  // namespace
}  // namespace opmux
