// SPDX-License-Identifier: Apache-2.0
//
// A provider of higher priority than native that is wrong in one way. Whatever is wrong: the
// rejection has its own rule, native serves the call, strict mode repeats the rejection, and this
// process lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

constexpr const char* kSchema = "silu_and_mul(Tensor! out, Tensor input, float scale=1.0) -> ()";
constexpr const char* kLibrary = "acme/_C.abi3.so";

constexpr const char* kManifest = R"yaml(manifest: 1
provider: acme
plugin: vllm
priority: 90
requires: {torch: ">=2"}
libraries:
  c: {distribution: acme, glob: "acme/_C.*.so"}
operators:
  silu_and_mul:
    - library: c
      schema: "acme::silu_and_mul(Tensor! out, Tensor input, float scale=1.0) -> ()"
      dispatch_key: CPU
      call: [out, input]
)yaml";

struct Fault {
  std::string name;
  std::function<void(World&, const fs::path& library)> apply;
  std::string rule;
  std::string expected;  // part of the rejection's text
  std::string found;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// The library with another schema written into it.
Fault other_schema(const std::string& name, const std::string& schema,
                   const std::string& difference) {
  return {name,
          [schema](World&, const fs::path& library) { testing::patch(library, kSchema, schema); },
          "contract.schema_mismatch", std::string("acme::") + kSchema, difference};
}

// A constructor that misbehaves: one of the libraries of tests/fakes.
Fault constructor(const std::string& fake, const std::string& rule, const std::string& expected,
                  const std::string& found) {
  return {"constructor_" + fake,
          [fake](World&, const fs::path& library) {
            fs::copy_file(fakes::path(fake), library, fs::copy_options::overwrite_existing);
          },
          rule, expected, found};
}

Fault cut(double share) {
  const std::string percent = std::to_string(static_cast<int>(share * 100));
  return {"cut_at_" + percent + "_percent",
          [share](World&, const fs::path& library) {
            // At a step of 512 bytes.
            const auto size = static_cast<double>(fs::file_size(library));
            fs::resize_file(library, static_cast<std::uintmax_t>(size * share) / 512 * 512);
          },
          "contract.truncated", "inside the file", "e_"};
}

std::vector<Fault> faults() {
  return {
      {"removed",
       [](World& world, const fs::path&) {
         fs::remove_all(world.folder() / "env/lib/python3.12/site-packages/acme-1.0.dist-info");
       },
       "discovery.distribution_missing", "acme", ""},
      {"renamed",
       [](World&, const fs::path& library) {
         fs::rename(library, library.parent_path() / "other.so");
       },
       "discovery.no_match", "one file of acme 1.0", "acme/_C.*.so"},
      cut(0.02),
      cut(0.1),
      cut(0.3),
      cut(0.5),
      cut(0.7),
      cut(0.9),
      cut(0.999),
      {"emptied", [](World&, const fs::path& library) { fs::resize_file(library, 0); },
       "contract.not_elf", "ELF", "empty"},
      {"text",
       [](World&, const fs::path& library) { testing::write_whole(library, "not a library\n"); },
       "contract.not_elf", "ELF", ""},
      other_schema("other_type", "silu_and_mul(Tensor! out, Tensor input, int scale=1) -> ()",
                   "expected float, found int"),
      other_schema("other_name", "silu_and_mul(Tensor! out, Tensor input, float limit=1.0) -> ()",
                   "limit"),
      other_schema("other_default",
                   "silu_and_mul(Tensor! out, Tensor input, float scale=2.0) -> ()", "2"),
      other_schema("other_alias_mark",
                   "silu_and_mul(Tensor out, Tensor input, float scale=1.0) -> ()", "written"),
      other_schema("other_return",
                   "silu_and_mul(Tensor! out, Tensor input, float scale=1.0) -> Tensor", "return"),
      other_schema("surplus_argument",
                   "silu_and_mul(Tensor! out, Tensor input, float scale=1.0, int n=0) -> ()",
                   "argument 4 `n` is surplus"),
      {"operator_missing",
       [](World&, const fs::path& library) {
         testing::patch(library, kSchema,
                        "silu_and_nul(Tensor! out, Tensor input, float scale=1.0) -> ()");
       },
       "contract.operator_missing", "acme::silu_and_mul", "silu_and_nul"},
      {"dispatch_key_missing",
       [](World&, const fs::path& library) {
         fs::copy_file(OPMUX_ACME_NO_KERNEL, library, fs::copy_options::overwrite_existing);
       },
       "contract.dispatch_key_missing", "CPU", ""},
      {"two_matches",
       [](World& world, const fs::path& library) {
         fs::copy_file(library, library.parent_path() / "_C.old.so");
         world.folder().write("env/lib/python3.12/site-packages/acme-1.0.dist-info/RECORD",
                              "acme/_C.abi3.so,,\nacme/_C.old.so,,\n");
       },
       "discovery.many_matches", "one", "_C.old.so"},
      {"link_out_of_the_root",
       [](World& world, const fs::path& library) {
         fs::rename(library, world.folder() / "elsewhere.so");
         fs::create_symlink(world.folder() / "elsewhere.so", library);
       },
       "discovery.outside_root", "", "elsewhere.so"},
      constructor("abort", "probe.signal", "it is loaded without a signal",
                  "probe ended by SIGABRT"),
      constructor("illegal", "probe.signal", "it is loaded without a signal",
                  "probe ended by SIGILL"),
      constructor("segfault", "probe.signal", "it is loaded without a signal",
                  "probe ended by SIGSEGV"),
      constructor("throw", "probe.exception", "static constructors that do not throw",
                  "fake: no kernel image"),
      constructor("quick_exit_0", "probe.exit", "it is loaded and the process goes on",
                  "probe exited with code 0"),
      constructor("exit_0", "probe.exit", "it is loaded and the process goes on",
                  "probe exited with code 0"),
      constructor("sleep", "probe.deadline", "within the deadline of 3",
                  "it was still being loaded"),
      constructor("print", "probe.output", "at most 16 MiB of output", "more than that"),
  };
}

class ProviderFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(ProviderFaultTest, IsToldAndNativeServes) {
  OPMUX_REQUIRE_PROVIDERS();
  const Fault& fault = GetParam();
  World world;
  const fs::path library = world.install("acme", kLibrary, OPMUX_ACME_GOOD);
  world.write_manifest("acme.yaml", kManifest);
  fault.apply(world, library);
  testing::EnvironmentGuard variables;
  // Long enough for torch on a busy machine, short enough to wait for.
  variables.set("OPMUX_PROBE_DEADLINE", fault.rule == "probe.deadline" ? "3s" : "60s");

