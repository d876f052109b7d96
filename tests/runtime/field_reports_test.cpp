// SPDX-License-Identifier: Apache-2.0
//
// What users of other systems reported: fallback in silence, switches that are not honoured,
// variables that decide by accident, one broken plugin that takes all down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <regex>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::binding_of;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

std::string manifest(const std::string& provider, int priority,
                     const std::string& function = "fake_answer",
                     const std::string& when = "device: cpu") {
  return "manifest: 1\nprovider: " + provider +
         "\nplugin: binds\npriority: " + std::to_string(priority) +
         "\nlibraries:\n  k: {distribution: " + provider + ", glob: \"" + provider +
         "/*.so\"}\noperators:\n  silu_and_mul:\n    - {library: k, required_symbols: " + function +
         ", returns: int, call: [input, out], when: {" + when + "}}\n";
}

class FieldReportsTest : public ::testing::Test {
 public:
  FieldReportsTest() {
    fs::copy_file(fakes::path("module_binds"), world_.manifests() / "opmux_binds.so");
  }
  ~FieldReportsTest() override { log::set_level(log::Level::kOff); }

  Options options() const {
    Options options;
    options.environments = {world_.folder() / "env"};
    options.manifests = {world_.manifests()};
    return options;
  }

  // The three ways in which the preferred provider cannot serve.
  void break_at_load() {
    world_.install("acme", "acme/kernels.so", fakes::path("abort"));
    world_.write_manifest("acme.yaml", manifest("acme", 90));
  }
  void break_at_validation() {
    world_.install("acme", "acme/kernels.so", fakes::path("none"));
    world_.write_manifest("acme.yaml", manifest("acme", 90, "fake_nothing"));
  }
  void break_at_the_call() {
    world_.install("acme", "acme/kernels.so", fakes::path("none"));
    world_.write_manifest(
        "acme.yaml", manifest("acme", 90, "fake_answer", "device: cpu, input: {dtype: float16}"));
  }

  World world_;
};

TEST_F(FieldReportsTest, F01AFallbackIsRightToldOnceAndCounted) {
  break_at_load();
  testing::EnvironmentGuard variables;
  variables.set("OPMUX_LOG", "warn");
  ::testing::internal::CaptureStderr();
  StatusOr<Runtime> runtime = Runtime::open(options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  for (int call = 0; call < 1000; ++call) {
    SiluCall silu;
    ASSERT_TRUE(silu.run(*runtime).ok());
    ASSERT_TRUE(silu.is_right());
  }
  std::fflush(stderr);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string line = "provider acme rejected: ";
  ASSERT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(said.find(line, said.find(line) + 1), std::string::npos) << said;
  const Report report = runtime->report();
  const BindingReport* acme = binding_of(report, "silu_and_mul", "acme");
  ASSERT_TRUE(acme->rejection);
  EXPECT_EQ(acme->rejection->rule, "probe.signal");
  EXPECT_EQ(report.find("silu_and_mul")->bindings[0].provider, "acme");
  EXPECT_EQ(acme->calls, 0u);
  EXPECT_EQ(binding_of(report, "silu_and_mul", "native")->calls, 1000u);
}

TEST_F(FieldReportsTest, F02StrictIsHonouredWhoeverAsksForItAndWhereverTheProviderFails) {
  const std::vector<std::pair<void (FieldReportsTest::*)(), std::string>> faults{
      {&FieldReportsTest::break_at_load, "probe.signal"},
      {&FieldReportsTest::break_at_validation, "contract.symbol_missing"},
      {&FieldReportsTest::break_at_the_call, "call.condition"}};
  const fs::path config = world_.folder() / "opmux.yaml";
  for (const auto& [fault, rule] : faults) {
    (this->*fault)();
    for (const char* way : {"variable", "file", "option", "none"}) {
      testing::EnvironmentGuard variables;
      Options asked = options();
      asked.config_file = config;
      const std::string word = way;
      world_.folder().write(
          "opmux.yaml",
          "config: 1\nstrict: " + std::string(word == "file" ? "true" : "false") + "\n");
      if (word == "variable") variables.set("OPMUX_STRICT", "1");
      if (word == "option") asked.strict = true;
      StatusOr<Runtime> runtime = Runtime::open(asked);
      ASSERT_TRUE(runtime.ok()) << runtime.status().message();
      SiluCall call;
      const Status status = call.run(*runtime);
      if (word == "none") {
        EXPECT_TRUE(status.ok()) << rule;
        EXPECT_EQ(call.provider.last_provider(), "native");
        continue;
      }
      ASSERT_FALSE(status.ok()) << way << " " << rule;
      ASSERT_NE(status.rejection(), nullptr);
      EXPECT_EQ(status.rejection()->rule, rule) << way;
      EXPECT_EQ(call.out[0], -77.0f) << "a refused call wrote its output";
    }
  }
}

// With an explicit environment no variable of another tool changes what is found.
TEST_F(FieldReportsTest, F04UnrelatedVariablesChangeNothing) {
  break_at_load();
  const auto text = [&] {
    Options asked = options();
    asked.use_cache = false;
    StatusOr<Runtime> runtime = Runtime::open(asked);
    EXPECT_TRUE(runtime.ok());
    Report report = runtime->report();
    report.seconds = 0;
    // Generations count over the process.
    report.generation = 0;
    report.history.clear();
    return std::regex_replace(to_json(report), std::regex("\"generation\": [0-9]+"), "");
  };
  testing::EnvironmentGuard variables;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "PYTHONHOME"})
    variables.unset(name);
  const std::string before = text();
  for (const auto& [name, value] : {std::pair{"CUDA_HOME", "/usr/local/cuda-99"},
                                    {"CUDA_PATH", "/usr/local/cuda-99"},
                                    {"LD_LIBRARY_PATH", ""},
                                    {"VIRTUAL_ENV", "/nowhere"},
                                    {"CONDA_PREFIX", "/nowhere"},
                                    {"PYTHONHOME", "/nowhere"}}) {
    testing::EnvironmentGuard one;
    one.set(name, value);
    EXPECT_EQ(text(), before) << name;
  }
}

