// SPDX-License-Identifier: Apache-2.0
#include "core/discovery/metadata.hpp"

#include <gtest/gtest.h>

#include <string>

namespace opmux::discovery {
namespace {

TEST(MetadataField, ReadsTheHeaderPartOnly) {
  EXPECT_EQ(metadata_field("Name: vllm\r\nversion:  0.20.2 \r\n\r\nAuthor: x\n", "Version"),
            "0.20.2");
  EXPECT_EQ(metadata_field("Name: vllm\n\nVersion: 1\n", "Version"), "");
  EXPECT_EQ(metadata_field("", "Version"), "");
}

TEST(RecordPaths, ReadsCsvWithQuotedNames) {
  EXPECT_EQ(record_paths("vllm/_C.abi3.so,sha256=a,1\n\"a, b/\"\"c\"\".so\",,\r\n\nlast,x"),
            (std::vector<std::string>{"vllm/_C.abi3.so", "a, b/\"c\".so", "last"}));
  EXPECT_EQ(record_paths("\"a\nb\",1\nc,2\n"), (std::vector<std::string>{"a\nb", "c"}));
  EXPECT_TRUE(record_paths("").empty());
  EXPECT_TRUE(record_paths(std::string("a\0b,1\n", 6)).empty());
}

TEST(RecordPaths, MayBeLimitedToAPrefixAmongPlainPaths) {
  EXPECT_EQ(record_paths("vllm/_C.so,,\nother/x,,\n./vllm/y,,\na//b,,\n\"quoted\",,\n", "vllm/"),
            (std::vector<std::string>{"vllm/_C.so", "./vllm/y", "a//b", "quoted"}));
}

TEST(EditableRoot, ReadsOnlyEditableFileUrls) {
  EXPECT_EQ(editable_root(R"({"dir_info": {"editable": true}, "url": "file:///src/vllm"})"),
            "/src/vllm");
  EXPECT_EQ(
      editable_root(R"({"dir_info": {"editable": true}, "url": "file://localhost/a%20b%C3%A9/"})"),
      "/a b\xC3\xA9/");
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": false}, "url": "file:///src"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": "true"}, "url": "file:///src"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {}, "url": "file:///src"})"));
  EXPECT_FALSE(editable_root(R"({"archive_info": {}, "url": "file:///src.whl"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": true}, "url": "https://host/src"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": true}, "url": "file://src"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": true}, "url": "file:///a%0"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": true}, "url": "file:///a%zz"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": true}, "url": "file:///a%00b"})"));
  EXPECT_FALSE(editable_root(R"({"dir_info": {"editable": true}, "url": "file:///src")"));
  EXPECT_FALSE(editable_root("[]"));
  EXPECT_FALSE(editable_root(std::string(50'000, '[')));
}

TEST(TorchVersion, IsReadFromPlainAndAnnotatedAssignments) {
  const auto torch = torch_version(
      "__all__ = ['__version__', 'cuda']\n__version__ = '2.11.0+cu130'\ndebug = False\n"
      "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n");
  EXPECT_EQ(torch.version, "2.11.0+cu130");
  EXPECT_EQ(torch.cuda, "13.0");
  const auto cpu = torch_version("__version__: str = \"2.11.0\"\ncuda = None\n  cuda = '1'\n");
  EXPECT_EQ(cpu.version, "2.11.0");
  EXPECT_EQ(cpu.cuda, "");
  EXPECT_EQ(torch_version("__version__ = compute()\n").version, "");
  EXPECT_EQ(torch_version("__version__ = '2.11").version, "");
}

TEST(VirtualEnvironmentConfig, ReadsHomeAndSystemPackages) {
  const auto config =
      virtual_environment_config("home = /usr/bin\nInclude-System-Site-Packages = True\n");
  EXPECT_EQ(config.home, "/usr/bin");
  EXPECT_TRUE(config.includes_system_packages);
  EXPECT_FALSE(
      virtual_environment_config("include-system-site-packages = false").includes_system_packages);
}

}  // namespace
}  // namespace opmux::discovery