  StatusOr<Runtime> runtime = Runtime::open(world.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  EXPECT_FALSE(binding->usable);
  EXPECT_FALSE(binding->callable);
  ASSERT_TRUE(binding->rejection.has_value());
  EXPECT_EQ(binding->rejection->rule, fault.rule) << to_string(*binding->rejection);
  EXPECT_THAT(binding->rejection->expected, HasSubstr(fault.expected));
  // A difference between schemas is told in words in the hint.
  EXPECT_THAT(binding->rejection->found + binding->rejection->subject + binding->rejection->hint,
              HasSubstr(fault.found));
  EXPECT_FALSE(binding->rejection->expected.empty());
  EXPECT_FALSE(binding->rejection->hint.empty());

  SiluCall call;
  const Status status = call.run(*runtime);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(call.provider.last_provider(), "native");

  Options strict = world.options();
  strict.strict = true;
  strict.routes = {{"silu_and_mul", {"acme", "native"}}};
  StatusOr<Runtime> strict_runtime = Runtime::open(strict);
  ASSERT_TRUE(strict_runtime.ok()) << strict_runtime.status().message();
  SiluCall strict_call;
  const Status refused = strict_call.run(*strict_runtime);
  ASSERT_FALSE(refused.ok());
  ASSERT_NE(refused.rejection(), nullptr);
  EXPECT_EQ(refused.rejection()->rule, fault.rule);
  EXPECT_EQ(strict_call.out[0], -77.0f) << "a refused call wrote its output";
}

INSTANTIATE_TEST_SUITE_P(Faults, ProviderFaultTest, ::testing::ValuesIn(faults()),
                         [](const auto& info) { return info.param.name; });

TEST(ProviderConflictTest, TheLowerPriorityOfTwoThatDefineOneNamespaceIsRejected) {
  OPMUX_REQUIRE_PROVIDERS();
  World world;
  const fs::path first = world.install("acme", kLibrary, OPMUX_ACME_GOOD);
  const fs::path second = world.install("rival", "rival/_C.abi3.so", OPMUX_ACME_GOOD);
  world.write_manifest("acme.yaml", kManifest);
  std::string rival = kManifest;
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"provider: acme", "provider: rival"},
           {"priority: 90", "priority: 80"},
           {"distribution: acme, glob: \"acme/", "distribution: rival, glob: \"rival/"}}) {
    rival.replace(rival.find(before), before.size(), after);
  }
  world.write_manifest("rival.yaml", rival);
  Options options = world.options();
  options.load = false;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* winner = testing::binding_of(report, "silu_and_mul", "acme");
  const BindingReport* loser = testing::binding_of(report, "silu_and_mul", "rival");
  ASSERT_NE(winner, nullptr);
  ASSERT_NE(loser, nullptr);
  EXPECT_TRUE(winner->usable) << to_string(*winner->rejection);
  ASSERT_TRUE(loser->rejection.has_value());
  EXPECT_EQ(loser->rejection->rule, "probe.conflict");
  const std::string text = to_string(*loser->rejection);
  EXPECT_THAT(text, HasSubstr(first.string()));
  EXPECT_THAT(text, HasSubstr(second.string()));
}

TEST(ModuleForTorchTest, AMissingModuleNamesTheCommandThatBuildsIt) {
  OPMUX_REQUIRE_PROVIDERS();
  World world;
  world.install("acme", kLibrary, OPMUX_ACME_GOOD);
  std::string manifest = kManifest;
  manifest.replace(manifest.find("plugin: vllm"), 12, "plugin: none");
  world.write_manifest("acme.yaml", manifest);
  Options options = world.options();
  options.load = false;
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok());
  const Report report = runtime->report();
  const BindingReport* binding = testing::binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_TRUE(binding->rejection.has_value());
  EXPECT_EQ(binding->rejection->rule, "discovery.module_missing");
  EXPECT_THAT(binding->rejection->expected, HasSubstr("2.11.0"));
  EXPECT_THAT(binding->rejection->hint, HasSubstr("./dev build --environment"));
}

}  // namespace
}  // namespace opmux
