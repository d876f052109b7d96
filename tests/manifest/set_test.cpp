// SPDX-License-Identifier: Apache-2.0
//
// Several manifests: order, masks and duplicates, and what one broken file leaves intact.
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/manifest/support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

std::string provider(const std::string& name, int priority = 0) {
  return "manifest: 1\nprovider: " + name + "\nplugin: p\npriority: " + std::to_string(priority) +
         "\noperators: {silu_and_mul: {module: silu_and_mul, when: {device: cpu}}}\n";
}

std::string declaration(const std::string& name) {
  return "manifest: 1\ndeclare: {" + name + ": {schema: \"" + name + "(Tensor(a!) x) -> ()\"}}\n";
}

class Folders : public ::testing::Test {
 protected:
  void SetUp() override { write("shipped/operators/activation.yaml", declaration("silu_and_mul")); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream{root_ / name} << text;
  }

  // Folders by name, highest precedence first; `shipped` comes last.
  ManifestSet read(const std::vector<std::string>& above = {}) {
    ManifestSources sources;
    for (const std::string& name : above) sources.folders.push_back(root_ / name);
    sources.folders.push_back(root_ / "shipped");
    return read_manifests(sources);
  }

  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::string state(const ManifestSet& set, const std::string& name) const {
    for (const ManifestSet::File& file : set.files)
      if (file.path == root_ / name) return file.state;
    return "not seen";
  }

  static std::vector<std::string> providers(const ManifestSet& set) {
    std::vector<std::string> names;
    for (const Manifest& manifest : set.providers) names.push_back(manifest.provider);
    return names;
  }

  static std::string faults(const ManifestSet& set) {
    std::string text;
    for (const Rejection& rejection : set.rejections) text += to_string(rejection) + "\n";
    return text;
  }

