// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "core/loader/loader.hpp"
#include "tests/fakes/fakes.hpp"

namespace opmux {
namespace {

Rejection refused(const std::string& fake) {
  const Result<PluginModule> opened = open_module(fakes::path(fake));
  EXPECT_FALSE(opened.ok()) << fake;
  if (opened.ok()) return {};
  EXPECT_EQ(opened.rejection().subject, fakes::path(fake).native());
  EXPECT_FALSE(opened.rejection().hint.empty());
  return opened.rejection();
}

TEST(OpenModule, GivesTheModulesOwnTable) {
  const Result<PluginModule> opened = open_module(fakes::path("module_none"));
  ASSERT_TRUE(opened.ok()) << to_string(opened.rejection());
  EXPECT_EQ(opened->path, fakes::path("module_none"));
  const OpmuxModule& module = *opened->module;
  EXPECT_STREQ(module.name, "fake");
  EXPECT_STREQ(module.version, "1.2");
  EXPECT_STREQ(module.build_identity, "fake 3");
  ASSERT_EQ(module.operator_count, 2u);
  EXPECT_STREQ(module.operators[1].name, "fake_second");
  EXPECT_EQ(module.operators[1].device_type, OPMUX_DEVICE_CUDA);
  EXPECT_EQ(module.bind, nullptr);
}

TEST(OpenModule, RefusesALibraryWithoutTheEntryPoint) {
  const Rejection rejection = refused("module_no_entry");
  EXPECT_EQ(rejection.rule, "loader.no_entry");
  EXPECT_EQ(rejection.expected, "exported symbol opmux_plugin_open");
  EXPECT_EQ(rejection.found, "none");
}

TEST(OpenModule, RefusesAnEntryPointThatOnlyADependencyHas) {
  const Rejection rejection = refused("module_entry_in_dependency");
  EXPECT_EQ(rejection.rule, "loader.no_entry");
  EXPECT_EQ(rejection.found, "it is exported by the dependency " +
                                 fakes::path("libfake_entry_dependency").native() + " only");
}

TEST(OpenModule, RefusesAnotherMajorVersion) {
  const Rejection rejection = refused("module_wrong_major");
  EXPECT_EQ(rejection.rule, "loader.abi");
  EXPECT_EQ(rejection.expected, "plugin ABI 2.0 to 2.1");
  EXPECT_EQ(rejection.found, "plugin ABI 3.1");
}

TEST(OpenModule, TakesANewerMinorVersion) {
  EXPECT_TRUE(open_module(fakes::path("module_newer_minor")).ok());
}

TEST(OpenModule, RepeatsTheModulesReason) {
  const Rejection rejection = refused("module_refuses");
  EXPECT_EQ(rejection.rule, "loader.module_refused");
  EXPECT_EQ(rejection.expected, "opmux_plugin_open returns OPMUX_OK");
  EXPECT_EQ(rejection.found, "OPMUX_INCOMPATIBLE (5): fake: built for another world");
  EXPECT_EQ(refused("module_refuses_silently").found, "OPMUX_INCOMPATIBLE (5), without a message");
}

TEST(OpenModule, StopsExceptionsAtTheBorder) {
  const Rejection rejection = refused("module_throws");
  EXPECT_EQ(rejection.rule, "loader.module_refused");
  EXPECT_EQ(rejection.found, "it threw: fake: thrown by the entry");
  EXPECT_EQ(refused("module_throws_number").found, "it threw something that is no std::exception");
}

TEST(OpenModule, RefusesAModuleWithoutATable) {
  const Rejection rejection = refused("module_no_table");
  EXPECT_EQ(rejection.rule, "loader.abi");
  EXPECT_EQ(rejection.expected, "a module table");
  EXPECT_EQ(rejection.found, "OPMUX_OK without a module table");
}

TEST(OpenModule, ReadsNoFieldBeyondTheModulesSize) {
  const Result<PluginModule> opened = open_module(fakes::path("module_small_struct"));
  ASSERT_TRUE(opened.ok()) << to_string(opened.rejection());
  EXPECT_EQ(opened->module->start_listening, nullptr);
  EXPECT_EQ(opened->module->list_registrations, nullptr);
  EXPECT_EQ(opened->module->bind, nullptr);
  EXPECT_EQ(opened->module->device_services, nullptr);
  EXPECT_EQ(opened->module->operator_count, 2u);
}

TEST(OpenModule, ReadsEntriesAtTheModulesOwnDistance) {
  const Result<PluginModule> opened = open_module(fakes::path("module_large_entries"));
  ASSERT_TRUE(opened.ok()) << to_string(opened.rejection());
  ASSERT_EQ(opened->module->operator_count, 2u);
  EXPECT_STREQ(opened->module->operators[0].name, "fake_first");
  EXPECT_STREQ(opened->module->operators[1].name, "fake_second");
}

TEST(OpenModule, RefusesATableThatIsNotFilledIn) {
  const Rejection tiny = refused("module_tiny_struct");
  EXPECT_EQ(tiny.rule, "loader.abi");
  EXPECT_EQ(tiny.expected, "OpmuxModule.struct_size of at least " +
                               std::to_string(offsetof(OpmuxModule, start_listening)));
  EXPECT_EQ(tiny.found, "8");
  const Rejection nameless = refused("module_no_name");
  EXPECT_EQ(nameless.rule, "loader.abi");
  EXPECT_EQ(nameless.expected, "a module name");
  const Rejection operators = refused("module_no_operators");
  EXPECT_EQ(operators.rule, "loader.abi");
  EXPECT_EQ(operators.found, "operator_count 2 without a table");
  const Rejection entry = refused("module_bad_entry");
  EXPECT_EQ(entry.rule, "loader.abi");
  EXPECT_EQ(entry.expected, "operators[0] with name, schema and call");
}

TEST(OpenLinkedModule, ShakesHandsAsWithAFile) {
  const OpmuxPluginOpen refuses = [](const OpmuxHost* host, const OpmuxModule**) -> OpmuxStatus {
    host->set_error("not here");
    return OPMUX_INCOMPATIBLE;
  };
  const Result<PluginModule> opened = open_linked_module(refuses, "native");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.rejection().rule, "loader.module_refused");
  EXPECT_EQ(opened.rejection().subject, "linked-in module native");
  EXPECT_EQ(opened.rejection().found, "OPMUX_INCOMPATIBLE (5): not here");
  const Result<PluginModule> none = open_linked_module(nullptr, "native");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.rejection().rule, "loader.no_entry");
}

}  // namespace
}  // namespace opmux
