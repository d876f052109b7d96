// SPDX-License-Identifier: Apache-2.0
//
// Providers that register nothing and export functions: from the manifest to the call, without
// torch. The functions answer 42 and the fake module writes that into the last tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakes/fakes.hpp"
#include "tests/runtime/world.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::binding_of;
using ::testing::HasSubstr;
using testing::SiluCall;
using testing::World;

constexpr const char* kLibrary = "acme/kernels.so";
constexpr const char* kSilu = R"yaml(
  silu_and_mul:
    - library: k
      required_symbols: fake_answer
      returns: int
      call: [input, out]
      when: {device: cpu}
)yaml";

constexpr const char* kDeclared = R"yaml(
declare:
  answer: {schema: "answer(Tensor(a!) out) -> ()"}
  refused: {schema: "refused(Tensor(a!) out) -> ()"}
  crashed: {schema: "crashed(Tensor(a!) out) -> ()"}
)yaml";

std::string with_function(std::string operators, const std::string& function) {
  return operators.replace(operators.find("fake_answer"), 11, function);
}

std::string manifest(const std::string& provider, int priority, const std::string& operators,
                     const std::string& keys = "") {
  return "manifest: 1\nprovider: " + provider +
         "\nplugin: binds\npriority: " + std::to_string(priority) +
         "\nlibraries:\n  k: {distribution: " + provider + ", glob: \"" + provider + "/*.so\"" +
         keys + "}\noperators:" + operators;
}

class DirectSymbolsTest : public ::testing::Test {
 protected:
  DirectSymbolsTest() {
    fs::copy_file(fakes::path("module_binds"), world_.manifests() / "opmux_binds.so");
  }

  // Opens a runtime; without `load` nothing is mapped and what the report says is known before
  // any traffic.
  Report report(bool load = false) {
    Options options = world_.options();
    options.load = load;
    StatusOr<Runtime> runtime = Runtime::open(options);
    EXPECT_TRUE(runtime.ok()) << runtime.status().message();
    return runtime.ok() ? runtime->report() : Report{};
  }

  static void expect_usable(const Report& report, const std::string& operator_name,
                            const std::string& provider) {
    const BindingReport* binding = binding_of(report, operator_name, provider);
    ASSERT_NE(binding, nullptr) << operator_name;
    EXPECT_TRUE(binding->usable) << (binding->rejection ? to_string(*binding->rejection) : "");
  }
  static Rejection rejection_of(const Report& report, const std::string& operator_name,
                                const std::string& provider) {
    const BindingReport* binding = binding_of(report, operator_name, provider);
    EXPECT_NE(binding, nullptr) << operator_name;
    if (binding == nullptr || !binding->rejection) return {};
    EXPECT_FALSE(binding->usable);
    EXPECT_FALSE(binding->callable);
    return *binding->rejection;
  }

  // A distribution with kernels.so and spare.so, and the manifest that takes them in this order.
  void install_two(const std::string& provider, const fs::path& first, const fs::path& second) {
    world_.install(provider, provider + "/kernels.so", first);
    fs::copy_file(second, world_.site_packages() / provider / "spare.so");
    world_.folder().write("env/lib/python3.12/site-packages/" + provider + "-1.0.dist-info/RECORD",
                          provider + "/kernels.so,,\n" + provider + "/spare.so,,\n");
  }
  static std::string manifest_of_two(const std::string& provider, int priority,
                                     const std::string& operators) {
    const std::string candidate = "    - {distribution: " + provider + ", glob: " + provider;
    return "manifest: 1\nprovider: " + provider +
           "\nplugin: binds\npriority: " + std::to_string(priority) + "\nlibraries:\n  k:\n" +
           candidate + "/kernels.so}\n" + candidate + "/spare.so}\noperators:" + operators;
  }

