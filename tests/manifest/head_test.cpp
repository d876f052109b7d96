// SPDX-License-Identifier: Apache-2.0
//
// The top level of a manifest and its libraries.
#include "tests/manifest/support.hpp"

namespace opmux {
namespace {

const char* const kOperators =
    "operators:\n  silu_and_mul: {module: silu_and_mul, when: {device: cpu}}\n";

std::string provider(const std::string& lines) {
  return "manifest: 1\nprovider: p\nplugin: p\n" + lines + kOperators;
}

TEST(ManifestHead, EveryKeyOfAProviderIsRead) {
  const Manifest manifest = accepted(
      "manifest: 1\n"
      "provider: vllm\n"
      "plugin: vllm_module\n"
      "priority: -5\n"
      "requires: {torch: \">=2.11\", cuda: 13.*, driver: \">=13.0\"}\n"
      "libraries:\n"
      "  c: {distribution: Flash_Attn.x, glob: vllm/_C.*.so, version: \"!=0.21\", "
      "python_extension: "
      "true, optional: true}\n"
      "  v:\n"
      "    - {glob: v_avx512.so, cpu: [avx512f, avx512_bf16], optional: true}\n"
      "    - {glob: v_avx2.so, cpu: avx2, libpython: true}\n" +
          std::string{kOperators},
      operators());
  EXPECT_EQ(manifest.file, "m.yaml");
  EXPECT_EQ(manifest.provider, "vllm");
  EXPECT_EQ(manifest.plugin, "vllm_module");
  EXPECT_EQ(manifest.priority, -5);
  EXPECT_EQ(manifest.requires_.torch->text(), ">=2.11");
  EXPECT_EQ(manifest.requires_.cuda->text(), "13.*");
  EXPECT_EQ(manifest.requires_.driver->text(), ">=13.0");
  ASSERT_EQ(manifest.libraries.size(), 2U);
  const Library& c = *manifest.find_library("c");
  ASSERT_EQ(c.candidates.size(), 1U);
  EXPECT_TRUE(c.optional);
  EXPECT_EQ(c.candidates[0].distribution, "flash-attn-x");
  EXPECT_EQ(c.candidates[0].glob, "vllm/_C.*.so");
  EXPECT_EQ(c.candidates[0].version->text(), "!=0.21");
  EXPECT_TRUE(c.candidates[0].python_extension);
  EXPECT_EQ(to_string(c.location), "m.yaml:7:3");
  const Library& v = *manifest.find_library("v");
  EXPECT_TRUE(v.optional);
  ASSERT_EQ(v.candidates.size(), 2U);
  EXPECT_EQ(v.candidates[0].cpu, (std::vector<std::string>{"avx512f", "avx512_bf16"}));
  EXPECT_FALSE(c.candidates[0].libpython);
  EXPECT_FALSE(v.candidates[0].libpython);
  EXPECT_TRUE(v.candidates[1].libpython);
  EXPECT_FALSE(v.candidates[1].python_extension);
  EXPECT_EQ(v.candidates[1].cpu, (std::vector<std::string>{"avx2"}));
  EXPECT_EQ(to_string(v.candidates[1].location), "m.yaml:10:7");
  EXPECT_EQ(manifest.find_library("nothing"), nullptr);
}

TEST(ManifestHead, TextKeepsItsFormAndTypedValuesHaveOne) {
  // Field report F09.
  const Manifest manifest = accepted(
      provider("libraries:\n  c: {distribution: no, glob: 1.10, version: 1.10}\n"), operators());
  EXPECT_EQ(manifest.libraries[0].candidates[0].distribution, "no");
  EXPECT_EQ(manifest.libraries[0].candidates[0].glob, "1.10");
  EXPECT_EQ(manifest.libraries[0].candidates[0].version->text(), "1.10");
}

struct HeadCase {
  const char* lines;
  const char* rule;
  const char* subject;
  const char* expected;
  const char* found;
};

class ProviderFault : public testing::TestWithParam<HeadCase> {};

TEST_P(ProviderFault, IsNamed) {
  const Rejection rejection = refused_once(provider(GetParam().lines), operators());
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject, GetParam().subject);
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

const char* const kGlobForm = "`glob`: a relative path that stays in its root, e.g. vllm/_C.*.so";

INSTANTIATE_TEST_SUITE_P(
    Table, ProviderFault,
    testing::Values(
        HeadCase{"priority: 010\n", "yaml.wrong_form", "m.yaml:4:11",
                 "`priority`: an integer in decimal digits, without quotes, leading zeros or "
                 "exponent, from -1000000 to 1000000",
                 "`010`"},
        HeadCase{"priority: \"5\"\n", "yaml.wrong_form", "m.yaml:4:11",
                 "`priority`: an integer in decimal digits, without quotes, leading zeros or "
                 "exponent, from -1000000 to 1000000",
                 "the quoted text `5`"},
        HeadCase{"requires: {torch: 2.0e1}\n", "yaml.wrong_form", "m.yaml:4:19",
                 "`torch`: a range as PEP 440 writes it, e.g. \">=2.11,!=2.12.0\" or \"13.*\"",
                 "`2.0e1`: `2.0e1` is no version"},
        HeadCase{"requires: {tourch: \">=2\"}\n", "yaml.unknown_key", "m.yaml:4:12",
                 "a key of `requires`: torch, cuda, driver", "`tourch`"},
        HeadCase{"properties: deterministic\n", "yaml.wrong_form", "m.yaml:4:13",
                 "`properties`: a list of deterministic, graph_capture, in_place",
                 "`deterministic`"},
        HeadCase{"properties: [in_place, inplace]\n", "yaml.wrong_form", "m.yaml:4:24",
                 "`properties`: a property, one of deterministic, graph_capture, in_place",
                 "`inplace`"},
        HeadCase{"glob: c.so\n", "yaml.unknown_key", "m.yaml:4:1",
                 "a key of the manifest: manifest, provider, plugin, priority, requires, "
                 "properties, libraries, operators, declare",
                 "`glob`"},
        HeadCase{"libraries:\n  c: {glob: c.so, optional: \"false\"}\n", "yaml.wrong_form",
                 "m.yaml:5:29", "`optional`: true or false, without quotes",
                 "the quoted text `false`"},
        HeadCase{"libraries:\n  c: {glob: c.so, python_extension: yes}\n", "yaml.wrong_form",
                 "m.yaml:5:37", "`python_extension`: true or false, without quotes", "`yes`"},
        HeadCase{"libraries:\n  c: {glob: c.so, libpython: \"true\"}\n", "yaml.wrong_form",
                 "m.yaml:5:30", "`libpython`: true or false, without quotes",
                 "the quoted text `true`"},
        HeadCase{"libraries:\n  c: {glob: c.so, python_extension: true, libpython: true}\n",
                 "yaml.wrong_form", "m.yaml:5:54",
                 "`python_extension` (Python's functions may be absent) or `libpython` (Python is "
                 "mapped before it)",
                 "both"},
        HeadCase{"libraries:\n  c: {distribution: x}\n", "yaml.missing_key", "m.yaml:5:6",
                 "the key `glob` in library `c`", "no such key"},
        HeadCase{"libraries:\n  c: {glob: /lib/c.so}\n", "yaml.wrong_form", "m.yaml:5:13",
                 kGlobForm, "an absolute path: `/lib/c.so`"},
        HeadCase{"libraries:\n  c: {glob: a/../../c.so}\n", "yaml.wrong_form", "m.yaml:5:13",
                 kGlobForm, "a path with ..: `a/../../c.so`"},
        HeadCase{"libraries:\n  c: {glob: \"\"}\n", "yaml.wrong_form", "m.yaml:5:13", kGlobForm,
                 "an empty text: ``"},
        HeadCase{"libraries:\n  c: {glob: c.so, distribution: \"-x\"}\n", "yaml.wrong_form",
                 "m.yaml:5:33",
                 "`distribution`: the name of a Python distribution: letters, digits, - _ .",
                 "`-x`"},
        HeadCase{"libraries:\n  c: {glob: c.so, version: \">1\"}\n", "yaml.missing_key",
                 "m.yaml:5:28", "`distribution` beside `version`, which is its version",
                 "no such key"},
        HeadCase{"libraries:\n  c: {glob: c.so, cpu: [AVX2]}\n", "yaml.wrong_form", "m.yaml:5:24",
                 "`cpu`: features as /proc/cpuinfo names them, e.g. avx2, avx512f, amx_tile",
                 "`AVX2`"},
        HeadCase{"libraries:\n  c: [{glob: c.so}, {glob: d.so, optional: true}]\n",
                 "yaml.wrong_form", "m.yaml:5:44",
                 "`optional` at the library's first candidate, for the whole library",
                 "`optional` at a later candidate"},
        HeadCase{"libraries:\n  c: []\n", "yaml.wrong_form", "m.yaml:5:6",
                 "library `c`: a map, or a list of maps in the order to try", "an empty list"},
        HeadCase{"libraries: c.so\n", "yaml.wrong_form", "m.yaml:4:12", "`libraries`: a map",
                 "`c.so`"}));

struct TextCase {
  const char* text;
  const char* rule;
  const char* subject;
  const char* expected;
  const char* found;
};

class ManifestFault : public testing::TestWithParam<TextCase> {};

TEST_P(ManifestFault, IsNamed) {
  const Rejection rejection = refused_once(GetParam().text, operators());
  EXPECT_EQ(rejection.rule, GetParam().rule);
  EXPECT_EQ(rejection.subject, GetParam().subject);
  EXPECT_EQ(rejection.expected, GetParam().expected);
  EXPECT_EQ(rejection.found, GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ManifestFault,
    testing::Values(
        TextCase{"", "yaml.empty", "m.yaml:1:1", "one YAML document", "none"},
        TextCase{"[1]\n", "yaml.wrong_form", "m.yaml:1:1", "the manifest: a map", "a list"},
        TextCase{"provider: p\n", "yaml.missing_key", "m.yaml:1:1",
                 "the key `manifest` in the manifest", "no such key"},
        // Keys of a newer grammar are not held against this one.
        TextCase{"manifest: 2\nnew_key: 1\n", "manifest.version", "m.yaml:1:11", "`manifest: 1`",
                 "`2`"},
        TextCase{"manifest: 1.1\n", "manifest.version", "m.yaml:1:11", "`manifest: 1`", "`1.1`"},
        TextCase{"manifest: \"1\"\n", "manifest.version", "m.yaml:1:11", "`manifest: 1`",
                 "the quoted text `1`"},
        TextCase{"manifest: 1\n", "yaml.missing_key", "m.yaml:1:1",
                 "the key `provider`, the key `declare`, or both", "neither"},
        TextCase{"manifest: 1\nprovider: ../p\nplugin: p\noperators: {silu_and_mul: {module: x, "
                 "when: {device: cpu}}}\n",
                 "yaml.wrong_form", "m.yaml:2:11",
                 "`provider`: a name of letters, digits and _, first a letter", "`../p`"},
        TextCase{"manifest: 1\nprovider: p\noperators: {silu_and_mul: {module: x, when: {device: "
                 "cpu}}}\n",
                 "yaml.missing_key", "m.yaml:1:1", "the key `plugin` in the manifest",
                 "no such key"},
        TextCase{"manifest: 1\nprovider: p\nplugin: p\n", "yaml.missing_key", "m.yaml:1:1",
                 "the key `operators` in the manifest", "no such key"},
        TextCase{"manifest: 1\nprovider: p\nplugin: p\noperators: {}\n", "yaml.wrong_form",
                 "m.yaml:4:12", "`operators`: at least one operator", "an empty map"},
        TextCase{"manifest: 1\nprovider: p\nplugin: p\noperators: {silu_and_mul: []}\n",
                 "yaml.wrong_form", "m.yaml:4:27",
                 "operator `silu_and_mul`: an alternative, or a list of alternatives in the order "
                 "to try",
                 "an empty list"},
        TextCase{"manifest: 1\nprovider: p\nplugin: p\noperators: {silu_and_mull: {module: x}}\n",
                 "manifest.reference", "m.yaml:4:13", "an operator that is declared",
                 "`silu_and_mull`"}));

TEST(ManifestHead, AnUndeclaredOperatorNamesTheNearest) {
  EXPECT_EQ(refused_once("manifest: 1\nprovider: p\nplugin: p\noperators: {silu_and_mull: {}}\n",
                         operators())
                .hint,
            "Did you mean `silu_and_mul`?");
}

TEST(ManifestHead, ProviderKeysWithoutAProviderAreRefused) {
  const std::vector<Rejection> rejections =
      refused("manifest: 1\npriority: 1\ndeclare: {}\n", operators());
  ASSERT_EQ(rejections.size(), 2U);
  EXPECT_EQ(rejections[0].rule, "yaml.missing_key");
  EXPECT_EQ(rejections[0].expected, "the key `provider` beside `priority`");
  EXPECT_EQ(rejections[1].expected, "`declare`: at least one operator");
}

TEST(ManifestHead, SeveralFaultsOfOneFileAreAllReported) {
  const std::vector<Rejection> rejections = refused(
      "manifest: 1\n"
      "provider: p\n"
      "plugin: p\n"
      "prioritty: 1\n"
      "requires: {torch: x}\n"
      "libraries: {c: {blob: c.so}}\n"
      "operators:\n"
      "  silu_and_mul: {module: a, when: {device: tpu}}\n"
      "  norm: {module: b}\n",
      operators());
  std::vector<std::string> found;
  for (const Rejection& rejection : rejections)
    found.push_back(rejection.rule + " " + rejection.subject);
  // An unknown key at the top is found in both passes over it and still said once.
  EXPECT_EQ(found, (std::vector<std::string>{
                       "yaml.unknown_key m.yaml:4:1", "yaml.wrong_form m.yaml:5:19",
                       "yaml.unknown_key m.yaml:6:17", "yaml.missing_key m.yaml:6:16",
                       "manifest.condition m.yaml:8:44", "yaml.missing_key m.yaml:9:9"}));
}

TEST(ManifestHead, NoMoreThanTwentyFaultsAreReported) {
  std::string text = "manifest: 1\ndeclare:\n";
  for (int i = 0; i < 100; ++i) text += "  op" + std::to_string(i) + ": {schema: x}\n";
  EXPECT_EQ(refused(text).size(), 20U);
}

TEST(ManifestHead, ADeclarationThatExistsElsewhereIsADuplicate) {
  const Rejection rejection = refused_once(
      "manifest: 1\ndeclare:\n  silu_and_mul: {schema: \"silu_and_mul(Tensor x) -> ()\"}\n",
      operators());
  EXPECT_EQ(rejection.rule, "manifest.duplicate");
  EXPECT_EQ(rejection.subject, "m.yaml:3:3");
  EXPECT_EQ(rejection.found, "another one at m.yaml:3:3");
}

}  // namespace
}  // namespace opmux