TEST_F(FieldReportsTest, F06OneBrokenPluginLeavesTheOthers) {
  world_.write_manifest("declare.yaml",
                        "manifest: 1\ndeclare:\n  fake_first: {schema: \"fake_first(Tensor(a!) "
                        "out) -> ()\"}\n");
  const std::map<std::string, std::string> expected{{"first", ""},
                                                    {"no_elf", "contract.not_elf"},
                                                    {"folder", "discovery.module_missing"},
                                                    {"empty", "contract.not_elf"},
                                                    {"machine", "contract.wrong_machine"},
                                                    {"throws", "loader.module_refused"},
                                                    {"last", ""}};
  for (const auto& [name, rule] : expected) {
    std::string text =
        "manifest: 1\nprovider: NAME\nplugin: NAME\noperators:\n  fake_first: "
        "{module: fake_first, when: {device: cpu}}\n";
    for (int each = 0; each < 2; ++each) text.replace(text.find("NAME"), 4, name);
    world_.write_manifest((fs::path(name) / "manifest.yaml").string(), text);
    const fs::path module =
        world_.manifests() / name / std::string("opmux_").append(name).append(".so");
    fs::copy_file(fakes::path(name == "throws" ? "module_throws" : "module_none"), module);
    if (name == "no_elf") testing::write_whole(module, "not a library");
    if (name == "empty") testing::write_whole(module, "");
    if (name == "folder") {
      fs::remove(module);
      fs::create_directory(module);
    }
    if (name == "machine") {
      std::string content = testing::read_whole(module);
      content[18] = static_cast<char>(183);  // e_machine: AArch64
      testing::write_whole(module, content);
    }
  }
  StatusOr<Runtime> runtime = Runtime::open(options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  for (const auto& [name, rule] : expected) {
    const BindingReport* binding = binding_of(report, "fake_first", name);
    ASSERT_NE(binding, nullptr) << name;
    EXPECT_EQ(binding->callable, rule.empty()) << name;
    EXPECT_EQ(binding->rejection ? binding->rejection->rule : "", rule)
        << name << (binding->rejection ? to_string(*binding->rejection) : "");
  }
  SiluCall call;
  EXPECT_TRUE(call.run(*runtime).ok());
}

TEST_F(FieldReportsTest, F07ARequestedProviderThatDoesNotExistIsAnErrorWithTheNearest) {
  testing::EnvironmentGuard variables;
  Options asked = options();
  asked.config_file =
      world_.folder().write("opmux.yaml", "config: 1\nroutes:\n  \"*\": [vllm, flsh_attn]\n");
  const Status status = Runtime::open(asked).status();
  ASSERT_NE(status.rejection(), nullptr);
  EXPECT_EQ(status.rejection()->rule, "config.unknown_provider");
  EXPECT_THAT(status.rejection()->subject, HasSubstr("opmux.yaml:3:3"));
  EXPECT_THAT(status.rejection()->hint, HasSubstr("`flash_attn`"));
}

}  // namespace
}  // namespace opmux