  void expect_native_serves_and_strict_repeats(const Rejection& rejection) {
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(call.provider.last_provider(), "native");

    Options strict = world_.options();
    strict.strict = true;
    StatusOr<Runtime> strict_runtime = Runtime::open(strict);
    ASSERT_TRUE(strict_runtime.ok()) << strict_runtime.status().message();
    SiluCall refused;
    const Status status = refused.run(*strict_runtime);
    ASSERT_FALSE(status.ok());
    ASSERT_NE(status.rejection(), nullptr);
    EXPECT_EQ(to_string(*status.rejection()), to_string(rejection));
    EXPECT_EQ(refused.out[0], -77.0f) << "a refused call wrote its output";
  }

  World world_;
};

TEST_F(DirectSymbolsTest, TheFunctionIsCalled) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report report = runtime->report();
  const BindingReport* binding = binding_of(report, "silu_and_mul", "acme");
  ASSERT_NE(binding, nullptr);
  ASSERT_TRUE(binding->usable) << to_string(*binding->rejection);
  EXPECT_TRUE(binding->callable);
  EXPECT_EQ(binding->contract, "direct_symbol");
  EXPECT_EQ(binding->library, library.string());
  SiluCall call;
  const Status status = call.run(*runtime);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(call.provider.last_provider(), "acme");
  EXPECT_EQ(call.out[0], 42.0f);
}

TEST_F(DirectSymbolsTest, AReportOnlyRuntimeMapsNothingAndSaysUsable) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  const Report found = report();
  expect_usable(found, "silu_and_mul", "acme");
  EXPECT_FALSE(binding_of(found, "silu_and_mul", "acme")->callable);
  EXPECT_THAT(testing::read_whole("/proc/self/maps"), ::testing::Not(HasSubstr(library.string())));
}

TEST_F(DirectSymbolsTest, ASecondStartNeedsNoProbeAndSaysTheSame) {
  world_.install("acme", kLibrary, fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  world_.write_manifest("misses.yaml",
                        "manifest: 1\nprovider: misses\nplugin: binds\nlibraries:\n"
                        "  k: {distribution: acme, glob: \"acme/*.so\"}\noperators:\n"
                        "  silu_and_mul: {library: k, required_symbols: fake_answr, "
                        "when: {device: cpu}}\n");
  const Report cold = report();
  EXPECT_EQ(cold.probes, 1);
  const Report warm = report();
  EXPECT_EQ(warm.probes, 0);
  expect_usable(warm, "silu_and_mul", "acme");
  EXPECT_EQ(rejection_of(cold, "silu_and_mul", "misses").rule, "contract.symbol_missing");
  EXPECT_EQ(to_string(rejection_of(warm, "silu_and_mul", "misses")),
            to_string(rejection_of(cold, "silu_and_mul", "misses")));
}

TEST_F(DirectSymbolsTest, TheSecondAlternativeServesWhereTheFirstsFunctionIsMissing) {
  world_.install("acme", kLibrary, fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, R"yaml(
  silu_and_mul:
    - {library: k, required_symbols: "later(at::Tensor&)", when: {device: cpu}}
    - {library: k, required_symbols: fake_answer, when: {device: cpu}}
)yaml"));
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok());
  SiluCall call;
  ASSERT_TRUE(call.run(*runtime).ok());
  EXPECT_EQ(call.provider.last_provider(), "acme");
  EXPECT_EQ(call.out[0], 42.0f);
}

// ---- rejections before any traffic ----

TEST_F(DirectSymbolsTest, AMissingFunctionIsToldWithTheNearestAndNativeServes) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("none"));
  world_.write_manifest("acme.yaml",
                        manifest("acme", 90, with_function(kSilu, "\"fake_answer(int)\"")));
  const Rejection rejection = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(rejection.rule, "contract.symbol_missing");
  EXPECT_EQ(rejection.subject, library.string() + ": fake_answer(int)");
  EXPECT_EQ(rejection.expected, "an exported function of exactly this name");
  EXPECT_THAT(rejection.found, HasSubstr("; the nearest is fake_answer: it is a C symbol"));
  expect_native_serves_and_strict_repeats(rejection);
}

