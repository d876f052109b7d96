// SPDX-License-Identifier: Apache-2.0
//
// Bindings that modules are asked for in the probe, and Python's library in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fakes/fakes.hpp"
#include "tests/probe/probing.hpp"

namespace opmux {
namespace {

using ::testing::HasSubstr;

LoadSet with_bindings(std::initializer_list<const char*> operator_names) {
  LoadSet load_set = load_set_of({fakes::path("none")});
  load_set.modules.push_back(fakes::path("module_binds"));
  for (const char* name : operator_names) load_set.bindings.push_back(answer_binding(name));
  return load_set;
}

TEST(ProbedBinding, ThatTheModuleMakesHasNoRejection) {
  const Findings found = probe(with_bindings({"answer", "another"}), patient());
  ASSERT_EQ(found.bindings.size(), 2u);
  EXPECT_FALSE(found.bindings[0]) << to_string(*found.bindings[0]);
  EXPECT_FALSE(found.bindings[1]);
  EXPECT_EQ(found.probes, 1);
}

TEST(ProbedBinding, ThatTheModuleRefusesCostsTheOthersNothing) {
  const Findings found = probe(with_bindings({"refused", "answer", "thrown"}), patient());
  ASSERT_EQ(found.bindings.size(), 3u);
  ASSERT_TRUE(found.bindings[0]);
  EXPECT_EQ(found.bindings[0]->rule, "loader.bind_refused");
  EXPECT_EQ(found.bindings[0]->subject, fakes::path("module_binds").native() + ": refused");
  EXPECT_EQ(found.bindings[0]->expected, "the module to bind fake_answer");
  EXPECT_EQ(found.bindings[0]->found, "fake: no such function is known");
  EXPECT_FALSE(found.bindings[1]);
  ASSERT_TRUE(found.bindings[2]);
  EXPECT_EQ(found.bindings[2]->found, "it threw: fake: thrown by bind");
  EXPECT_FALSE(found.modules[0].rejection);
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_EQ(found.probes, 1);
}

TEST(ProbedBinding, ThatCrashesTheModuleIsBlamedAloneAndTheRestIsProbedAgain) {
  const Findings found = probe(with_bindings({"answer", "crashed", "refused"}), patient());
  ASSERT_EQ(found.bindings.size(), 3u);
  EXPECT_FALSE(found.bindings[0]) << to_string(*found.bindings[0]);
  ASSERT_TRUE(found.bindings[1]);
  EXPECT_EQ(found.bindings[1]->rule, "probe.signal");
  EXPECT_EQ(found.bindings[1]->subject, fakes::path("none").native() + ": fake_answer");
  EXPECT_THAT(found.bindings[1]->found, HasSubstr("SIGABRT"));
  EXPECT_THAT(found.bindings[1]->found, HasSubstr("fake: about to abort in bind"));
  ASSERT_TRUE(found.bindings[2]);
  EXPECT_EQ(found.bindings[2]->rule, "loader.bind_refused");
  EXPECT_FALSE(found.modules[0].rejection);
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_EQ(found.probes, 2);
}

TEST(ProbedBinding, WhoseFunctionADependencyHasIsRefused) {
  LoadSet load_set = with_bindings({"answer"});
  load_set.libraries[0].path = fakes::path("depends");
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.bindings[0]);
  EXPECT_EQ(found.bindings[0]->rule, "contract.symbol_elsewhere");
  EXPECT_EQ(found.bindings[0]->found,
            "defined in " + fakes::path("libfake_answer_dependency").native());
}

TEST(ProbedBinding, OfALibraryThatCrashesHasNoRejectionOfItsOwn) {
  LoadSet load_set = with_bindings({"answer", "answer"});
  load_set.libraries.push_back({fakes::path("abort"), false, "fake: abort"});
  load_set.bindings[0].library = 1;
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.libraries[1].rejection);
  EXPECT_EQ(found.libraries[1].rejection->rule, "probe.signal");
  EXPECT_FALSE(found.bindings[0]);
  EXPECT_FALSE(found.bindings[1]);
  EXPECT_EQ(found.probes, 2);
}

// The second round counts the modules and libraries that are left.
TEST(ProbedBinding, IsAskedOfItsOwnModuleAndLibraryAfterOthersWereRejected) {
  LoadSet load_set = load_set_of({fakes::path("abort"), fakes::path("none"), fakes::path("other")});
  load_set.modules = {fakes::path("module_refuses"), fakes::path("module_binds")};
  load_set.bindings = {answer_binding("answer"), answer_binding("refused")};
  load_set.bindings[0].module = load_set.bindings[1].module = 1;
  load_set.bindings[0].library = 1;
  load_set.bindings[1].library = 2;
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.modules[0].rejection);
  ASSERT_TRUE(found.libraries[0].rejection);
  EXPECT_FALSE(found.bindings[0]) << to_string(*found.bindings[0]);
  ASSERT_TRUE(found.bindings[1]);
  EXPECT_EQ(found.bindings[1]->rule, "loader.bind_refused");
}

TEST(ProbedPython, IsMappedBeforeTheLibraries) {
  LoadSet load_set = load_set_of({fakes::path("needs_python")});
  EXPECT_TRUE(probe(load_set, patient()).libraries[0].rejection) << "it needs no Python";
  load_set.python = python_library(fakes::libpython("3.99"), "3.99");
  const Findings found = probe(load_set, patient());
  EXPECT_FALSE(found.python_rejection) << to_string(*found.python_rejection);
  EXPECT_FALSE(found.libraries[0].rejection) << to_string(*found.libraries[0].rejection);
}

TEST(ProbedPython, ThatIsMissingIsTheReasonOfWhatNeedsIt) {
  LoadSet load_set = load_set_of({fakes::path("needs_python"), fakes::path("none")});
  load_set.python = python_library(fakes::libpython("3.99"), "3.99");
  load_set.python->path = "/nowhere/libpython3.99.so.1.0";
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.python_rejection);
  EXPECT_EQ(found.python_rejection->rule, "loader.open_failed");
  EXPECT_EQ(found.python_rejection->subject, "/nowhere/libpython3.99.so.1.0");
  ASSERT_TRUE(found.libraries[0].rejection);
  EXPECT_EQ(to_string(*found.libraries[0].rejection), to_string(*found.python_rejection));
  EXPECT_FALSE(found.libraries[1].rejection);
}

TEST(ProbedPython, ThatCrashesIsLeftOutOfTheNextProbe) {
  LoadSet load_set = load_set_of({fakes::path("none")});
  load_set.python = python_library(fakes::libpython("3.99"), "3.99");
  load_set.python->path = fakes::path("abort");
  const Findings found = probe(load_set, patient());
  ASSERT_TRUE(found.python_rejection);
  EXPECT_EQ(found.python_rejection->rule, "probe.signal");
  EXPECT_EQ(found.python_rejection->subject, fakes::path("abort").native());
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_EQ(found.probes, 2);
}

}  // namespace
}  // namespace opmux