  testing::TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

using Names = std::vector<std::string>;

TEST_F(Folders, ProvidersStandByPriorityThenNameNativeLast) {
  // Written in an order that no sorting gives.
  write("shipped/providers/native.yaml", provider("native", 100));
  write("shipped/providers/z.yaml", provider("beta", 10));
  write("shipped/providers/a.yaml", provider("native_cuda", 100));
  write("shipped/m.yaml", provider("alpha", 10));
  write("shipped/providers/b.yaml", provider("Zeta", 10));
  write("shipped/providers/c.yaml", provider("last", -1));
  write("shipped/providers/d.yaml", provider("first", 50));
  const ManifestSet set = read();
  EXPECT_EQ(faults(set), "");
  EXPECT_EQ(providers(set),
            (Names{"first", "Zeta", "alpha", "beta", "last", "native", "native_cuda"}));
  ASSERT_NE(set.find_declaration("silu_and_mul"), nullptr);
  EXPECT_EQ(set.find_declaration("nothing"), nullptr);
  std::vector<fs::path> seen;
  for (const ManifestSet::File& file : set.files) seen.push_back(file.path);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_F(Folders, AFileOfAHigherFolderReplacesTheOneOfItsName) {
  write("shipped/operators/norm.yaml", declaration("norm"));
  write("shipped/mine.yaml", provider("mine", 1));
  write("high/mine.yaml", provider("other", 2));
  write("high/operators/norm.yaml", declaration("other_norm"));
  const ManifestSet set = read({"high"});
  EXPECT_EQ(faults(set), "");
  EXPECT_EQ(providers(set), Names{"other"});
  EXPECT_EQ(state(set, "high/mine.yaml"), "read");
  EXPECT_EQ(state(set, "shipped/mine.yaml"), "masked by " + path("high/mine.yaml"));
  EXPECT_EQ(set.find_declaration("norm"), nullptr);
  EXPECT_NE(set.find_declaration("other_norm"), nullptr);
}

TEST_F(Folders, ADropInMasksAShippedProviderByItsFileName) {
  write("shipped/providers/vllm.yaml", provider("vllm"));
  write("high/vllm.yaml", provider("mine"));
  const ManifestSet set = read({"high"});
  EXPECT_EQ(providers(set), Names{"mine"});
  EXPECT_EQ(state(set, "shipped/providers/vllm.yaml"), "masked by " + path("high/vllm.yaml"));
}

TEST_F(Folders, AnEmptyFileAndALinkToDevNullHide) {
  write("shipped/a.yaml", provider("a"));
  write("shipped/b.yaml", provider("b"));
  write("shipped/c.yaml", provider("c"));
  write("high/a.yaml", "");
  fs::create_symlink("/dev/null", root_ / "high/b.yaml");
  // Hiding something else by name takes the same name.
  write("high/sub/c.yaml", "");
  const ManifestSet set = read({"high"});
  EXPECT_EQ(faults(set), "");
  EXPECT_EQ(providers(set), Names{"c"});
  EXPECT_EQ(state(set, "shipped/a.yaml"), "hidden by " + path("high/a.yaml"));
  EXPECT_EQ(state(set, "shipped/b.yaml"), "hidden by " + path("high/b.yaml"));
  EXPECT_EQ(state(set, "high/a.yaml"), "hides files of this name");
  EXPECT_EQ(state(set, "shipped/c.yaml"), "read");
}

TEST_F(Folders, AnEmptyFileThatHidesNothingSaysWhichPathWould) {
  write("shipped/providers/vllm.yaml", provider("vllm"));
  write("low/mine/mine.yaml", provider("mine"));
  write("low/mine.yaml", "");
  write("low/nobody.yaml", "");
  write("low/other/vllm.yaml", "");
  write("high/mine.yaml", "");
  const ManifestSet set = read({"high", "low"});
  EXPECT_EQ(providers(set), (Names{"mine", "vllm"}));
  EXPECT_EQ(state(set, "low/nobody.yaml"), "hides nothing: no folder below has nobody.yaml");
  EXPECT_EQ(state(set, "low/other/vllm.yaml"),
            "hides nothing: no folder below has other/vllm.yaml; " +
                path("shipped/providers/vllm.yaml") + " would be hidden by an empty " +
                path("low/vllm.yaml"));
  EXPECT_EQ(state(set, "high/mine.yaml"), "hides files of this name") << "the one of low";
}

TEST_F(Folders, AnEmptyFileBesideTheFolderOfAPluginSaysWhereAMaskBelongs) {
  write("low/mine/mine.yaml", provider("mine"));
  write("low/mine.yaml", "");
  const ManifestSet set = read({"low"});
  EXPECT_EQ(providers(set), Names{"mine"});
  EXPECT_EQ(state(set, "low/mine.yaml"),
            "hides nothing: no folder below has mine.yaml; " + path("low/mine/mine.yaml") +
                " would be hidden by an empty mine/mine.yaml in a folder above " + path("low"));
}

TEST_F(Folders, TheHighestOfThreeFoldersDecides) {
  write("shipped/a.yaml", provider("shipped_a"));
  write("middle/a.yaml", "");
  write("high/a.yaml", provider("high_a"));
  const ManifestSet set = read({"high", "middle"});
  EXPECT_EQ(providers(set), Names{"high_a"});
  EXPECT_EQ(state(set, "middle/a.yaml"), "masked by " + path("high/a.yaml"));
  EXPECT_EQ(state(set, "shipped/a.yaml"), "masked by " + path("high/a.yaml"));
}

TEST_F(Folders, ARefusedFileStillMasks) {
  write("shipped/a.yaml", provider("a"));
  write("high/a.yaml", "manifest: [\n");
  const ManifestSet set = read({"high"});
  EXPECT_TRUE(set.providers.empty());
  EXPECT_EQ(state(set, "high/a.yaml"), "rejected");
  EXPECT_EQ(state(set, "shipped/a.yaml"), "masked by " + path("high/a.yaml"));
}

// Field report F10: two files that bind the same.
TEST_F(Folders, TwoManifestsOfOneProviderInOneFolderAreBothRefused) {
  write("shipped/a.yaml", provider("vllm", 1));
  write("shipped/b.yaml", provider("vllm", 2));
  write("shipped/c.yaml", provider("c"));
  const ManifestSet set = read();
  EXPECT_EQ(providers(set), Names{"c"});
  ASSERT_EQ(set.rejections.size(), 2U) << faults(set);
  EXPECT_EQ(set.rejections[0].rule, "manifest.duplicate");
  EXPECT_EQ(set.rejections[0].subject, path("shipped/a.yaml") + ":2:11");
  EXPECT_EQ(set.rejections[0].expected, "one manifest with `provider: vllm` in a folder");
  EXPECT_EQ(set.rejections[0].found, "another one: " + path("shipped/b.yaml"));
  EXPECT_EQ(set.rejections[1].subject, path("shipped/b.yaml") + ":2:11");
  EXPECT_EQ(set.rejections[1].found, "another one: " + path("shipped/a.yaml"));
}

TEST_F(Folders, OfOneProviderInTwoFoldersTheHigherCounts) {
  write("shipped/providers/vllm.yaml", provider("vllm", 1));
  write("high/mine.yaml", provider("vllm", 2));
  const ManifestSet set = read({"high"});
  EXPECT_EQ(faults(set), "");
  ASSERT_EQ(providers(set), Names{"vllm"});
  EXPECT_EQ(set.providers[0].priority, 2);
  EXPECT_EQ(state(set, "shipped/providers/vllm.yaml"), "masked by " + path("high/mine.yaml"));
}

TEST_F(Folders, TwoDeclarationsOfOneOperatorInOneFolderAreBothRefused) {
  write("shipped/a.yaml", declaration("norm"));
  write("shipped/b.yaml", declaration("norm"));
  const ManifestSet set = read();
  EXPECT_EQ(set.find_declaration("norm"), nullptr);
  EXPECT_NE(set.find_declaration("silu_and_mul"), nullptr);
  ASSERT_EQ(set.rejections.size(), 2U) << faults(set);
  EXPECT_EQ(set.rejections[0].rule, "manifest.duplicate");
  EXPECT_EQ(set.rejections[0].subject, path("shipped/a.yaml") + ":2:11");
  EXPECT_EQ(set.rejections[0].found, "another one: " + path("shipped/b.yaml") + ":2:11");
  EXPECT_EQ(set.rejections[1].found, "another one: " + path("shipped/a.yaml") + ":2:11");
}

TEST_F(Folders, AHigherFolderDoesNotRedefineAnOperator) {
  write("shipped/providers/native.yaml", provider("native"));
  write("high/mine.yaml",
        "manifest: 1\ndeclare: {silu_and_mul: {schema: \"silu_and_mul(int n) -> ()\"}}\n");
  const ManifestSet set = read({"high"});
  ASSERT_NE(set.find_declaration("silu_and_mul"), nullptr);
  EXPECT_EQ(set.find_declaration("silu_and_mul")->schema_text, "silu_and_mul(Tensor(a!) x) -> ()");
  EXPECT_EQ(providers(set), Names{"native"});
  ASSERT_EQ(set.rejections.size(), 1U) << faults(set);
  EXPECT_EQ(set.rejections[0].rule, "manifest.duplicate");
  EXPECT_EQ(set.rejections[0].subject, path("high/mine.yaml") + ":2:11");
  EXPECT_EQ(set.rejections[0].found,
            "another one: " + path("shipped/operators/activation.yaml") + ":2:11");
  EXPECT_EQ(state(set, "high/mine.yaml"), "rejected");
}

TEST_F(Folders, OneBrokenFileNeverPreventsOthers) {
  write("shipped/providers/native.yaml", provider("native"));
  const std::vector<std::pair<std::string, std::string>> broken{
      {"bad_comment.yaml", "# nothing but this\n"},
      {"bad_dashes.yaml", "---\n"},
      {"bad_bytes.yaml", "\xFF\xFE\xFA"},
      {"bad_deep.yaml", std::string(100000, '[')},
      {"bad_large.yaml", std::string(300000, 'x')},
      {"bad_keys.yaml", provider("x") + "colour: red\n"},
      {"bad_second.yaml", provider("y") + "---\n" + provider("z")}};
  for (const auto& [name, text] : broken) write("shipped/" + name, text);
  fs::create_directory(root_ / "shipped/bad_folder.yaml");
  ASSERT_EQ(mkfifo((root_ / "shipped/bad_pipe.yaml").c_str(), 0600), 0);
  fs::create_symlink(root_ / "nowhere", root_ / "shipped/bad_link.yaml");
  const ManifestSet set = read();
  EXPECT_EQ(providers(set), Names{"native"});
  EXPECT_EQ(set.rejections.size(), broken.size() + 3) << faults(set);
  for (const ManifestSet::File& file : set.files)
    EXPECT_EQ(file.state, file.path.filename().string().starts_with("bad_") ? "rejected" : "read")
        << file.path;
}

TEST_F(Folders, ABindingWithoutADeclarationLeavesTheOthersOfItsFile) {
  write("shipped/operators/norm.yaml", "manifest: 1\ndeclare: {norm: {schema: broken}}\n");
  write("shipped/providers/native.yaml",
        provider("native").substr(0, provider("native").size() - 2) +
            ", norm: {module: norm, when: {device: cpu}}, silu: {module: silu}}\n");
  const ManifestSet set = read();
  ASSERT_EQ(providers(set), Names{"native"});
  ASSERT_EQ(set.providers[0].operators.size(), 1U);
  EXPECT_EQ(set.providers[0].operators[0].operator_name, "silu_and_mul");
  std::vector<std::string> hints;
  for (const Rejection& rejection : set.rejections)
    if (rejection.rule == "manifest.reference") hints.push_back(rejection.found + rejection.hint);
  EXPECT_EQ(hints, (Names{"`norm`Its declaration was refused with " +
                              path("shipped/operators/norm.yaml") + ".",
                          "`silu`Declare it, or correct the name."}));
}

TEST_F(Folders, FoldersThatAreMissingAreNamed) {
  write("file", "");
  const ManifestSet set = read({"nowhere", "file"});
  ASSERT_EQ(set.rejections.size(), 2U);
  EXPECT_EQ(set.rejections[0].rule, "manifest.missing");
  EXPECT_EQ(set.rejections[0].subject, path("nowhere"));
  EXPECT_EQ(set.rejections[0].found, "nothing");
  EXPECT_EQ(set.rejections[1].found, "another kind of file");
  EXPECT_NE(set.find_declaration("silu_and_mul"), nullptr);
}

TEST_F(Folders, OnlyYamlFilesOneLevelDownCount) {
  write("shipped/.hidden.yaml", "x");
  write("shipped/notes.txt", "x");
  write("shipped/a.yml", provider("a"));
  write("shipped/deep/er/b.yaml", provider("b"));
  write("shipped/deep/c.yaml", provider("c"));
  const ManifestSet set = read();
  EXPECT_EQ(faults(set), "");
  EXPECT_EQ(providers(set), Names{"c"});
  EXPECT_EQ(state(set, "shipped/a.yml"), "not read: its name does not end in .yaml");
  EXPECT_EQ(state(set, "shipped/deep/er/b.yaml"), "not seen");
}

TEST_F(Folders, NamedFilesAreReadBesideDeclarationsOnly) {
  write("shipped/providers/vllm.yaml",
        provider("vllm") + "declare: {gelu_quick: {schema: \"gelu_quick(Tensor(a!) x) -> ()\"}}\n");
  write("shipped/providers/other.yaml", provider("other"));
  write("mine.yaml", provider("vllm", 7) +
                         "declare: {gelu_quick: {schema: \"gelu_quick(Tensor(a!) y) -> ()\"}}\n");
  ManifestSources sources;
  sources.files = {root_ / "mine.yaml", root_ / "nowhere.yaml"};
  sources.declaration_folders = {root_ / "shipped"};
  const ManifestSet set = read_manifests(sources);
  ASSERT_EQ(providers(set), Names{"vllm"});
  EXPECT_EQ(set.providers[0].priority, 7);
  EXPECT_NE(set.find_declaration("silu_and_mul"), nullptr);
  EXPECT_EQ(set.find_declaration("gelu_quick")->schema_text, "gelu_quick(Tensor(a!) y) -> ()");
  ASSERT_EQ(set.rejections.size(), 1U) << faults(set);
  EXPECT_EQ(set.rejections[0].rule, "manifest.missing");
  EXPECT_EQ(set.rejections[0].subject, path("nowhere.yaml"));
}

TEST_F(Folders, AShippedManifestCanBeNamedItself) {
  write("shipped/providers/vllm.yaml",
        provider("vllm") + "declare: {gelu_quick: {schema: \"gelu_quick(Tensor(a!) x) -> ()\"}}\n");
  ManifestSources sources;
  sources.files = {root_ / "shipped/providers/vllm.yaml",
                   root_ / "shipped/operators/activation.yaml"};
  sources.declaration_folders = {root_ / "shipped"};
  const ManifestSet set = read_manifests(sources);
  EXPECT_EQ(faults(set), "");
  EXPECT_EQ(providers(set), Names{"vllm"});
  EXPECT_EQ(set.declarations.size(), 2U);
}

TEST_F(Folders, ANamedFileThatIsEmptyIsRefused) {
  write("mine.yaml", "");
  ManifestSources sources;
  sources.files = {root_ / "mine.yaml"};
  const ManifestSet set = read_manifests(sources);
  ASSERT_EQ(set.rejections.size(), 1U);
  EXPECT_EQ(set.rejections[0].rule, "yaml.empty");
}

TEST(ShippedManifests, AreAllAccepted) {
  ManifestSources sources;
  sources.folders = {fs::path{OPMUX_SOURCE_DIR} / "manifests"};
  const ManifestSet set = read_manifests(sources);
  for (const Rejection& rejection : set.rejections) ADD_FAILURE() << to_string(rejection);
  ASSERT_FALSE(set.providers.empty());
  EXPECT_EQ(set.providers.back().provider.substr(0, 6), "native");
  for (const OperatorDeclaration& declaration : set.declarations)
    EXPECT_TRUE(declaration.example) << declaration.name;
}

}  // namespace
}  // namespace opmux