TEST_F(DirectSymbolsTest, FieldReportA05TheErrorOfACallRepeatsWhyTheLibraryWasRefused) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("unresolved"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  const Rejection rejection = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(rejection.rule, "contract.undefined_symbol");
  EXPECT_EQ(rejection.subject, library.string() + ": fake_function_that_nobody_has");
  EXPECT_THAT(rejection.found, HasSubstr("needs fake_function_that_nobody_has"));
  expect_native_serves_and_strict_repeats(rejection);
}

TEST_F(DirectSymbolsTest, ARefusalToBindIsKnownBeforeAnyTraffic) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, R"yaml(
  answer: {library: k, required_symbols: fake_answer, when: {device: cpu}}
  refused: {library: k, required_symbols: fake_answer, when: {device: cpu}}
  crashed: {library: k, required_symbols: fake_answer, when: {device: cpu}}
)yaml") + kDeclared);
  const Report found = report();
  expect_usable(found, "answer", "acme");
  const std::string module = fs::canonical(world_.manifests() / "opmux_binds.so").string();
  const Rejection refused = rejection_of(found, "refused", "acme");
  EXPECT_EQ(refused.rule, "loader.bind_refused");
  EXPECT_EQ(refused.subject, module + ": refused");
  EXPECT_EQ(refused.expected, "the module to bind fake_answer");
  EXPECT_EQ(refused.found, "fake: no such function is known");
  const Rejection crashed = rejection_of(found, "crashed", "acme");
  EXPECT_EQ(crashed.rule, "probe.signal");
  EXPECT_EQ(crashed.subject, library.string() + ": fake_answer");
  EXPECT_THAT(crashed.found, HasSubstr("SIGABRT"));
}

// ---- libraries in each other's way ----

TEST_F(DirectSymbolsTest, OfTwoThatExportTheFunctionTheLowerIsRejectedAndTheOtherServes) {
  const fs::path first = world_.install("acme", kLibrary, fakes::path("none"));
  const fs::path second = world_.install("rival", "rival/others.so", fakes::path("other"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  world_.write_manifest("rival.yaml", manifest("rival", 80, kSilu));
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report found = runtime->report();
  expect_usable(found, "silu_and_mul", "acme");
  const Rejection rejection = rejection_of(found, "silu_and_mul", "rival");
  EXPECT_EQ(rejection.rule, "contract.symbol_twice");
  EXPECT_EQ(rejection.subject, second.string() + ": fake_answer");
  EXPECT_EQ(rejection.expected, "exported once, by acme: k (" + first.string() + ")");
  EXPECT_EQ(rejection.found, "exported by rival: k (" + second.string() +
                                 "), which stands later in the load set, too");
  SiluCall call;
  ASSERT_TRUE(call.run(*runtime).ok());
  EXPECT_EQ(call.provider.last_provider(), "acme");
  EXPECT_EQ(call.out[0], 42.0f);
}

TEST_F(DirectSymbolsTest, ALibraryThatTheProbeRejectsStandsInNobodysWay) {
  world_.install("acme", kLibrary, fakes::path("abort"));
  world_.install("rival", "rival/others.so", fakes::path("other"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  world_.write_manifest("rival.yaml", manifest("rival", 80, kSilu));
  const Report found = report();
  EXPECT_EQ(rejection_of(found, "silu_and_mul", "acme").rule, "probe.signal");
  expect_usable(found, "silu_and_mul", "rival");
}

TEST_F(DirectSymbolsTest, ThePriorityDecidesNotTheName) {
  world_.install("acme", kLibrary, fakes::path("none"));
  world_.install("rival", "rival/others.so", fakes::path("other"));
  world_.write_manifest("acme.yaml", manifest("acme", 70, kSilu));
  world_.write_manifest("rival.yaml", manifest("rival", 80, kSilu));
  const Report found = report();
  expect_usable(found, "silu_and_mul", "rival");
  EXPECT_EQ(rejection_of(found, "silu_and_mul", "acme").rule, "contract.symbol_twice");
}

TEST_F(DirectSymbolsTest, OfTwoFilesOfOneNameTheLowerIsRejected) {
  const fs::path first = world_.install("acme", kLibrary, fakes::path("none"));
  const fs::path second = world_.install("rival", "rival/kernels.so", fakes::libpython("3.99"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  world_.write_manifest("rival.yaml", manifest("rival", 80, with_function(kSilu, "Py_GetVersion")));
  const Report found = report();
  expect_usable(found, "silu_and_mul", "acme");
  const Rejection rejection = rejection_of(found, "silu_and_mul", "rival");
  EXPECT_EQ(rejection.rule, "contract.same_base_name");
  EXPECT_EQ(rejection.subject, second.string());
  EXPECT_EQ(rejection.expected, "one library called kernels.so, acme: k (" + first.string() + ")");
  EXPECT_EQ(rejection.found, "a second one in " + second.parent_path().string());
}

TEST_F(DirectSymbolsTest, ALibraryInTheWayFallsBackToItsNextCandidate) {
  const fs::path other = fakes::libpython("3.99");
  world_.install("acme", kLibrary, fakes::path("none"));
  install_two("rival", other, other);
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  world_.write_manifest("rival.yaml",
                        manifest_of_two("rival", 80, with_function(kSilu, "Py_GetVersion")));
  const Report found = report();
  expect_usable(found, "silu_and_mul", "acme");
  expect_usable(found, "silu_and_mul", "rival");
  EXPECT_THAT(binding_of(found, "silu_and_mul", "rival")->library.value_or(""),
              HasSubstr("rival/spare.so"));
}

// A library whose functions are missing is not loaded, so it is in nobody's way.
TEST_F(DirectSymbolsTest, ALibraryThatNothingUsesIsNoConflict) {
  world_.install("acme", kLibrary, fakes::path("none"));
  world_.install("rival", "rival/others.so", fakes::path("other"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, with_function(kSilu, "fake_gone")));
  world_.write_manifest("rival.yaml", manifest("rival", 80, kSilu));
  const Report found = report();
  EXPECT_EQ(rejection_of(found, "silu_and_mul", "acme").rule, "contract.symbol_missing");
  expect_usable(found, "silu_and_mul", "rival");
}

// ---- candidates ----

TEST_F(DirectSymbolsTest, ACandidateWithoutTheFunctionFallsBackToTheNext) {
  install_two("acme", fakes::libpython("3.99"), fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest_of_two("acme", 90, kSilu));
  StatusOr<Runtime> runtime = Runtime::open(world_.options());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const Report found = runtime->report();
  expect_usable(found, "silu_and_mul", "acme");
  EXPECT_EQ(binding_of(found, "silu_and_mul", "acme")->library,
            (world_.site_packages() / "acme/spare.so").string());
  SiluCall call;
  ASSERT_TRUE(call.run(*runtime).ok());
  EXPECT_EQ(call.provider.last_provider(), "acme");
  EXPECT_EQ(call.out[0], 42.0f);
}

TEST_F(DirectSymbolsTest, WhereNoCandidateHasAFunctionEachOperatorIsToldItsOwn) {
  install_two("acme", fakes::libpython("3.99"), fakes::path("none"));
  world_.write_manifest("acme.yaml", manifest_of_two("acme", 90, R"yaml(
  answer: {library: k, required_symbols: fake_gone, when: {device: cpu}}
  refused: {library: k, required_symbols: fake_lost, when: {device: cpu}}
)yaml") + kDeclared);
  const Report found = report();
  const std::string last = (world_.site_packages() / "acme/spare.so").string();
  for (const auto& [operator_name, function] :
       {std::pair("answer", "fake_gone"), std::pair("refused", "fake_lost")}) {
    const Rejection rejection = rejection_of(found, operator_name, "acme");
    EXPECT_EQ(rejection.rule, "contract.symbol_missing");
    EXPECT_EQ(rejection.subject, last + ": " + function);
    EXPECT_EQ(rejection.expected, "an exported function of exactly this name");
  }
}

// ---- what the cache must not hide ----

TEST_F(DirectSymbolsTest, ASecondStartSeesWhatTheManifestAsksForNow) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("two_answers"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  expect_usable(report(), "silu_and_mul", "acme");
  world_.write_manifest(
      "acme.yaml", manifest("acme", 90, with_function(kSilu, "fake_answer\n      exact: true")));
  const Rejection exact = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(exact.rule, "contract.symbol_unexpected");
  EXPECT_EQ(exact.subject, library.string());
  EXPECT_EQ(exact.expected, "exactly 1 exported symbol");
  EXPECT_EQ(exact.found, "fake_second_answer besides");
  world_.write_manifest("acme.yaml",
                        manifest("acme", 90, with_function(kSilu, "[fake_answer, fake_gone]")));
  const Rejection missing = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(missing.rule, "contract.symbol_missing");
  EXPECT_EQ(missing.subject, library.string() + ": fake_gone");
  EXPECT_THAT(missing.found, HasSubstr("not among the 2 functions that the library exports"));
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  expect_usable(report(), "silu_and_mul", "acme");
}

TEST_F(DirectSymbolsTest, ASecondStartSeesADependencyThatChanged) {
  const fs::path library = world_.install("acme", kLibrary, fakes::path("needs_neighbour"));
  const fs::path dependency = library.parent_path() / "libfake_neighbour.so";
  const auto replace_dependency = [&](const char* fake) {
    fs::copy_file(fakes::path(fake), dependency, fs::copy_options::overwrite_existing);
  };
  world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu));
  replace_dependency("libfake_neighbour");
  expect_usable(report(), "silu_and_mul", "acme");
  replace_dependency("other");
  const Rejection rejection = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(rejection.rule, "contract.symbol_twice");
  EXPECT_EQ(rejection.subject, library.string() + ": fake_answer");
  EXPECT_EQ(rejection.expected, "exported by " + library.string() + " alone");
  EXPECT_EQ(rejection.found, "exported by " + dependency.string() + ", which it needs, too");
  replace_dependency("libfake_neighbour");
  expect_usable(report(), "silu_and_mul", "acme");
  testing::write_whole(dependency, "garbage");
  EXPECT_EQ(rejection_of(report(), "silu_and_mul", "acme").rule, "contract.not_elf");
  replace_dependency("libfake_neighbour");
  expect_usable(report(), "silu_and_mul", "acme");
}

// ---- true Python extensions ----

// What a case maps stays mapped, and another one's Python is a conflict: each that maps one has a
// process of its own.

class PythonExtensionTest : public DirectSymbolsTest {
 protected:
  void SetUp() override {
    library_ = world_.install("acme", "acme/kernels.cpython-399-x86_64-linux-gnu.so",
                              fakes::path("needs_python"));
    world_.write_manifest("acme.yaml", manifest("acme", 90, kSilu, ", libpython: true"));
  }
  void install_libpython(const std::string& version = "3.99") {
    fs::copy_file(fakes::libpython(version),
                  world_.folder() / ("env/lib/libpython" + version + ".so.1.0"));
  }
  // An extension for Python 3.98 beside acme's for 3.99, and the libraries of both.
  fs::path install_rival() {
    install_libpython();
    install_libpython("3.98");
    world_.write_manifest("rival.yaml", manifest("rival", 80, kSilu, ", libpython: true"));
    return world_.install("rival", "rival/others.cpython-398-x86_64-linux-gnu.so",
                          fakes::path("needs_python"));
  }

  template <class Body>
  void in_own_process(Body body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  fs::path library_;
};

TEST_F(PythonExtensionTest, IsServedInAProcessWithoutPython) {
  install_libpython();
  in_own_process([&] {
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    expect_usable(runtime->report(), "silu_and_mul", "acme");
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_EQ(call.provider.last_provider(), "acme");
    EXPECT_EQ(call.out[0], 42.0f);
  });
}

TEST_F(PythonExtensionTest, IsServedInAProcessThatHoldsItsPython) {
  install_libpython();
  in_own_process([&] {
    ASSERT_NE(dlopen(fakes::libpython("3.99").c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr);
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_EQ(call.provider.last_provider(), "acme");
  });
}

TEST_F(PythonExtensionTest, IsRejectedInAProcessThatHoldsAnotherPython) {
  install_libpython();
  in_own_process([&] {
    ASSERT_NE(dlopen(fakes::libpython("3.98").c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr);
    const Rejection rejection = rejection_of(report(true), "silu_and_mul", "acme");
    EXPECT_EQ(rejection.rule, "loader.python_conflict");
    EXPECT_EQ(rejection.expected, "Python 3.99, or none, in this process");
    EXPECT_EQ(rejection.found, "Python 3.98");
  });
}

TEST_F(PythonExtensionTest, IsRejectedWhereItsPythonIsNowhere) {
  const Rejection rejection = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(rejection.rule, "discovery.libpython_missing");
  EXPECT_EQ(rejection.subject, "libpython3.99.so.1.0");
  EXPECT_THAT(rejection.found, HasSubstr((world_.folder() / "env/lib").string()));
}

TEST_F(PythonExtensionTest, IsRejectedWhereNothingTellsItsPython) {
  fs::rename(library_, library_.parent_path() / "kernels.abi3.so");
  world_.folder().write("env/lib/python3.12/site-packages/acme-1.0.dist-info/RECORD",
                        "acme/kernels.abi3.so,,\n");
  const Rejection rejection = rejection_of(report(), "silu_and_mul", "acme");
  EXPECT_EQ(rejection.rule, "discovery.libpython_missing");
  EXPECT_EQ(rejection.expected, "a file name that tells its Python, or a torch that does");
  EXPECT_EQ(rejection.found, "neither");
}

TEST_F(PythonExtensionTest, OfAnotherPythonThanOneOfHigherPriorityIsRejected) {
  const fs::path rival = install_rival();
  const Report found = report();
  expect_usable(found, "silu_and_mul", "acme");
  const Rejection rejection = rejection_of(found, "silu_and_mul", "rival");
  EXPECT_EQ(rejection.rule, "loader.python_conflict");
  EXPECT_EQ(rejection.subject, rival.string());
  EXPECT_EQ(rejection.expected,
            "Python 3.99, which acme: k before it in the load set is built for");
  EXPECT_EQ(rejection.found, "Python 3.98");
}

TEST_F(PythonExtensionTest, OfAnotherPythonThanOneEarlierInTheRouteIsRejected) {
  install_rival();
  Options options = world_.options();
  options.load = false;
  // Routes of operators that neither binds do not count.
  options.routes = {{"silu_and_mul", {"rival", "acme", "native"}}};
  StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  expect_usable(runtime->report(), "silu_and_mul", "rival");
  const Rejection rejection = rejection_of(runtime->report(), "silu_and_mul", "acme");
  EXPECT_EQ(rejection.rule, "loader.python_conflict");
  EXPECT_EQ(rejection.subject, library_.string());
  EXPECT_EQ(rejection.expected,
            "Python 3.98, which rival: k before it in the load set is built for");
  EXPECT_EQ(rejection.found, "Python 3.99");
}

TEST_F(PythonExtensionTest, WithoutItsFunctionsBarsNoOtherPython) {
  const fs::path rival = install_rival();
  world_.write_manifest(
      "acme.yaml", manifest("acme", 90, with_function(kSilu, "fake_gone"), ", libpython: true"));
  in_own_process([&] {
    StatusOr<Runtime> runtime = Runtime::open(world_.options());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    EXPECT_EQ(rejection_of(runtime->report(), "silu_and_mul", "acme").rule,
              "contract.symbol_missing");
    expect_usable(runtime->report(), "silu_and_mul", "rival");
    SiluCall call;
    ASSERT_TRUE(call.run(*runtime).ok());
    EXPECT_EQ(call.provider.last_provider(), "rival");
    const std::string maps = testing::read_whole("/proc/self/maps");
    EXPECT_THAT(maps, HasSubstr(rival.string()));
    EXPECT_THAT(maps, HasSubstr("libpython3.98.so.1.0"));
    EXPECT_THAT(maps, ::testing::Not(HasSubstr(library_.string())));
    EXPECT_THAT(maps, ::testing::Not(HasSubstr("libpython3.99.so.1.0")));
  });
}

}  // namespace
}  // namespace opmux
